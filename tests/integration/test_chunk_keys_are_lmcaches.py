"""Our keys of chunks beside LMCache's own: the same hashes, and so the same instance for every chunk."""

import numpy as np
import pytest

from harness.plugins.placement import home_over
from harness.schedule.tokens import Prompting, prompt_tokens
from harness.sim.keys import blake3_keys, sha256_cbor_keys
from harness.sim.remote import RemoteSpec, RemoteTier

pytest.importorskip("lmcache")

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]

TOKENS = prompt_tokens(Prompting("model", "salt", 4, 32_000), [(7, 1301)])
CHUNK = 256
INSTANCES = [f"127.0.0.1:{port}" for port in range(7101, 7106)]


def _multiprocess() -> list[bytes]:
    from lmcache.v1.multiprocess.token_hasher import TokenHasher  # noqa: PLC0415 - where LMCache is installed

    return TokenHasher(CHUNK).compute_chunk_hashes(TOKENS.tolist())


def _inprocess(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    monkeypatch.setenv("PYTHONHASHSEED", "0")  # as stack.vllm starts the engine
    from lmcache.v1.config import LMCacheEngineConfig  # noqa: PLC0415 - the same
    from lmcache.v1.token_database import ChunkedTokenDatabase  # noqa: PLC0415

    config = LMCacheEngineConfig.from_defaults(
        chunk_size=CHUNK, pre_caching_hash_algorithm="sha256_cbor", save_unfull_chunk=False
    )
    found = ChunkedTokenDatabase(config, None).process_tokens(TOKENS.tolist(), make_key=False)
    return [number for _, _, number in found]


def test_the_multiprocess_servers_hashes() -> None:
    """Of every whole chunk, and each lies where the plugin inside LMCache puts its key."""
    keys = list(blake3_keys(TOKENS, CHUNK))
    assert keys == _multiprocess()
    _same_home(keys, [f"model@01000100@0@{key.hex()}" for key in keys])


def test_the_hashes_inside_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """sha256_cbor, folded into 64 bits as LMCache does."""
    numbers = _inprocess(monkeypatch)
    keys = list(sha256_cbor_keys(TOKENS, CHUNK))
    assert [int.from_bytes(key, "big") for key in keys] == numbers
    _same_home(keys, [f"model@1@0@{number:x}@bfloat16" for number in numbers])


def _same_home(keys: list[bytes], names: list[str]) -> None:
    home = home_over(INSTANCES, "chunk")
    tier = RemoteTier(RemoteSpec(len(INSTANCES)), 1.0)
    assert [tier.parts(key, place)[0].instance for place, key in enumerate(keys)] == [home(name) for name in names]
    assert len({home(name) for name in names}) > 1


def test_a_longer_prompt_keeps_the_keys_of_its_beginning() -> None:
    """Keys are of prefixes: what follows a chunk changes nothing before it."""
    for keys in (blake3_keys, sha256_cbor_keys):
        longer = list(keys(np.append(TOKENS, TOKENS), CHUNK))
        assert longer[:5] == list(keys(TOKENS, CHUNK))
