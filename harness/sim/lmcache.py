"""LMCache's two tiers together: what a lookup finds, what is moved for it, what is stored.

The rules are those of LMCache 0.5.5 (integration/vllm/lmcache_mp_connector.py, vllm_v1_adapter.py): a lookup asks for
every whole chunk of a prompt from the first on, and ends at the first that neither tier has; what vLLM holds itself
is not copied to it again; whatever the lookup did not find is stored in both tiers once it is computed.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from harness.sim.host import HostSpec, HostTier
from harness.sim.keys import Key
from harness.sim.remote import Part, RemoteSpec, RemoteTier


@dataclass(frozen=True, slots=True)
class LMCacheSpec:
    """Chunk size in tokens and bytes (all ranks together), and the tiers; `host` is None where nothing stays in it.

    `fetches_whole`: a lookup brings everything that only the remote tier has, even what vLLM holds (the multiprocess
    server, and asynchronous loads in-process). `keeps_fetched`: it then stays in host memory (in-process).
    `stores_answers`: whole chunks that end in the answer are stored too (multiprocess). `hashing` is that of the
    chunks: blake3 in the multiprocess server, sha256_cbor inside the engine.
    """

    chunk_tokens: int
    chunk_bytes: float
    host: HostSpec | None
    remote: RemoteSpec | None
    fetches_whole: bool = True
    keeps_fetched: bool = False
    stores_answers: bool = True
    hashing: str = "blake3"

    @property
    def host_chunks(self) -> int | None:
        """How many chunks host memory holds; None where nothing stays in it."""
        return None if self.host is None else self.host.chunks

    @property
    def remote_chunks(self) -> float | None:
        """How many all instances hold together; None without a limit, or without instances."""
        if self.remote is None or self.remote.instance_bytes is None or not self.chunk_bytes:
            return None
        return self.remote.instances * self.remote.instance_bytes // self.chunk_bytes


@dataclass(frozen=True, slots=True)
class Found:
    """What a lookup found: `tokens` from the start of the prompt on, by place of the chunk in `host` or `remote`."""

    tokens: int
    host: tuple[int, ...]
    remote: tuple[int, ...]


NOTHING = Found(0, (), ())


class LMCacheTiers:
    """Host and remote tier of one engine."""

    def __init__(self, spec: LMCacheSpec) -> None:
        self.spec = spec
        self.host = None if spec.host is None else HostTier(spec.host)
        self.remote = None if spec.remote is None else RemoteTier(spec.remote, spec.chunk_bytes)
        self._own_keys = itertools.count()

    def find(self, chunks: Sequence[Key]) -> Found:
        """The longest run of `chunks` from the first on that the tiers have together."""
        host, remote = [], []
        for place, key in enumerate(chunks):
            if self.host is not None and key in self.host:
                host.append(place)
            elif self.remote is not None and self.remote.holds(key, place):
                remote.append(place)
            else:
                break
        return Found((len(host) + len(remote)) * self.spec.chunk_tokens, tuple(host), tuple(remote))

    def fetched(self, found: Found, local_tokens: int) -> tuple[int, ...]:
        """The places of the chunks that come from the remote tier for this, where vLLM holds `local_tokens`."""
        if self.spec.fetches_whole:
            return found.remote
        return tuple(place for place in found.remote if (place + 1) * self.spec.chunk_tokens > local_tokens)

    def parts(self, chunks: Sequence[Key], places: Sequence[int]) -> list[Part]:
        """What moves for these chunks, in their order."""
        if self.remote is None:
            return []
        return [part for place in places for part in self.remote.parts(chunks[place], place)]

    def use(self, chunks: Sequence[Key], found: Found, fetched: Sequence[int]) -> None:
        """A request was served with what was found; `fetched` came from the remote tier."""
        if self.remote is not None:
            for place in fetched:
                self.remote.use(chunks[place], place)
        if self.host is not None:
            if self.spec.keeps_fetched:
                self.host.put([chunks[place] for place in fetched])
            self.host.use(chunks[: found.tokens // self.spec.chunk_tokens])

    def store(self, chunks: Sequence[Key], found: Found) -> list[Part]:
        """Store what the lookup did not find; what of it was written to the remote tier."""
        return self._store(chunks, found.tokens // self.spec.chunk_tokens)

    def store_answer(self, chunks: Sequence[Key], tokens: int) -> list[Part]:
        """Store the whole chunks of the first `tokens` tokens that end behind those of the prompt: nobody hits them."""
        more = tokens // self.spec.chunk_tokens - len(chunks) if self.spec.stores_answers else 0
        own = [f"own {next(self._own_keys)}".encode() for _ in range(more)]
        return self._store([*chunks, *own], len(chunks))

    def _store(self, chunks: Sequence[Key], first: int) -> list[Part]:
        if self.host is not None:
            self.host.put(chunks[first:])
        if self.remote is None:
            return []
        return [part for place in range(first, len(chunks)) for part in self.remote.put(chunks[place], place)]
