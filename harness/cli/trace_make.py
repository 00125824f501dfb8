"""`kvreplay trace make`: a trace from a seed, byte for byte the same on every machine."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.trace_text import described
from harness.errors import TraceError
from harness.trace import SHIPPED, MakeSpec, ReadOptions, make_trace, read_trace, sidecar_of, write_trace
from harness.trace.arrivals import Arrivals
from harness.trace.check import check
from harness.trace.make import PassesSpec

_KINDS: dict[str, MakeSpec | PassesSpec] = {"shared-prefix": MakeSpec(), "passes": PassesSpec(), **SHIPPED}


def make(  # noqa: PLR0913, PLR0917 - one option each
    out: Annotated[Path, typer.Argument(metavar="FILE", help="NAME.jsonl; NAME.meta.json is written beside it")],
    kind: Annotated[str, typer.Option(help=", ".join(_KINDS))] = "shared-prefix",
    requests: Annotated[int | None, typer.Option(help="shared-prefix: how many")] = None,
    prefixes: Annotated[int | None, typer.Option(help="shared-prefix: how many groups, each with its prefix")] = None,
    prefix_tokens: Annotated[int | None, typer.Option(help="shared-prefix: a multiple of the block size")] = None,
    suffix_tokens: Annotated[str | None, typer.Option(help="shared-prefix: least-most, such as 32-240")] = None,
    output_tokens: Annotated[str | None, typer.Option(help="least-most; passes: one number")] = None,
    order: Annotated[str | None, typer.Option(help="cyclic, zipf or uniform; passes: such as first,again")] = None,
    zipf_exponent: Annotated[float | None, typer.Option(help="shared-prefix, order zipf")] = None,
    documents: Annotated[int | None, typer.Option(help="passes: how many")] = None,
    document_tokens: Annotated[int | None, typer.Option(help="passes: a multiple of the block size")] = None,
    question_tokens: Annotated[int | None, typer.Option(help="passes: a question that occurs once")] = None,
    block_size: Annotated[int | None, typer.Option(help="tokens a block")] = None,
    arrivals: Annotated[str | None, typer.Option(help="poisson-conditioned, deterministic or gamma")] = None,
    rate: Annotated[float | None, typer.Option(help="requests a second, exactly")] = None,
    cv: Annotated[float | None, typer.Option(help="gamma: the gaps' coefficient of variation")] = None,
    arrivals_from: Annotated[Path | None, typer.Option(help="take the times of this trace instead")] = None,
    seed: Annotated[int | None, typer.Option(help="of every draw")] = None,
) -> None:
    """Write a trace that is made, not recorded, and say so in its sidecar. Without options: the trace we ship."""
    if kind not in _KINDS:
        raise TraceError(f"--kind {kind}", where="--kind", remedy=f"use one of {', '.join(_KINDS)}")
    spec = _KINDS[kind]
    times = replace(spec.arrivals, **_given(process=arrivals, rate=rate, cv=cv, seed=seed))
    if arrivals_from is not None:
        times = _recorded(arrivals_from)
        if isinstance(spec, MakeSpec) and requests is None:
            requests = len(times.recorded_us)
    given: dict[str, Any]
    if isinstance(spec, MakeSpec):
        given = _given(
            requests=requests,
            prefixes=prefixes,
            prefix_tokens=prefix_tokens,
            suffix_tokens=_pair("--suffix-tokens", suffix_tokens),
            output_tokens=_pair("--output-tokens", output_tokens),
            order=order,
            zipf_exponent=zipf_exponent,
            seed=seed,
        )
        _refuse_others(kind, documents=documents, document_tokens=document_tokens, question_tokens=question_tokens)
    else:
        given = _given(
            documents=documents,
            document_tokens=document_tokens,
            question_tokens=question_tokens,
            output_tokens=(_pair("--output-tokens", output_tokens) or (None,))[0],
            order=None if order is None else tuple(order.split(",")),
        )
        _refuse_others(
            kind,
            requests=requests,
            prefixes=prefixes,
            prefix_tokens=prefix_tokens,
            suffix_tokens=suffix_tokens,
            zipf_exponent=zipf_exponent,
        )
    made = replace(spec, arrivals=times, **given, **_given(block_size=block_size))
    write_trace(out, make_trace(made).requests, sidecar_of(made))
    print(described(out, check(out)))


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _refuse_others(kind: str, **options: Any) -> None:
    for name in _given(**options):
        option = f"--{name.replace('_', '-')}"
        raise TraceError(f"{option} means nothing for --kind {kind}", where=option, remedy="leave it out")


def _pair(option: str, text: str | None) -> tuple[int, int] | None:
    """`32-240` or `32`."""
    if text is None:
        return None
    least, dash, most = text.partition("-")
    if not least.isdecimal() or (dash and not most.isdecimal()):
        raise TraceError(f"{option} {text}", where=option, remedy="write least-most, such as 32-240, or one number")
    return int(least), int(most or least)


def _recorded(path: Path) -> Arrivals:
    trace = read_trace(path, options=ReadOptions(allow_unhashed=True))
    return Arrivals("recorded", recorded_us=tuple(one.arrival_us for one in trace.requests), recorded_from=path.name)
