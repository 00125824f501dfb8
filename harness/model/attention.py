"""Which layers of a model keep KV of every token, which only of a window, and which none: from its config.json."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import ConfigError

_FULL = {"full_attention", "attention", "full", "global", "global_attention", "hybrid", "*"}
_WINDOWED = {"sliding_attention", "chunked_attention", "local_attention", "local", "sliding_window_attention"}
_WITHOUT = re.compile(r"linear|mamba|recurrent|conv|ssm|rwkv|gated_delta|mlp|moe|[ME-]$")
_LISTS = ("layer_types", "layers_block_type", "block_types")
_WINDOWS = ("sliding_window", "attention_chunk_size", "attention_window_size", "sliding_window_size")
_STATE_FIELDS = re.compile(r"mamba|ssm|rwkv|lru_width|linear_(num|key|value|conv|attn)|conv_L_cache|block_configs")
_NEEDED = (
    "which layers are attention, as layer_types (or layers_block_type, hybrid_override_pattern, attn_type_list, "
    "attn_layer_indices, attn_layer_period, full_attention_interval, linear_attn_config)"
)


@dataclass(frozen=True, slots=True)
class Layers:
    """Counts of layers: `full` keep KV of every token, `windowed` of the last (window) tokens, `without` of none."""

    full: int
    windowed: tuple[tuple[int, int], ...]
    without: int

    @property
    def with_kv(self) -> int:
        """Layers that keep KV at all."""
        return self.full + sum(count for _, count in self.windowed)


def attention_layers(fields: Mapping[str, Any], layers: int) -> Layers:
    """The layers of a model of `layers` layers whose config.json has `fields`.

    Read from what the families of models write, in this order: a list of kinds a layer, a pattern, indices or
    intervals of attention layers, an interval or a number of windowed layers; without any of it all layers are alike.
    Layers that share another layer's KV (num_kv_shared_layers) keep none of their own. Raises ConfigError where a layer
    is of an unknown kind, or where the config speaks of layers without KV and does not say which they are.
    """
    kinds = list(_kinds(fields, layers))
    if len(kinds) < layers:
        raise _unknown(fields, f"it names the kinds of {len(kinds)} layers and has {layers}")
    shared = fields.get("num_kv_shared_layers") or 0
    own = kinds[: layers - shared] if shared else kinds[:layers]
    counts = Counter(_keeps(fields, str(kind)) for kind in own)
    windows = sorted((window, count) for window, count in counts.items() if window)
    return Layers(counts[0], tuple(windows), counts[None])


def _kinds(fields: Mapping[str, Any], layers: int) -> Sequence[Any]:
    """The kind of each layer."""
    named = next((fields[name] for name in _LISTS if fields.get(name)), None) or fields.get("hybrid_override_pattern")
    if named:
        cycle = list(named)  # RecurrentGemma writes one period of its pattern
        return cycle * -(-layers // len(cycle)) if "block_types" in fields else cycle
    full = _attention_indices(fields, layers)
    if full is not None:
        return ["full_attention" if layer in full else "linear" for layer in range(layers)]
    state = sorted(name for name in fields if _STATE_FIELDS.search(name) and fields[name] not in (None, False, 0, []))
    if state:
        raise _unknown(fields, f"{state[0]} speaks of layers that keep no KV per token")
    return _windowed_kinds(fields, layers)


def _attention_indices(fields: Mapping[str, Any], layers: int) -> set[int] | None:
    """The attention layers among others that keep a state; None where the config does not tell them apart."""
    if fields.get("attn_type_list"):  # MiniMax-01: 1 is softmax attention
        return {layer for layer, kind in enumerate(fields["attn_type_list"]) if kind == 1}
    if fields.get("attn_layer_indices") is not None:  # Bamba
        return set(fields["attn_layer_indices"])
    if fields.get("attn_layer_period"):  # Jamba
        period, offset = fields["attn_layer_period"], fields.get("attn_layer_offset", 0)
        return {layer for layer in range(layers) if layer % period == offset}
    if fields.get("full_attention_interval"):  # Qwen3-Next
        return {layer for layer in range(layers) if (layer + 1) % fields["full_attention_interval"] == 0}
    linear = fields.get("linear_attn_config")
    if isinstance(linear, Mapping) and linear.get("full_attn_layers"):  # Kimi Linear counts from 1
        return {layer - 1 for layer in linear["full_attn_layers"]}
    return None


def _windowed_kinds(fields: Mapping[str, Any], layers: int) -> Sequence[str]:
    full, windowed = "full_attention", "sliding_attention"
    if fields.get("sliding_window") is None or fields.get("use_sliding_window") is False:
        return [full] * layers
    pattern = fields.get("sliding_window_pattern")
    if isinstance(pattern, int) and pattern > 0:  # Gemma 3: each pattern-th layer is global
        return [windowed if (layer + 1) % pattern else full for layer in range(layers)]
    if fields.get("use_sliding_window"):  # Qwen2: the first so many layers are global
        first = fields.get("max_window_layers", 0)
        return [full if layer < first else windowed for layer in range(layers)]
    return [windowed] * layers


def _keeps(fields: Mapping[str, Any], kind: str) -> int | None:
    """0: every token; a window in tokens; None: nothing per token."""
    if kind in _FULL:
        return 0
    if kind in _WINDOWED:
        for name in _WINDOWS:
            if isinstance(fields.get(name), int) and fields[name] > 0:
                return int(fields[name])
        raise _unknown(fields, f"a layer is {kind!r}, and none of {', '.join(_WINDOWS)} says how wide its window is")
    if _WITHOUT.search(kind):
        return None
    raise _unknown(fields, f"a layer is {kind!r}, a kind not known here")


def _unknown(fields: Mapping[str, Any], why: str) -> ConfigError:
    name = next(iter(fields.get("architectures") or ()), None) or fields.get("model_type") or "this architecture"
    return ConfigError(
        f"{name}: the KV bytes a token cannot be told from its config: {why}",
        where="config.json",
        remedy=f"the config must say {_NEEDED}; or give s itself, as LMCache's log or a Valkey's INFO shows it",
    )
