"""`kvreplay probe`: R, s, T0 and B of a machine, or as assumed, and whether a remote cache pays with them."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.progress import PlainProgress
from harness.config.units import parse_bytes
from harness.errors import ConfigError

_ASSUME = "instead of a machine: R=52.2k,s=48.4KB,T0=0.33,B=1.71GB/s, each with +-5% if it may be off"
_IN_STEP = "loads run inside the engine step, as in LMCache's in-process mode"
_BY_HASH = "how chunks lie on several instances: by their hash, so that prompts wait for the fullest, or equal parts"
_RESET = "the engine's own cache of an attached server may be emptied"
_RESET_L1 = "and LMCache's host memory, by its HTTP port"


def probe(  # noqa: PLR0913 - an option each
    config: Annotated[Path | None, typer.Argument(help="measure the arms of this experiment")] = None,
    *,
    arm: Annotated[list[str] | None, typer.Option(help="measure only this arm (may be repeated)")] = None,
    assume: Annotated[str | None, typer.Option(help=_ASSUME)] = None,
    url: Annotated[str | None, typer.Option(help="measure a vLLM that runs; its Valkeys by --valkey-url")] = None,
    raw: Annotated[list[str] | None, typer.Option(help="measure Valkeys alone, host:port or valkeys://...")] = None,
    prompt: Annotated[float | None, typer.Option(help="tokens of a prompt")] = None,
    rate: Annotated[float | None, typer.Option(help="such prompts a second")] = None,
    hit_share: Annotated[float | None, typer.Option(help="share of them that hit (1)")] = None,
    in_step: Annotated[bool, typer.Option(help=_IN_STEP)] = False,
    p99: Annotated[float | None, typer.Option(help="a p99 TTFT to reach, in seconds: how many instances?")] = None,
    instances: Annotated[int, typer.Option(help="--assume: how many equal instances B is of")] = 1,
    most_instances: Annotated[int | None, typer.Option(help="--assume: how many there may be")] = None,
    model: Annotated[str | None, typer.Option(help="--url: the served model's name, if it has several")] = None,
    api_key_env: Annotated[str | None, typer.Option(help="--url: variable with the key it asks for")] = None,
    metrics_url: Annotated[str | None, typer.Option(help="--url: its /metrics, if elsewhere")] = None,
    lmcache_url: Annotated[str | None, typer.Option(help="--url: LMCache's HTTP port")] = None,
    valkey_url: Annotated[list[str] | None, typer.Option(help="--url: a Valkey behind it (may be repeated)")] = None,
    kv_bytes: Annotated[str | None, typer.Option(help="--url: s, KV bytes a token, such as 48.4KB")] = None,
    chunk: Annotated[int, typer.Option(help="--url, --assume: tokens of LMCache's chunk")] = 256,
    by_hash: Annotated[bool | None, typer.Option("--by-hash/--even", help=_BY_HASH)] = None,
    longest: Annotated[int, typer.Option(help="--url: tokens of the longest prompt to send, if it takes such")] = 4096,
    reset_engine: Annotated[bool, typer.Option("--reset-engine", help=_RESET)] = False,
    reset_l1: Annotated[bool, typer.Option("--reset-l1", help=_RESET_L1)] = False,
    value: Annotated[str, typer.Option(help="--raw: size of a value, LMCache's chunk")] = "1MiB",
    seconds: Annotated[float, typer.Option(help="--raw: how long each number of clients reads")] = 2.0,
    username_env: Annotated[str | None, typer.Option(help="--raw: variable with the username")] = None,
    password_env: Annotated[str | None, typer.Option(help="--raw: variable with the password")] = None,
    ca_file: Annotated[str | None, typer.Option(help="--raw, --url: certificates to trust")] = None,
    copies: Annotated[int, typer.Option(help="prompts of each length: more make intervals narrower")] = 4,
    out: Annotated[Path, typer.Option(help="where the rows go")] = Path("results"),
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document")] = False,
) -> None:
    """Say whether a remote KV cache pays: on, off, for which prompts, with how many instances, and how sure that is."""
    given = [name for name, one in (("CONFIG", config), ("--assume", assume), ("--url", url), ("--raw", raw)) if one]
    if len(given) != 1:
        what = f"{' and '.join(given)} at once" if given else "nothing to probe"
        raise ConfigError(what, where="kvreplay probe", remedy="give one of CONFIG, --assume, --url and --raw")
    # scipy and pandas take a second to import: only what asks the model waits for them
    from harness.experiment import probe_verbs as verbs  # noqa: PLC0415

    if assume is not None:
        question = verbs.question_of(prompt, rate, hit_share, in_step, instances, most_instances, p99)
        _show(verbs.assumed(assume, question, chunk if by_hash else None), as_json)
        return
    with PlainProgress() as progress:
        if raw:
            size = _size(value)
            credentials = verbs.Credentials(username_env, password_env, ca_file)
            _show(verbs.raw(raw, size, seconds, credentials, progress), as_json)
            return
        asked = verbs.Asked(prompt, rate, hit_share, in_step, p99, copies)
        resets = tuple(tier for tier, given in (("engine", reset_engine), ("l1", reset_l1)) if given)
        like: dict[str, str] = {}
        if config is not None:
            prepared, like = verbs.configured(config, arm or (), resets)
        else:
            servers = verbs.Servers(
                url=url or "",
                model=model or "",
                metrics_url=metrics_url,
                lmcache_url=lmcache_url,
                valkey_urls=tuple(valkey_url or ()),
                resets=resets,
                api_key_env=api_key_env,
                ca_file=ca_file,
                kv_bytes=kv_bytes,
                chunk_tokens=chunk,
                longest_tokens=longest,
                by_hash=by_hash is not False,
            )
            prepared = verbs.prepare_attached(servers)
        _show(verbs.measured(prepared, asked, out, progress, like), as_json)


def _show(answer: tuple[str, dict[str, Any]], as_json: bool) -> None:
    text, document = answer
    print(json.dumps(document, indent=2) if as_json else text)


def _size(text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise ConfigError(str(error), where="--value", remedy="write 1MiB") from error
