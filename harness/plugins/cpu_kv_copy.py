"""Copies KV between vLLM's CPU cache and LMCache's memory objects.

Layouts, as read from vllm 0.31 (v1/attention/backends/cpu_attn.py) and lmcache 0.5.5 (MemoryFormat.KV_2LTD):
vLLM, one tensor a layer: [blocks, KV heads, block size, 2 x head size], K before V in the last dimension; a token's
slot is block x block size + offset, negative for padding. LMCache: [2, layers, tokens, KV heads x head size].
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from lmcache.v1.gpu_connector.gpu_connectors import GPUConnectorInterface


class CPUKVCopy(GPUConnectorInterface):  # type: ignore[misc] # lmcache is not there where types are checked
    """What LMCache calls a GPU connector, for an engine whose KV cache is in the machine's own memory.

    `kv_shape` is LMCacheMetadata's: (layers, 2, tokens a chunk, KV heads, head size). Raises ValueError for a model
    whose KV is not a K and a V (MLA), and for a cache of another layout: never a copy of the wrong bytes.
    """

    def __init__(self, kv_shape: Sequence[int]) -> None:
        layers, parts, _, heads, head_size = kv_shape
        if parts != 2:
            raise ValueError(f"a KV cache with {parts} part(s) a token (MLA) is not copied here: kv_shape {kv_shape}")
        self._layers, self._heads, self._head_size = layers, heads, head_size

    def to_gpu(self, memory_obj: Any, start: int, end: int, **kwargs: Any) -> None:
        """Write the chunk of tokens `start` to `end` into the slots that `slot_mapping` gives them."""
        caches, slots = self._caches(kwargs["kvcaches"]), kwargs["slot_mapping"][start:end]
        real = slots >= 0
        blocks, offsets = self._places(caches[0], slots[real])
        keys, values = self._split_heads(memory_obj.tensor)
        for cache, key, value in zip(caches, keys, values, strict=True):
            cache[blocks, :, offsets] = torch.cat((key[real], value[real]), dim=-1).to(cache.dtype)

    def from_gpu(self, memory_obj: Any, start: int, end: int, **kwargs: Any) -> None:
        """Read the chunk of tokens `start` to `end` out of their slots. Padding has no KV: a ValueError."""
        caches, slots = self._caches(kwargs["kvcaches"]), kwargs["slot_mapping"][start:end]
        if bool((slots < 0).any()):
            raise ValueError(f"tokens {start} to {end} have no slot in the KV cache: nothing to store")
        blocks, offsets = self._places(caches[0], slots)
        keys, values = self._split_heads(memory_obj.tensor)
        for cache, key, value in zip(caches, keys, values, strict=True):
            both = cache[blocks, :, offsets]
            key.copy_(both[..., : self._head_size])
            value.copy_(both[..., self._head_size :])

    def batched_to_gpu(self, memory_objs: Any = None, starts: Any = None, ends: Any = None, **kwargs: Any) -> None:
        """`to_gpu` of each chunk."""
        for memory_obj, start, end in zip(memory_objs, starts, ends, strict=True):
            self.to_gpu(memory_obj, start, end, **kwargs)

    def batched_from_gpu(self, memory_objs: Any, starts: Any, ends: Any, **kwargs: Any) -> None:
        """`from_gpu` of each chunk."""
        for memory_obj, start, end in zip(memory_objs, starts, ends, strict=True):
            self.from_gpu(memory_obj, start, end, **kwargs)

    def get_shape(self, num_tokens: int) -> torch.Size:
        """The shape of a memory object of so many tokens."""
        return torch.Size((2, self._layers, num_tokens, self._heads * self._head_size))

    def _caches(self, kvcaches: Mapping[str, torch.Tensor] | Sequence[torch.Tensor]) -> list[torch.Tensor]:
        caches = list(kvcaches.values() if isinstance(kvcaches, Mapping) else kvcaches)
        shape = tuple(caches[0].shape)
        if len(caches) != self._layers or len(shape) != 4 or shape[1::2] != (self._heads, 2 * self._head_size):
            wanted = f"{self._layers} layers of [blocks, {self._heads}, block size, {2 * self._head_size}]"
            raise ValueError(f"vLLM's KV cache is {len(caches)} layers of {list(shape)}, not {wanted}")
        return caches

    def _places(self, cache: torch.Tensor, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        block_size = cache.shape[2]
        return torch.div(slots, block_size, rounding_mode="floor"), slots % block_size

    def _split_heads(self, tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of a memory object, each [layers, tokens, KV heads, head size]; views, so writing them writes it."""
        keys, values = tensor.unflatten(-1, (self._heads, self._head_size))
        return keys, values
