"""Our sharded client beside LMCache's own `resp` adapter, by LMCache's own benchmark, and over more instances.

    python tests/benchmark/l2_plugin.py [--rounds 5] [--repeats 3] [--link-mb-s 40]

First one Valkey without a link: store and load throughput of both adapters, in turn, and the ratio of the medians. Then
one, two and four Valkeys behind equal links: the ratio to one instance, where linear would be the number of them.
"""

import argparse
import contextlib
import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from harness.stack import free_ports  # noqa: E402
from tests.fakes.valkey_servers import running  # noqa: E402

_KEYS, _IN_FLIGHT, _VALUE_KB, _WORKERS = 8, 4, 1024, 4


def _resp(endpoints: Sequence[str]) -> dict[str, object]:
    host, _, port = endpoints[0].partition(":")
    return {"type": "resp", "host": host, "port": int(port), "num_workers": _WORKERS}


def _ours(endpoints: Sequence[str]) -> dict[str, object]:
    return {
        "type": "native_plugin",
        "module_path": "harness.plugins.sharded_valkey",
        "class_name": "ShardedValkey",
        "adapter_params": {"endpoints": list(endpoints), "workers_per_instance": _WORKERS, "deadline_s": 300.0},
    }


def _bench(adapter: dict[str, object], rounds: int) -> dict[str, float]:
    """MB/s of store and of load, by `lmcache bench l2`."""
    argv = [sys.executable, "-m", "lmcache.cli.main", "bench", "l2", "--l2-adapter", json.dumps(adapter)]
    argv += ["--num-keys", str(_KEYS), "--in-flight", str(_IN_FLIGHT), "--data-size-kb", str(_VALUE_KB)]
    argv += ["--rounds", str(rounds), "--no-skip-verify"]
    ended = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    return _throughputs(ended.stdout)


def _throughputs(text: str) -> dict[str, float]:
    """The average throughput that the benchmark prints of each operation that moves values."""
    found: dict[str, float] = {}
    section = ""
    for line in text.splitlines():
        if title := re.match(r"Operation: +(\w+)", line):
            section = title[1].lower()
        elif section in {"store", "load"} and (told := re.match(r"Throughput avg \(MB/s\): +([0-9.]+)", line)):
            found[section] = float(told[1])
    if set(found) != {"store", "load"}:
        raise ValueError(f"lmcache bench l2 printed no throughput that is known here:\n{text[-2000:]}")
    return found


@contextlib.contextmanager
def _links(endpoints: Sequence[str], bytes_per_s: float) -> Iterator[list[str]]:
    ports = free_ports(len(endpoints))
    argv = [sys.executable, "-m", "harness.stack.link_proxy", "--host", "127.0.0.1", "--latency-s", "0"]
    argv += ["--bytes-per-s", str(bytes_per_s)]
    for port, endpoint in zip(ports, endpoints, strict=True):
        argv += ["--link", f"{port}:{endpoint.partition(':')[2]}"]
    with subprocess.Popen(argv, cwd=ROOT) as process:
        try:
            yield [f"127.0.0.1:{port}" for port in ports]
        finally:
            process.terminate()


def main() -> None:
    """Run both comparisons and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--link-mb-s", type=float, default=40.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running(4, Path(folder)) as servers:
        endpoints = [server.endpoint for server in servers]
        seen: dict[str, list[dict[str, float]]] = {"resp": [], "ours": []}
        for _ in range(args.repeats):
            for name, adapter in (("resp", _resp), ("ours", _ours)):
                seen[name].append(_bench(adapter(endpoints[:1]), args.rounds))
                servers[0].ask("FLUSHALL")
        for operation in ("store", "load"):
            medians = {name: statistics.median(one[operation] for one in runs) for name, runs in seen.items()}
            ratio = medians["ours"] / medians["resp"]
            told = ", ".join(f"{name} {value:,.0f} MB/s" for name, value in medians.items())
            sys.stdout.write(f"{operation}, one Valkey: {told}: {ratio:.2f}x\n")
        with _links(endpoints, args.link_mb_s * 1e6) as linked:
            single: dict[str, float] = {}
            for count in (1, 2, 4):
                found = _bench(_ours(linked[:count]), args.rounds)
                single = single or found
                told = ", ".join(
                    f"{name} {value:,.1f} MB/s, {value / single[name]:.2f}x" for name, value in found.items()
                )
                sys.stdout.write(f"{count} behind {args.link_mb_s:g} MB/s each: {told}\n")


if __name__ == "__main__":
    main()
