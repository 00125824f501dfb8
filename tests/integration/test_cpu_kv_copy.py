"""KV copied between vLLM's CPU layout and LMCache's: every byte in its place, and no copy of another layout."""

import importlib.util
import warnings
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch: Any = pytest.importorskip("torch", reason="the live stack is not installed")
if importlib.util.find_spec("lmcache") is None:
    pytest.skip("the live stack is not installed", allow_module_level=True)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # LMCache's imports have some
    from harness.plugins.cpu_kv_copy import CPUKVCopy

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]


def _caches(layers: int, blocks: int, heads: int, block_size: int, head_size: int) -> dict[str, Any]:
    return {f"layer.{i}": torch.randn(blocks, heads, block_size, 2 * head_size).bfloat16() for i in range(layers)}


@settings(max_examples=25, deadline=None)
@given(
    layers=st.integers(1, 3),
    heads=st.integers(1, 3),
    head_size=st.sampled_from([2, 4]),
    block_size=st.sampled_from([2, 4, 8]),
    tokens=st.integers(1, 20),
    start=st.integers(0, 5),
    data=st.data(),
)
def test_what_is_read_out_and_written_back_is_the_same(
    layers: int, heads: int, head_size: int, block_size: int, tokens: int, start: int, data: st.DataObject
) -> None:
    """Token by token: K and V read from any slots, and put into any others, are those of that token."""
    blocks = (start + tokens) // block_size + 2
    slots = [data.draw(st.permutations(range(blocks * block_size))) for _ in range(2)]
    source, target = (_caches(layers, blocks, heads, block_size, head_size) for _ in range(2))
    copy = CPUKVCopy((layers, 2, 256, heads, head_size))
    chunk = SimpleNamespace(tensor=torch.zeros(copy.get_shape(tokens), dtype=torch.bfloat16))
    first, second = (torch.tensor(order) for order in slots)
    copy.batched_from_gpu([chunk], [start], [start + tokens], kvcaches=source, slot_mapping=first)
    copy.batched_to_gpu([chunk], [start], [start + tokens], kvcaches=list(target.values()), slot_mapping=second)
    for layer, name in enumerate(source):
        for token in range(start, start + tokens):
            block, offset = divmod(int(first[token]), block_size)
            one = source[name][block, :, offset]
            block, offset = divmod(int(second[token]), block_size)
            assert torch.equal(one, target[name][block, :, offset])
            assert torch.equal(chunk.tensor[0, layer, token - start], one[:, :head_size].flatten())
            assert torch.equal(chunk.tensor[1, layer, token - start], one[:, head_size:].flatten())


def test_padding_is_written_nowhere_and_never_stored() -> None:
    """A negative slot is not the last block from behind, as an index of -1 would be."""
    caches = _caches(1, 2, 1, 4, 2)
    before = caches["layer.0"].clone()
    copy = CPUKVCopy((1, 2, 256, 1, 2))
    chunk = SimpleNamespace(tensor=torch.ones(copy.get_shape(2), dtype=torch.bfloat16))
    slots = torch.tensor([-1, 3])
    copy.to_gpu(chunk, 0, 2, kvcaches=caches, slot_mapping=slots)
    assert torch.equal(caches["layer.0"][1], before[1])
    assert caches["layer.0"][0, :, 3].eq(1).all()
    with pytest.raises(ValueError, match="no slot"):
        copy.from_gpu(chunk, 0, 2, kvcaches=caches, slot_mapping=slots)


def test_another_layout_is_refused() -> None:
    """MLA, and a cache whose heads are elsewhere: an error that says what was expected."""
    with pytest.raises(ValueError, match="MLA"):
        CPUKVCopy((1, 1, 256, 1, 576))
    copy = CPUKVCopy((1, 2, 256, 2, 4))
    chunk = SimpleNamespace(tensor=torch.zeros(copy.get_shape(1)))
    with pytest.raises(ValueError, match=r"not 1 layers of \[blocks, 2, block size, 8\]"):
        copy.to_gpu(chunk, 0, 1, kvcaches=_caches(1, 2, 4, 2, 4), slot_mapping=torch.tensor([0]))
