"""An engine with a remote cache whose every time is known: for probes, in a process of its own.

    python cached_engine.py --prefill-tokens-per-s 10000 --hit-fixed-s 0.03   (prints its URL; ends on SIGTERM)

Prompts it computed are in its own cache until POST /reset_prefix_cache, and in the remote one for ever. It has vLLM's
counters, and LMCache's POST /cache/clear, which GET /cleared counts.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, fields

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class Machine:
    """Its rates; `foreign_tokens` of somebody else come with each request; with `forgets` nothing is found remotely.

    What it says of itself, if anything: the models it serves (with commas) and their length, its cache, its version.
    What is in front of it: a path `prefix`, an `api_key` for all of it, paths that it `hides` (with commas). Without
    `counts` its answers say nothing of cached tokens, as vLLM's without --enable-prompt-tokens-details.
    """

    prefill_fixed_s: float = 0.01
    prefill_tokens_per_s: float = 10_000.0
    hit_fixed_s: float = 0.03
    bandwidth_bytes_per_s: float = 20e6
    kv_bytes_per_token: int = 4096
    chunk_tokens: int = 256
    foreign_tokens: int = 0
    forgets: int = 0
    served: str = ""
    max_model_len: int = 0
    block_size: int = 0
    blocks: int = 0
    version: str = ""
    prefix: str = ""
    api_key: str = ""
    hides: str = ""
    counts: int = 1
    takes_ids: int = 1


@dataclass(slots=True)
class Engine:
    """What it holds and has counted."""

    machine: Machine
    local: set[tuple[int, ...]] = field(default_factory=set)
    remote: set[tuple[int, ...]] = field(default_factory=set)
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTERS, 0))
    running: int = 0
    cleared: int = 0

    def application(self) -> web.Application:
        """Its routes."""
        machine = self.machine
        inner = web.Application(client_max_size=1 << 26)
        inner.add_routes(
            [
                web.get("/health", self._health),
                web.get("/metrics", self._metrics),
                web.post("/v1/completions", self._complete),
                web.post("/reset_prefix_cache", self._reset),
                web.post("/cache/clear", self._clear),
                web.get("/cleared", self._cleared),
                web.get("/v1/models", self._models),
                web.get("/version", self._version),
            ]
        )
        outer = web.Application(client_max_size=1 << 26, middlewares=[self._gate]) if machine.prefix else inner
        if machine.prefix:
            outer.add_subapp(machine.prefix, inner)
        else:
            inner.middlewares.append(self._gate)
        return outer

    @web.middleware
    async def _gate(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        machine = self.machine
        if machine.api_key and request.headers.get("Authorization") != f"Bearer {machine.api_key}":
            return web.json_response({"error": "Unauthorized"}, status=401)
        if request.path.removeprefix(machine.prefix) in machine.hides.split(","):
            return web.Response(status=404, text="<html>no such page</html>")
        return await handler(request)

    async def _clear(self, _: web.Request) -> web.Response:
        self.cleared += 1
        return web.Response(text="{}")

    async def _cleared(self, _: web.Request) -> web.Response:
        return web.json_response(self.cleared)

    async def _models(self, _: web.Request) -> web.Response:
        length = {"max_model_len": self.machine.max_model_len} if self.machine.max_model_len else {}
        if not self.machine.served:
            return web.Response(status=404)
        return web.json_response({"data": [{"id": name, **length} for name in self.machine.served.split(",")]})

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": self.machine.version} if self.machine.version else {})

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="{}")

    async def _reset(self, _: web.Request) -> web.Response:
        self.local.clear()
        return web.json_response({"success": True})

    async def _metrics(self, _: web.Request) -> web.Response:
        gauges = [f"vllm:num_requests_running {self.running}", "vllm:num_requests_waiting 0"]
        if self.machine.block_size:
            labels = f'block_size="{self.machine.block_size}",num_gpu_blocks="{self.machine.blocks}"'
            gauges.append(f"vllm:cache_config_info{{{labels}}} 1")
        return web.Response(text="\n".join([*gauges, *(f"{name} {n}" for name, n in self.counters.items())]) + "\n")

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        names = self.machine.served
        if (names and asked["model"] not in names.split(",")) or not self.machine.takes_ids:
            what = "prompt: a string is expected" if not self.machine.takes_ids else f"no model {asked['model']}"
            return web.json_response({"error": {"message": what}}, status=400)
        prompt = tuple(asked["prompt"])
        self.running += 1
        seconds, cached = self._serve(prompt)
        await asyncio.sleep(seconds)
        self.running -= 1
        usage: dict[str, object] = {
            "prompt_tokens": len(prompt),
            "completion_tokens": asked["max_tokens"],
            "total_tokens": len(prompt) + asked["max_tokens"],
        }
        if self.machine.counts:
            usage["prompt_tokens_details"] = {"cached_tokens": cached}
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for index in range(asked["max_tokens"]):
            finish = "length" if index == asked["max_tokens"] - 1 else None
            await _event(response, {"choices": [{"index": 0, "text": " w", "finish_reason": finish}]})
        await _event(response, {"choices": [], "usage": usage})
        await response.write(b"data: [DONE]\n\n")
        return response

    def _serve(self, prompt: tuple[int, ...]) -> tuple[float, int]:
        """Seconds to the first token, and tokens cached; the counters move."""
        m, n = self.machine, len(prompt)
        whole = (n - 1) // m.chunk_tokens * m.chunk_tokens
        local = whole if prompt in self.local else 0
        external = whole if not local and prompt in self.remote else 0
        self.local.add(prompt)
        if not m.forgets:
            self.remote.add(prompt)
        for name, tokens in zip(
            _COUNTERS,
            (n, local, n - local, external, n - local - external + m.foreign_tokens, local, external),
            strict=True,
        ):
            self.counters[name] += tokens
        if external:
            return m.hit_fixed_s + external * m.kv_bytes_per_token / m.bandwidth_bytes_per_s, external
        return m.prefill_fixed_s + (n - local) / m.prefill_tokens_per_s, local


_COUNTERS = (
    "vllm:prefix_cache_queries_total",
    "vllm:prefix_cache_hits_total",
    "vllm:external_prefix_cache_queries_total",
    "vllm:external_prefix_cache_hits_total",
    'vllm:prompt_tokens_by_source_total{source="local_compute"}',
    'vllm:prompt_tokens_by_source_total{source="local_cache_hit"}',
    'vllm:prompt_tokens_by_source_total{source="external_kv_transfer"}',
)


async def _event(response: web.StreamResponse, message: dict[str, object]) -> None:
    await response.write(b"data: " + json.dumps({"object": "text_completion", **message}).encode() + b"\n\n")


async def _main(machine: Machine) -> None:
    runner = web.AppRunner(Engine(machine).application())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    sys.stdout.write(f"http://127.0.0.1:{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


def _from_command_line() -> Machine:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for knob in fields(Machine):
        parser.add_argument(f"--{knob.name.replace('_', '-')}", type=type(knob.default), default=knob.default)
    return Machine(**vars(parser.parse_args()))


if __name__ == "__main__":
    asyncio.run(_main(_from_command_line()))
