"""Servers that already run: what they say of themselves, asked before a run begins, and the config with it."""

import asyncio
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from harness.collect import CacheConfig, log_files, parse_cache_config, parse_gauges, read_valkeys, read_vllm
from harness.config import Arm, Attach, Client, Engine, Experiment
from harness.errors import CollectError, ConfigError
from harness.experiment.facts import versions
from harness.experiment.target import asking, require_client
from harness.records import Caveat
from harness.stack import vllm

_ANSWER_S = 10.0


@dataclass(frozen=True, slots=True)
class Served:
    """What an attached vLLM, or a gateway before it, says of itself; None or empty where it does not.

    `metrics_url` is None where nothing of vLLM's is shown. `models` has the longest request of each, in tokens.
    """

    url: str
    metrics_url: str | None = None
    models: Mapping[str, int | None] = field(default_factory=dict)
    version: str | None = None
    cache: CacheConfig = field(default_factory=CacheConfig)


Servers = Mapping[str, tuple[Served, ...]]
"""Of each arm that is attached, by its name."""


def attach_of(experiment: Experiment, arm: Arm) -> Attach | None:
    """Where an arm runs already; None where it is started."""
    return (arm.attach or experiment.engine.attach) if experiment.engine.backend == "attach" else None


def ask_servers(experiment: Experiment, arms: Sequence[Arm], path: Path) -> Servers:
    """What the servers of `arms` say. Raises ConfigError for the first thing named in `attach` that is not there."""
    require_client(experiment.client, path)
    return asyncio.run(_ask(experiment, arms, path))


async def _ask(experiment: Experiment, arms: Sequence[Arm], path: Path) -> Servers:
    found = {}
    for arm in arms:
        attach = attach_of(experiment, arm)
        if attach is None:
            continue
        where = f"{path}: arm {arm.name}: attach"
        async with asking(experiment.client, attach.urls, _ANSWER_S) as http:
            pairs = zip(attach.urls, attach.metrics_urls, strict=True)
            found[arm.name] = tuple([await _served(http, *pair, where, experiment.client) for pair in pairs])
            await _require_resets(http, attach, arm, where)
            if attach.lmcache_url is not None:
                await _get(http, attach.lmcache_url, f"{where}.lmcache_url")
        await _require_valkeys(attach, where)
        _require_program(attach, where)
        if attach.lmcache_log is not None and not any(one.exists() for one in log_files(attach.lmcache_log)):
            raise ConfigError(
                f"there is no file {attach.lmcache_log}",
                where=f"{where}.lmcache_log",
                remedy="correct it, or have a command print the log: lmcache_log_command",
            )
    return found


async def _served(http: httpx.AsyncClient, url: str, metrics_url: str | None, where: str, client: Client) -> Served:
    listing = await _get(http, f"{url}/v1/models", f"{where}.url")
    if listing.status_code in {401, 403}:
        raise _not_let_in(f"{url}: HTTP {listing.status_code}", client, f"{where}.url")
    version = _object(await _get(http, f"{url}/version", f"{where}.url")).get("version")
    page_url, why = metrics_url or f"{url}/metrics", "nothing of vLLM's is there"
    try:
        page = await read_vllm(http, page_url)
        shows = bool(parse_gauges(page))
    except CollectError as error:
        page, shows, why = "", False, error.what
    if metrics_url is not None and not shows:
        raise ConfigError(f"no metrics: {why}", where=f"{where}: {metrics_url}", remedy="correct it, or leave it out")
    models = [one for one in _object(listing).get("data") or () if isinstance(one, dict) and "id" in one]
    return Served(
        url,
        page_url if shows else None,
        {str(one["id"]): one.get("max_model_len") for one in models},
        None if version is None else str(version),
        parse_cache_config(page) if shows else CacheConfig(),
    )


async def _get(http: httpx.AsyncClient, url: str, where: str) -> httpx.Response:
    """Any answer of a server. Raises ConfigError where there is none."""
    try:
        return await http.get(url)
    except httpx.HTTPError as error:
        untrusted = "CERTIFICATE" in str(error)
        raise ConfigError(
            f"nobody answers at {url}: {error or type(error).__name__}",
            where=where,
            remedy="name its authority's certificate: client: {ca_file: FILE}"
            if untrusted
            else "start it, or correct it",
        ) from error


def _object(response: httpx.Response) -> dict[str, Any]:
    """The object in a good answer; an empty one where there is none."""
    try:
        found = response.json() if response.is_success else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _not_let_in(what: str, client: Client, where: str) -> ConfigError:
    name = client.api_key_env
    remedy = "name the variable that holds the key: client: {api_key_env: NAME}"
    return ConfigError(
        f"the server does not let us in ({what})",
        where=where,
        remedy=remedy if name is None else f"export {name}=..., the key that the server expects",
    )


async def _require_resets(http: httpx.AsyncClient, attach: Attach, arm: Arm, where: str) -> None:
    """Caches that the config lets be emptied must be such that can be."""
    keeps = arm.lmcache is not None and arm.lmcache.store_policy == "default"
    if "l1" in attach.resets and keeps and attach.lmcache_url is None:
        raise ConfigError("l1 is in resets: whom to ask?", where=where, remedy="give lmcache_url, LMCache's HTTP port")
    if "valkey" in attach.resets and not attach.valkey_urls:
        raise ConfigError("valkey is in resets: which ones?", where=where, remedy="give valkey_urls")
    for url in attach.urls if "engine" in attach.resets else ():
        if (await _get(http, f"{url}/reset_prefix_cache", where)).status_code == httpx.codes.NOT_FOUND:
            raise ConfigError(
                f"{url} does not let its prefix cache be emptied",
                where=f"{where}.resets",
                remedy="start it with VLLM_SERVER_DEV_MODE=1, or take `engine` out of resets",
            )


def _require_program(attach: Attach, where: str) -> None:
    program = shlex.split(attach.lmcache_log_command or "")[:1]
    if program and shutil.which(program[0]) is None:
        raise ConfigError(
            f"no program is called {program[0]}",
            where=f"{where}.lmcache_log_command",
            remedy="install it, or correct it",
        )


async def _require_valkeys(attach: Attach, where: str) -> None:
    for url, reading in zip(attach.valkey_urls, await read_valkeys(attach.valkey_urls), strict=True):
        if reading is None:
            raise ConfigError(
                f"no Valkey answers INFO at {url.partition('?')[0]}",
                where=f"{where}.valkey_urls",
                remedy="correct it, with what it asks of a client (?password_env=NAME), or leave it out",
            )


def with_said(experiment: Experiment, servers: Servers, path: Path) -> Experiment:
    """The experiment with what its servers say of model, blocks, cache and longest request where it leaves that open.

    Raises ConfigError where it says otherwise than they do.
    """
    engine, each = experiment.engine, [one for arm in servers.values() for one in arm]
    name = _model(engine, each, path)
    found: dict[str, Any] = {"model": engine.model or name, "served_model_name": name}
    longest = [tokens for one in each if (tokens := one.models.get(name)) is not None]
    if longest:
        found["max_model_len"] = min([*longest, *([engine.max_model_len] if engine.max_model_len else [])])
    said = {
        "block_size": {one.cache.block_tokens for one in each} - {None},
        "kv_cache_tokens": {one.cache.size_tokens for one in each} - {None},
    }
    for key, values in said.items():
        given = getattr(engine, key) if key in engine.model_fields_set else None
        if given is not None and values and given not in values:
            raise ConfigError(
                f"engine.{key} is {given}, and the servers say {', '.join(map(str, sorted(values, key=str)))}",
                where=f"{path}: engine.{key}",
                remedy="leave it out: the servers are asked",
            )
        if given is None and values:
            found[key] = min(values, key=lambda value: value or 0)
    return experiment.model_copy(update={"engine": engine.model_copy(update=found)})


def _model(engine: Engine, each: Sequence[Served], path: Path) -> str:
    """The name to ask for: the one that the config gives, else the first that all servers have.

    Raises ConfigError where they have no such model.
    """
    wanted = [engine.model, Path(engine.model).name] if engine.model else []
    wanted = [engine.served_model_name] if engine.served_model_name else wanted
    listings = [one.models for one in each if one.models]
    common = [name for name in listings[0] if all(name in other for other in listings)] if listings else []
    name = next((name for name in wanted or common if name in common), None)
    if wanted and not listings:
        return vllm.served_name(engine)
    if name is None:
        what = f"not every server has a model called {wanted[0]}" if wanted else "the servers have no model in common"
        raise ConfigError(
            what if listings else "the servers do not say which model they have",
            where=f"{path}: engine.model",
            detail="\n".join(f"  {one.url} has {', '.join(one.models)}" for one in each if one.models),
            remedy="write the name they go by; --served-model-name gives a server several",
        )
    return name


def run_versions(servers: Servers | None) -> dict[str, str]:
    """The versions of a run: with the packages of the stack that is started, or the vLLM that servers say they are."""
    if servers is None:
        return versions()
    said = {one.version for each in servers.values() for one in each if one.version is not None}
    return {**versions(stack=False), **({"vllm": ", ".join(sorted(said))} if said else {})}


def served_caveats(servers: Servers) -> Iterator[Caveat]:
    """What to mind about servers as they were found: such as show no metrics, and such as differ between arms."""
    for arm, each in servers.items():
        for one in each:
            if one.metrics_url is None:
                text = f"{arm}: {one.url} shows no metrics of vLLM: nothing is counted there, nor waited for"
                remedy = "give metrics_url, vLLM's own port behind whatever is in front of it"
                yield Caveat("no_metrics", text, remedy, arm)
    for name, of in _TOLD.items():
        by_arm = {arm: tuple(dict.fromkeys(of(one) for one in each)) for arm, each in servers.items()}
        known = {arm: values for arm, values in by_arm.items() if None not in values}
        if len(set(known.values())) > 1:
            shown = "; ".join(f"{arm} {', '.join(map(str, values))}" for arm, values in known.items())
            remedy = "what differs between arms besides the remote tier is compared with it"
            yield Caveat("engines_differ", f"{name}: {shown}", remedy)


_TOLD: Mapping[str, Callable[[Served], object]] = {
    "vLLM": lambda one: one.version,
    "block size": lambda one: one.cache.block_tokens,
    "KV cache, tokens": lambda one: one.cache.size_tokens,
}
