"""`kvreplay simulate`: what would happen, at capacities and rates that nobody here can run."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.cli.simulate_text import curve_lines, simulation_lines
from harness.cli.trace_options import with_reading
from harness.config.settings import SETTINGS
from harness.config.units import parse_bytes
from harness.errors import ConfigError
from harness.trace import ReadOptions

app = typer.Typer(help="Simulate caches and queues; starts nothing.", no_args_is_help=True)

Config = Annotated[Path, typer.Argument(help="the experiment, a YAML file such as configs/paper-a.yaml")]
Arms = Annotated[list[str] | None, typer.Option("--arm", help="only this arm (may be repeated)")]
Workloads = Annotated[list[str] | None, typer.Option("--workload", help="only this workload (may be repeated)")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help=f"an input, as R=52.2k; one of {', '.join(SETTINGS)} (may be repeated)"),
]
Varied = Annotated[
    list[str] | None,
    typer.Option("--vary", help="several values of one, as B=0.78GB/s,0.89GB/s; every combination (may be repeated)"),
]
Json = Annotated[bool, typer.Option("--json", help="one JSON document")]


@app.command()
def cache(
    config: Config,
    arm: Arms = None,
    workload: Workloads = None,
    settings: Settings = None,
    varied: Varied = None,
    as_json: Json = False,
) -> None:
    """Which tokens of which request hit in which tier, without a clock."""
    _simulate("cache", config, arm, workload, settings, varied, as_json=as_json)


@app.command()
def queue(
    config: Config,
    arm: Arms = None,
    workload: Workloads = None,
    settings: Settings = None,
    varied: Varied = None,
    as_json: Json = False,
) -> None:
    """When each request has its first token: engine steps, loads and caches in simulated time."""
    _simulate("queue", config, arm, workload, settings, varied, as_json=as_json)


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
    print(json.dumps(found, indent=2) if as_json else "\n".join(curve_lines(found, block, chunk)))


def _simulate(
    kind: Literal["cache", "queue"],
    config: Path,
    arms: Sequence[str] | None,
    workloads: Sequence[str] | None,
    settings: Sequence[str] | None,
    varied: Sequence[str] | None,
    *,
    as_json: bool,
) -> None:
    from harness.experiment.prepare import Prepared, prepare  # noqa: PLC0415 - numba takes a second to import
    from harness.experiment.simulate import simulate_experiment  # noqa: PLC0415
    from harness.experiment.vary import simulate_varied  # noqa: PLC0415

    def read(chosen: Mapping[str, str]) -> Prepared:
        return prepare(config, arms=arms or (), workloads=workloads or (), settings=chosen)

    given = dict(_pair("--set", text) for text in settings or ())
    values = {name: text.split(",") for name, text in (_pair("--vary", text) for text in varied or ())}
    found = simulate_varied(read, given, values, kind) if values else simulate_experiment(read(given), kind)
    print(json.dumps(found, indent=2) if as_json else "\n".join(simulation_lines(found)))


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not all(value.split(",")):
        raise ConfigError(f"{option} {text}: no value", where=option, remedy="write NAME=VALUE, as R=52.2k")
    return name, value


def _bytes(text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise ConfigError(f"--kv-bytes: {error}", where="--kv-bytes", remedy="write 48.4KB") from error
