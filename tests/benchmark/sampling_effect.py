"""What sampling does to the send lag: a self-test's work with and without it, in turns.

python -m tests.benchmark.sampling_effect [WORK [ROUNDS [INTERVAL_S]]]

The sampler reads a page of vLLM's series, large as vLLM's is, that another process serves, four Valkeys, and the CPU of
these. Printed: p50 / p99 / max of the send lag, ms, and the client's share of a core, by round.
"""

import asyncio
import contextlib
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import make_wsgi_app

from harness.client import Http, MonotonicClock
from harness.collect import Targets
from harness.collect.vllm_metrics import SERIES
from harness.experiment.null_work import ITL_MS, TTFT_MS, WORKS
from harness.experiment.sampling import ArmSampler, SamplingJob, sampling
from harness.experiment.selftest import measure, null_server, raise_open_files
from harness.stack import free_ports
from tests.fakes.valkey_servers import running

_OTHER_HISTOGRAMS = 40


class _Silent(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        return


def _serve(port: int) -> None:
    registry = CollectorRegistry(auto_describe=True)
    for name in {name.removesuffix("_total") for name in SERIES if name.endswith("_total")}:
        Counter(name, "", ["engine"], registry=registry).labels("0").inc()
    for name in ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"):
        Gauge(name, "", ["engine"], registry=registry).labels("0").set(1)
    names = {name.removesuffix("_sum") for name in SERIES if name.endswith("_sum")}
    for name in (*names, *(f"vllm:other_{number}" for number in range(_OTHER_HISTOGRAMS))):
        Histogram(name, "", ["engine"], registry=registry, buckets=range(1, 21)).labels("0").observe(1)
    make_server("127.0.0.1", port, make_wsgi_app(registry), handler_class=_Silent).serve_forever()


def _sampled(
    url: str, valkeys: Sequence[str], services: dict[str, int], interval_s: float
) -> AbstractAsyncContextManager[ArmSampler]:
    targets = Targets("a", 0, vllm_metrics_urls=(url,), valkey_urls=tuple(valkeys), services=services)
    job = SamplingJob(targets, MonotonicClock().now_ns(), interval_s)
    return sampling(job, lambda samples: print(f"  {len(samples)} samples"), print)  # noqa: T201


async def _main(name: str, rounds: int, interval_s: float) -> None:
    raise_open_files()
    (work,) = [one for one in WORKS if one.name == name]
    (port,) = free_ports(1)
    page = multiprocessing.get_context("spawn").Process(target=_serve, args=(port,), daemon=True)
    page.start()
    try:
        with tempfile.TemporaryDirectory() as folder, running(4, Path(folder)) as servers:
            valkeys = [f"valkey://{server.endpoint}" for server in servers]
            services = {"client": os.getpid(), "page": page.pid or 0}
            async with null_server(TTFT_MS, ITL_MS) as url:
                for at in range(2 * rounds):
                    around: AbstractAsyncContextManager[object] = contextlib.nullcontext()
                    if at % 2 == 1:
                        around = _sampled(f"http://127.0.0.1:{port}/metrics", valkeys, services, interval_s)
                    async with around:
                        error = await measure(url, work, http=Http.HTTPTOOLS)
                    lag = error.send_lag_ms
                    state = f"sampled every {interval_s:g} s" if at % 2 == 1 else "not sampled"
                    print(f"{work.name}, {state}: {lag.p50:.3f} / {lag.p99:.3f} / {lag.max:.3f}, {error.cpu_share:.0%}")  # noqa: T201
    finally:
        page.terminate()
        page.join()


if __name__ == "__main__":
    asyncio.run(
        _main(
            sys.argv[1] if len(sys.argv) > 1 else "512-200",
            int(sys.argv[2]) if len(sys.argv) > 2 else 3,
            float(sys.argv[3]) if len(sys.argv) > 3 else 0.5,
        )
    )
