"""`kvreplay simulate`: what would happen, at capacities and rates that nobody here can run."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.trace_options import with_reading
from harness.config.units import parse_bytes
from harness.errors import ConfigError
from harness.trace import ReadOptions

app = typer.Typer(help="Simulate caches and queues; starts nothing.", no_args_is_help=True)

Config = Annotated[Path, typer.Argument(help="the experiment, a YAML file such as configs/paper-a.yaml")]
Arms = Annotated[list[str] | None, typer.Option("--arm", help="only this arm (may be repeated)")]
Workloads = Annotated[list[str] | None, typer.Option("--workload", help="only this workload (may be repeated)")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="R, s, T0, B or another input, as R=52.2k")]
Json = Annotated[bool, typer.Option("--json", help="one JSON document")]

_CACHE_COLUMNS = ("requests", "prompt_tokens", "gpu_hit_tokens", "host_hit_tokens", "remote_hit_tokens")
_QUEUE_COLUMNS = (
    *("requests", "ttft_p50_ms", "ttft_p99_ms", "ttft_p50_third_1_ms", "ttft_p50_third_2_ms", "ttft_p50_third_3_ms"),
    *("ttft_growth", "most_in_flight", "engine_busy_share", "link_busy_share"),
)


@app.command()
def cache(
    config: Config, arm: Arms = None, workload: Workloads = None, settings: Settings = None, as_json: Json = False
) -> None:
    """Which tokens of which request hit in which tier, without a clock."""
    _simulate(config, arm, workload, settings, as_json=as_json, queue=False)


@app.command()
def queue(
    config: Config, arm: Arms = None, workload: Workloads = None, settings: Settings = None, as_json: Json = False
) -> None:
    """When each request has its first token: engine steps, loads and caches in simulated time."""
    _simulate(config, arm, workload, settings, as_json=as_json, queue=True)


@app.command()
@with_reading
def curve(
    file: Annotated[Path, typer.Argument(metavar="TRACE", help="a trace, in any format that `--format` knows")],
    options: ReadOptions,
    format: Annotated[str | None, typer.Option("--format", help="its format")] = None,  # noqa: A002
    block: Annotated[int, typer.Option(min=1, help="tokens of vLLM's block")] = 16,
    chunk: Annotated[int, typer.Option(min=1, help="tokens of LMCache's chunk")] = 256,
    kv_bytes: Annotated[
        str | None, typer.Option(help="KV bytes of a token, as 48.4KB: capacities in bytes too")
    ] = None,
    points: Annotated[int, typer.Option(min=2, help="how many capacities are shown")] = 24,
    as_json: Json = False,
) -> None:
    """Token hit rate against capacity, exact for every capacity, where the cliff is, and the working set over time."""
    from harness.experiment.curve import curves_of, document  # noqa: PLC0415 - numba takes a second to import

    size = None if kv_bytes is None else _bytes(kv_bytes)
    curves = curves_of(file, format, options, [("gpu", block), ("host, remote", chunk)])
    found = document(file, curves, size, points)
    print(json.dumps(found, indent=2) if as_json else "\n".join(_curve_text(found, block, chunk)))


def _simulate(
    config: Path,
    arms: Sequence[str] | None,
    workloads: Sequence[str] | None,
    settings: Sequence[str] | None,
    *,
    as_json: bool,
    queue: bool,
) -> None:
    from harness.experiment.prepare import prepare  # noqa: PLC0415 - the same
    from harness.experiment.simulate import simulate_experiment  # noqa: PLC0415

    given = dict(map(_pair, settings or ()))
    prepared = prepare(config, arms=arms or (), workloads=workloads or (), settings=given)
    found = simulate_experiment(prepared, "queue" if queue else "cache")
    columns = _QUEUE_COLUMNS if queue else _CACHE_COLUMNS
    print(json.dumps(found, indent=2) if as_json else "\n".join(_text(found, columns)))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not value:
        raise ConfigError(f"--set {text}: no value", where="--set", remedy="write NAME=VALUE, as R=52.2k")
    return name, value


def _bytes(text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise ConfigError(f"--kv-bytes: {error}", where="--kv-bytes", remedy="write 48.4KB") from error


def _text(found: Mapping[str, Any], columns: Sequence[str]) -> Iterator[str]:
    yield f"experiment {found['experiment']}, simulated ({found['kind']})"
    yield from _table(["arm", "workload", "pass", *columns], found["rows"])
    if found["published"]:
        yield ""
        yield "beside what was published"
        yield from _table(["arm", "pass", "figure", "simulated", "published", "ratio", "source"], found["published"])
        yield from dict.fromkeys(f"  {row['figure']}: {row['note']}" for row in found["published"] if row["note"])
    yield from (f"note: {note}" for note in found["notes"])


def _table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    cells = [list(columns), *([_cell(row.get(column)) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 10 else f"{value:,.1f}"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _curve_text(found: Mapping[str, Any], block: int, chunk: int) -> Iterator[str]:
    yield found["trace"]
    for one in found["curves"]:
        yield ""
        yield (
            f"{one['tiers']}: whole granules of {one['granule_tokens']} tokens; {one['prompt_tokens']:,} prompt tokens"
            f", {one['different_tokens']:,} different; at most {one['best_hit_rate']:.2%} hit"
        )
        shares = one["capacity_tokens_for_share"].items()
        known = [f"{float(share):.0%} {tokens:,}" for share, tokens in shares if tokens is not None]
        if known:
            yield f"  capacity in tokens for so much of all hits: {', '.join(known)}"
        if one["cliff_tokens"] is not None:
            low, high = one["cliff_tokens"]
            yield f"  a cliff: next to nothing hits below {low:,} tokens, nearly all from {high:,} on"
        spans = ", ".join(f"{tokens:,}" for tokens in one["working_set_tokens"])
        yield f"  working set in tokens, by tenth of the time: {spans}"
        for point in one["points"]:
            size = "" if point["capacity_bytes"] is None else f"  {point['capacity_bytes'] / 1e9:12,.2f} GB"
            yield f"  {point['capacity_tokens']:14,} tokens{size}  {point['hit_rate']:8.2%}"
    if chunk % block:
        yield f"note: chunks of {chunk} are not whole blocks of {block}: what both tiers hit ends at different tokens"
