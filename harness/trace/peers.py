"""How other tools read a file that `convert` wrote in four keys: their own defaults misread it."""

from pathlib import Path
from shlex import quote
from typing import Literal

from harness.trace.sidecar import Sidecar

Peer = Literal["vllm", "guidellm", "aiperf"]
PEERS: tuple[Peer, ...] = ("vllm", "guidellm", "aiperf")


def how_to_read(peer: Peer, trace: Path, meta: Sidecar) -> tuple[str, ...]:
    """The flags that make `peer` read the trace as it is meant, then remarks (lines that start with #).

    vLLM: vllm/benchmarks/datasets/datasets.py, TimedTrace (0.31.0). aiperf: docs/cli-options.md (0.13.0). GuideLLM:
    docs/getting-started/benchmark.md at ee7a774, as cited in the project's notes on traces.
    """
    return {"vllm": _vllm, "guidellm": _guidellm, "aiperf": _aiperf}[peer](quote(str(trace)), meta)


def _vllm(trace: str, meta: Sidecar) -> tuple[str, ...]:
    return (
        f"--backend vllm --dataset-name timed_trace --dataset-path {trace} --num-prompts {meta.rows}",
        f"--timed-trace-chunk-hash-size {meta.block_size} --timed-trace-sec-multiplier 0.001 --self-timed",
        "# vLLM's defaults are seconds, 16 tokens a block and 1000 prompts",
        "# set PYTHONHASHSEED=0: it draws each block's tokens from Python's hash of a string",
        "# it does not sort, and its ready check sends the first row, which is then a hit",
    )


def _guidellm(trace: str, meta: Sidecar) -> tuple[str, ...]:
    return (
        f"--data {trace} --profile replay with time_scale=0.001",
        "# GuideLLM takes timestamps for seconds; time_scale=0.001 makes them ms",
        f"# its block size must be {meta.block_size}; it holds ids in 32 bits, which these fit",
    )


def _aiperf(trace: str, meta: Sidecar) -> tuple[str, ...]:
    return (
        f"--input-file {trace} --custom-dataset-type mooncake_trace --fixed-schedule --fixed-schedule-auto-offset",
        f"--isl-block-size {meta.block_size} --extra-inputs ignore_eos:true",
        "# aiperf turns the auto-offset off where a start offset is given; times here count from 0",
    )
