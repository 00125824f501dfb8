"""Clients side by side on the same null server, in one run: only ratios within a run mean anything on a shared machine.

    python tests/benchmark/compare_clients.py                                    # everything there is, about 15 minutes
    python tests/benchmark/compare_clients.py --client thin --client httptools --work 16k-20 --scale 0.2

thin is a trial client without features (the floor of Python here), httptools and aiohttp are ours over either library,
vllm is `vllm bench serve` and aiperf its trace replay, where installed. The servers are ours and ../shared/tools's
null_target.py, where it is. Each client runs in a process of its own, on a server of its own. Errors are request by
request against what the server saw, in ms, p50 / p99 / max; docs/method.md defines them. The last table divides each
client's p99 by thin's.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import httpx  # noqa: E402
import orjson  # noqa: E402

from harness.experiment.null_error import Claim, ClientError, Sighting, client_error, sightings_of  # noqa: E402
from harness.experiment.null_work import ITL_MS, TTFT_MS, WORKS, Work  # noqa: E402
from harness.report.client_error import HEADERS, error_rows  # noqa: E402
from harness.stack import free_ports  # noqa: E402

TARGET = ROOT.parent / "shared" / "tools" / "null_target.py"
CLIENTS: dict[str, tuple[str, ...]] = {
    "thin": ("tests.benchmark.thin_client",),
    "httptools": ("tests.benchmark.our_client",),
    "aiohttp": ("tests.benchmark.our_client", "aiohttp"),
    "httptools-x2": ("tests.benchmark.our_client", "httptools", "2"),
    "vllm": ("tests.benchmark.vllm_client",),
    "aiperf": ("tests.benchmark.aiperf_client",),
}
Seen = Callable[[], dict[str, Sighting]]


def _installed(client: str) -> bool:
    if client == "vllm":
        return importlib.util.find_spec("vllm") is not None
    return client != "aiperf" or shutil.which("aiperf") is not None


@contextlib.contextmanager
def _ours() -> Iterator[tuple[str, Seen]]:
    """The null server of `kvreplay selftest`."""
    knobs = ("--ttft-ms", str(TTFT_MS), "--itl-ms", str(ITL_MS))
    with _running("-m", "harness.stack.null_server", *knobs) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        yield url, lambda: sightings_of(orjson.loads(httpx.get(f"{url}/seen", timeout=60.0).content))


@contextlib.contextmanager
def _target() -> Iterator[tuple[str, Seen]]:
    """null_target.py tells what it saw when it ends, and of the tokens the first and the last only."""
    knobs = ("--ttft", str(TTFT_MS / 1e3), "--itl", str(ITL_MS / 1e3))
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "times.jsonl"
        with _running(str(TARGET), "--port", str(port), *knobs, "--log", str(log)) as process:

            def seen() -> dict[str, Sighting]:
                process.send_signal(signal.SIGTERM)
                process.wait()
                rows = [json.loads(line) for line in log.read_text().splitlines()]
                return {row[4]: Sighting(round(row[1] * 1e9), [round(row[2] * 1e9)]) for row in rows}

            while not _is_up(url):
                time.sleep(0.1)
            yield url, seen


@contextlib.contextmanager
def _running(*arguments: str) -> "Iterator[subprocess.Popen[str]]":
    with subprocess.Popen([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _is_up(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{url}/health").is_success
    return False


SERVERS = {"ours": _ours, "target": _target}


def _one(client: str, server: str, work: Work, scale: float) -> ClientError | None:
    module, *options = CLIENTS[client]
    with SERVERS[server]() as (url, seen):
        ended = subprocess.run(
            [sys.executable, "-m", module, url, work.name, str(scale), *options],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode:
            sys.stderr.write(f"{client} on {work.name} ended with status {ended.returncode}\n{ended.stderr[-2000:]}\n")
            return None
        told = json.loads(ended.stdout[ended.stdout.index('{"claims"') :])
        claims = [Claim(*claim) for claim in told["claims"]]
        return client_error(client, work.name, work.scaled(scale).requests, claims, seen(), told["cpu_s"])


def _ratios(errors: Sequence[ClientError]) -> Iterator[str]:
    """Each client's p99 over thin's, and its rate over vLLM's where that ran unpaced."""
    of = {(error.client, error.work): error for error in errors}
    for error in errors:
        thin, vllm = of.get(("thin", error.work)), of.get(("vllm", error.work))
        parts = [
            f"{name} p99 {mine.p99 / floor.p99:.2f}x"
            for name in ("send_lag_ms", "ttft_error_ms", "itl_error_ms")
            if thin is not None
            and (mine := getattr(error, name)) is not None
            and (floor := getattr(thin, name)) is not None
            and floor.p99 > 0
        ]
        if vllm is not None and error.work == "unpaced":
            parts.append(f"rate {error.rate_per_s / vllm.rate_per_s:.2f}x vllm")
        if parts and error is not thin:
            yield f"  {error.work}: {error.client} against thin: {', '.join(parts)}"


def _print(lines: Sequence[Sequence[str]]) -> None:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        sys.stdout.write("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) + "\n")


def main() -> None:
    """Run what the command line chooses and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--client", action="append", choices=CLIENTS, help="may be repeated; all that are installed")
    parser.add_argument("--work", action="append", choices=[work.name for work in WORKS], help="may be repeated; all")
    parser.add_argument("--server", action="append", choices=SERVERS, help="may be repeated; both")
    parser.add_argument("--scale", type=float, default=1.0, help="send this share of each work's requests")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    args = parser.parse_args()
    servers = args.server or [name for name in SERVERS if name == "ours" or TARGET.exists()]
    results: dict[str, list[ClientError]] = {server: [] for server in servers}
    for server in servers:
        for work in WORKS:
            if args.work and work.name not in args.work:
                continue
            for client in args.client or CLIENTS:
                if not _installed(client):
                    sys.stderr.write(f"{client} is not installed: left out\n")
                    continue
                sys.stderr.write(f"{server}: {work.name}: {client}\n")
                error = _one(client, server, work, args.scale)
                if error is not None:
                    results[server].append(error)
    if args.json:
        everything: dict[str, Any] = {name: [asdict(error) for error in errors] for name, errors in results.items()}
        json.dump(everything, sys.stdout, indent=2)
        return
    for server, errors in results.items():
        sys.stdout.write(f"\nnull server: {server}; errors in ms as p50 / p99 / max\n")
        _print([HEADERS, *error_rows([asdict(error) for error in errors])])
        sys.stdout.write("\n".join(_ratios(errors)) + "\n")


if __name__ == "__main__":
    main()
