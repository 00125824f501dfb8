"""vLLM's own benchmark client (`vllm bench serve`) on one of our works, its claims request by request.

    python -m tests.benchmark.vllm_client URL WORK SCALE      (prints its claims as one JSON document)

It keeps no due times: its schedule begins when it does. Its requests carry an X-Request-Id, so they can be told apart.
"""

import argparse
import contextlib
import json
import sys
import tempfile
import time
from itertools import accumulate
from pathlib import Path

from harness.client import raise_open_files
from harness.experiment.engine_model import cache_dir
from harness.experiment.null_work import WORKS, Work
from harness.stack.tiny_model import make_tiny_model


def _arguments(url: str, work: Work, folder: str) -> list[str]:
    rate = "inf" if work.rate_per_s is None else str(work.rate_per_s)
    limit = ["--max-concurrency", str(work.wave)] if work.wave else []
    return [
        *("--backend", "vllm", "--base-url", url, "--model", "m"),
        *("--tokenizer", str(make_tiny_model("tiny-8l", cache_dir() / "models"))),
        *("--dataset-name", "random", "--random-input-len", str(work.prompt_tokens)),
        *("--random-output-len", str(work.max_tokens), "--ignore-eos", "--num-prompts", str(work.requests)),
        *("--request-rate", rate, *limit, "--request-id-prefix", "vllm-", "--disable-tqdm"),
        *("--save-result", "--save-detailed", "--result-dir", folder, "--result-filename", "result.json"),
    ]


def main(url: str, work_name: str, scale: float) -> None:
    """Send the work and print what was seen."""
    from vllm.benchmarks import serve  # noqa: PLC0415 - takes long, and is not there without the live stack

    raise_open_files()
    work = next(work for work in WORKS if work.name == work_name).scaled(scale)
    parser = argparse.ArgumentParser()
    serve.add_cli_args(parser)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        args = parser.parse_args(_arguments(url, work, folder))
        before_s = time.process_time()
        serve.main(args)
        cpu_s = time.process_time() - before_s
        result = json.loads((Path(folder) / "result.json").read_text())
    claims = [
        [f"vllm-{index}", None, round(sent * 1e9), [round(t * 1e9) for t in tokens], round(tokens[-1] * 1e9)]
        for index, (sent, ttft, itls) in enumerate(
            zip(result["start_times"], result["ttfts"], result["itls"], strict=True)
        )
        if (tokens := list(accumulate(itls, initial=sent + ttft))) and ttft
    ]
    json.dump({"claims": claims, "cpu_s": cpu_s}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
