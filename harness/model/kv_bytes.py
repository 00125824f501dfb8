"""s, the bytes of KV cache one token needs: from a model's config.json, and from bytes and tokens that were counted."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from harness.errors import ConfigError
from harness.model.attention import Layers, attention_layers

_DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "int8": 1}
_CACHE_BYTES = {
    **dict.fromkeys(("bfloat16", "float16"), 2),
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_per_token_head", "int8", "int8_per_token_head"), 1),
    "float32": 4,
}
_MLA_FP8 = "fp8_ds_mla"
_MLA_FP8_SCALE_BYTES = 4  # for each 128 latents; the rotary key stays in bfloat16 (656 bytes for 512 + 64)
_INDEX_SCALE_BYTES = 4  # for each 128 index keys
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv")
_DISAGREES_OVER = 0.01


@dataclass(frozen=True, slots=True)
class Ranks:
    """How an engine is split: tensor parallel, decode context parallel (inside it), prefill context parallel."""

    tensor: int = 1
    decode_context: int = 1
    prefill_context: int = 1

    def __post_init__(self) -> None:
        """Raises ConfigError for sizes that no engine has."""
        for name in ("tensor", "decode_context", "prefill_context"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} ranks are {getattr(self, name)}", where="ranks", remedy="1 or more")
        if self.tensor % self.decode_context:
            text = f"decode context parallel {self.decode_context} does not divide tensor parallel {self.tensor}"
            raise ConfigError(text, where="ranks", remedy="it splits the tensor-parallel ranks among themselves")


@dataclass(frozen=True, slots=True)
class KvBytes:
    """KV bytes of one token.

    `per_token` is s: one copy of what all layers keep. `per_rank` is what one rank holds of it, `all_ranks` what they
    hold together: more than s where heads or latents are copied (more tensor-parallel ranks than KV heads, MLA,
    prefill context parallel). `windowed` has (window in tokens, bytes a token) of layers that need only a window; they
    are in `per_token`, since a connector without knowledge of windows moves them whole. `index_at_most` is what index
    keys of sparse attention add on top at most (not in `per_token`: a model may share them among layers).
    """

    per_token: int
    per_rank: Fraction
    all_ranks: Fraction
    windowed: tuple[tuple[int, int], ...] = ()
    index_at_most: int = 0

    def needed(self, tokens: int) -> int:
        """Bytes that a hit of `tokens` tokens needs, where windowed layers bring their window only."""
        saved = sum(max(0, tokens - window) * size for window, size in self.windowed)
        return tokens * self.per_token - saved


def kv_bytes(config: Mapping[str, Any], *, cache_dtype: str = "auto", ranks: Ranks | None = None) -> KvBytes:
    """The KV bytes of one token of the model that the config.json `config` describes, on `ranks` (default: one).

    With keys and values per head (MHA, GQA, MQA): layers x KV heads x (key + value head size) x bytes of the type. With
    latent attention (MLA): layers x (kv_lora_rank + qk_rope_head_dim) x bytes, as vLLM 0.31 sizes its cache
    (transformers_utils/model_arch_config_convertor.py); `fp8_ds_mla` has a layout of its own (656 bytes a layer for
    512 + 64). Layers without KV per token count nothing. `cache_dtype` is vLLM's --kv-cache-dtype; scales of other
    quantised caches come on top. Tensor parallel splits heads, and copies them where ranks outnumber heads; latents are
    copied; decode context parallel splits tokens; prefill context parallel copies.

    Raises ConfigError that names the field which is missing or not a number above zero, the layer whose kind is not
    known, or the type.
    """
    text = config.get("text_config")
    fields = text if isinstance(text, Mapping) else config
    layers = attention_layers({"architectures": config.get("architectures"), **fields}, _layers(config, fields))
    width, split = _token_layer(config, fields, cache_dtype), ranks or Ranks()
    held = _share(fields, split) / split.decode_context
    per_token = layers.with_kv * width
    return KvBytes(
        per_token=per_token,
        per_rank=per_token * held,
        all_ranks=per_token * held * split.tensor * split.prefill_context,
        windowed=tuple((window, count * width) for window, count in layers.windowed),
        index_at_most=_index_bytes(fields, layers),
    )


def kv_bytes_per_token(config: Mapping[str, Any], cache_dtype: str = "auto") -> int:
    """s: bytes of KV one token occupies over all layers, one copy; `kv_bytes` has the formula and its errors."""
    return kv_bytes(config, cache_dtype=cache_dtype).per_token


@dataclass(frozen=True, slots=True)
class Agreement:
    """s as the config has it beside s as it was counted; they `agree` within 1 %."""

    from_config: float
    counted: float

    @property
    def agree(self) -> bool:
        """Whether the two differ by 1 % at most."""
        return abs(self.counted / self.from_config - 1) <= _DISAGREES_OVER

    def text(self) -> str:
        """What to say of it."""
        pair = f"{self.from_config:,.0f} bytes a token expected, {self.counted:,.0f} counted"
        if self.agree:
            return f"s: {pair}"
        more = "more" if self.counted > self.from_config else "less"
        return (
            f"s: {pair}, {abs(self.counted / self.from_config - 1):.0%} {more}: look for a KV type that is not the "
            "model's, copies by several ranks, index keys or scales, or another model"
        )


def counted_bytes_per_token(moved_bytes: float, tokens: float) -> float:
    """s from bytes that were moved for so many tokens. Raises ConfigError unless both are above zero."""
    if not (moved_bytes > 0 and tokens > 0):
        raise ConfigError(
            f"{moved_bytes:,.0f} bytes moved for {tokens:,.0f} tokens: s cannot be counted",
            where="measured bytes",
            remedy="count while something is stored or loaded",
        )
    return moved_bytes / tokens


def _layers(config: Mapping[str, Any], fields: Mapping[str, Any]) -> int:
    if fields.get("num_hidden_layers") is None:
        name = next(iter(config.get("architectures") or ()), None) or config.get("model_type") or "this architecture"
        raise ConfigError(
            f"num_hidden_layers is missing: {name} does not describe its attention as known here",
            where="config.json",
            remedy="it needs num_hidden_layers, and kv_lora_rank with qk_rope_head_dim (MLA) or num_attention_heads "
            "with head_dim or hidden_size (and num_key_value_heads if fewer); or give s itself",
        )
    return _positive(fields, "num_hidden_layers")


def _token_layer(config: Mapping[str, Any], fields: Mapping[str, Any], cache_dtype: str) -> int:
    """Bytes of one token in one layer."""
    if _is_mla(fields):
        rank, rope = _positive(fields, "kv_lora_rank"), _positive(fields, "qk_rope_head_dim")
        if cache_dtype == _MLA_FP8:
            return rank + rank // 128 * _MLA_FP8_SCALE_BYTES + 2 * rope
        return (rank + rope) * _width(config, fields, cache_dtype)
    key = _head_dim(fields)
    value = _positive(fields, "v_head_dim") if fields.get("v_head_dim") else key
    return _kv_heads(fields) * (key + value) * _width(config, fields, cache_dtype)


def _is_mla(fields: Mapping[str, Any]) -> bool:
    return fields.get("kv_lora_rank") is not None


def _share(fields: Mapping[str, Any], ranks: Ranks) -> Fraction:
    """What one tensor-parallel rank holds of a token's KV."""
    if _is_mla(fields):
        return Fraction(1)
    heads = _kv_heads(fields)
    if heads % ranks.tensor and ranks.tensor % heads:
        raise ConfigError(
            f"{heads} KV heads cannot be split over {ranks.tensor} tensor-parallel ranks",
            where="config.json: num_key_value_heads",
            remedy="one must be a multiple of the other",
        )
    return Fraction(max(1, heads // ranks.tensor), heads)


def _index_bytes(fields: Mapping[str, Any], layers: Layers) -> int:
    """Index keys of sparse attention, if every layer had its own (vLLM 0.31, models/deepseek_v2.py: FP8 + scales)."""
    if not fields.get("index_head_dim"):
        return 0
    size = _positive(fields, "index_head_dim")
    return layers.with_kv * (size + size // 128 * _INDEX_SCALE_BYTES)


def _kv_heads(fields: Mapping[str, Any]) -> int:
    for name in _KV_HEADS:
        if fields.get(name) is not None:
            return _positive(fields, name)
    return 1 if fields.get("multi_query") is True else _positive(fields, "num_attention_heads")


def _head_dim(fields: Mapping[str, Any]) -> int:
    if fields.get("head_dim"):
        return _positive(fields, "head_dim")
    hidden, heads = _positive(fields, "hidden_size"), _positive(fields, "num_attention_heads")
    if hidden % heads:
        raise ConfigError(f"hidden_size {hidden} is not a multiple of num_attention_heads {heads}", where="config.json")
    return hidden // heads


def _width(config: Mapping[str, Any], fields: Mapping[str, Any], cache_dtype: str) -> int:
    if cache_dtype != "auto":
        if cache_dtype not in _CACHE_BYTES:
            known = ", ".join(["auto", *_CACHE_BYTES, _MLA_FP8])
            text = f"a KV cache of type {cache_dtype!r} is not known here" + " without MLA" * (cache_dtype == _MLA_FP8)
            raise ConfigError(text, where="--kv-cache-dtype", remedy=f"one of {known}")
        return _CACHE_BYTES[cache_dtype]
    names = [source[key] for source in (fields, config) for key in ("dtype", "torch_dtype") if source.get(key)]
    if not names or str(names[0]).removeprefix("torch.") not in _DTYPE_BYTES:
        raise ConfigError(
            f"dtype is {names[0]!r}" if names else "dtype is missing",
            where="config.json",
            remedy=f"give the type of the KV cache, or one of {', '.join(_DTYPE_BYTES)}",
        )
    return _DTYPE_BYTES[str(names[0]).removeprefix("torch.")]


def _positive(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    if value is None:
        raise ConfigError(f"{name} is missing", where="config.json", remedy=f"add {name!r}")
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ConfigError(f"{name} is {value!r}", where="config.json", remedy="a whole number above zero")
    return value
