"""How a trace is to be read, as options that several verbs have."""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.errors import ConfigError
from harness.trace import ReadOptions
from harness.trace.lmcache_agent import load_tokenizer


def reading(  # noqa: PLR0913, PLR0917 - one option each
    on_bad_row: Annotated[
        str, typer.Option(help="fail at the first row that cannot be used, or skip and count")
    ] = "fail",
    zero_output: Annotated[
        str, typer.Option(help="an output of no token: reject, drop the row, or one token")
    ] = "reject",
    require_sorted: Annotated[bool, typer.Option("--require-sorted", help="rows out of order are an error")] = False,
    time_unit: Annotated[str | None, typer.Option(help="ns, us, ms, s or iso")] = None,
    block_size: Annotated[int | None, typer.Option(help="tokens a block id stands for")] = None,
    tail: Annotated[
        str | None, typer.Option(help="ceil, floor or unhashed: ids of the tokens behind whole blocks")
    ] = None,
    hash_kind: Annotated[str | None, typer.Option(help="an id stands for a prefix, or for its content alone")] = None,
    hash_scope: Annotated[str | None, typer.Option(help="ids mean the same globally, or within a session")] = None,
    turn_lengths: Annotated[str | None, typer.Option(help="cumulative, or delta: only what a turn adds")] = None,
    output_tokens: Annotated[int | None, typer.Option(help="every row's output, where the format has none")] = None,
    column: Annotated[list[str] | None, typer.Option(help="for csv: OURS=THEIRS, such as input_length=n_in")] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help="for traces of text: tokenizer.json or a model's folder")
    ] = None,
    warm_prefix: Annotated[bool, typer.Option("--warm-prefix", help="weka: all share tools and system prompt")] = False,
    subagents: Annotated[str, typer.Option(help="weka: refuse, or their times are relative or absolute")] = "refuse",
) -> ReadOptions:
    """The options as the trace room takes them; `allow_unhashed` is the verb's to decide."""
    return ReadOptions(
        on_bad_row=on_bad_row,  # type: ignore[arg-type]
        zero_output=zero_output,  # type: ignore[arg-type]
        require_sorted=require_sorted,
        allow_unhashed=True,
        time_unit=time_unit,
        block_size=block_size,
        tail=tail,
        hash_kind=hash_kind,
        hash_scope=hash_scope,
        turn_lengths=turn_lengths,
        output_tokens=output_tokens,
        columns=dict(map(_pair, column or ())),
        tokenizer=None if tokenizer is None else load_tokenizer(tokenizer),
        tokenizer_name=None if tokenizer is None else str(tokenizer),
        warm_prefix=warm_prefix,
        subagents=subagents,  # type: ignore[arg-type]
    )


def with_reading(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with its parameter `options` replaced by those of `reading`, for typer to see."""
    own = [one for one in inspect.signature(verb).parameters.values() if one.name != "options"]
    read = list(inspect.signature(reading).parameters.values())

    @wraps(verb)
    def with_options(**given: Any) -> None:
        options = reading(**{one.name: given.pop(one.name) for one in read})
        verb(**given, options=options)

    with_options.__signature__ = inspect.Signature([*own, *read])  # type: ignore[attr-defined]
    return with_options


def _pair(text: str) -> tuple[str, str]:
    ours, equals, theirs = text.partition("=")
    if not equals:
        raise ConfigError(f"--column {text}: no =", where="--column", remedy="write OURS=THEIRS, as input_length=n_in")
    return ours, theirs
