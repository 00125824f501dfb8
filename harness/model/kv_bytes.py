"""s, the bytes of KV cache one token needs, from a model's config.json."""

from collections.abc import Mapping
from typing import Any

from harness.errors import ConfigError

_DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv")
_STATELESS_LAYERS = ("linear_attention", "mamba", "recurrent", "conv")


def kv_bytes_per_token(config: Mapping[str, Any], dtype_bytes: int | None = None) -> int:
    """Bytes of KV one token occupies over all layers and ranks of the model that the config.json `config` describes.

    With keys and values per head (MHA, GQA, MQA): layers x 2 x KV heads x head_dim x bytes of the dtype. With latent
    attention (MLA): layers x (kv_lora_rank + qk_rope_head_dim) x bytes, as vLLM 0.31 sizes its cache
    (transformers_utils/model_arch_config_convertor.py). `dtype_bytes` is for a KV cache whose type is not the model's
    own, such as FP8. Index keys of sparse attention and scales of quantised caches come on top: measure those.

    Raises ConfigError that names the field which is missing or not a number above zero, or the layer without KV.
    """
    text = config.get("text_config")
    fields = text if isinstance(text, Mapping) else config
    _refuse_layers_without_kv(fields)
    layers = _positive(fields, "num_hidden_layers")
    width = dtype_bytes if dtype_bytes is not None else _dtype_bytes(fields, config)
    if width <= 0:
        raise ConfigError(f"dtype_bytes {width} is not above zero", where="config.json", remedy="1 for FP8, 2 for BF16")
    if fields.get("kv_lora_rank") is not None:
        return layers * (_positive(fields, "kv_lora_rank") + _positive(fields, "qk_rope_head_dim")) * width
    return layers * 2 * _kv_heads(fields) * _head_dim(fields) * width


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


def _dtype_bytes(fields: Mapping[str, Any], config: Mapping[str, Any]) -> int:
    names = [source[key] for source in (fields, config) for key in ("dtype", "torch_dtype") if source.get(key)]
    if not names or str(names[0]).removeprefix("torch.") not in _DTYPE_BYTES:
        raise ConfigError(
            f"dtype is {names[0]!r}" if names else "dtype is missing",
            where="config.json",
            remedy=f"give dtype_bytes, or one of {', '.join(_DTYPE_BYTES)}",
        )
    return _DTYPE_BYTES[str(names[0]).removeprefix("torch.")]


def _refuse_layers_without_kv(fields: Mapping[str, Any]) -> None:
    for kind in fields.get("layer_types") or ():
        if str(kind).startswith(_STATELESS_LAYERS):
            raise ConfigError(
                f"layer_types has {kind!r}: such a layer keeps a state, not KV per token",
                where="config.json",
                remedy="give a model whose config.json has KV heads, or rates in bytes a second",
            )


def _positive(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    if value is None:
        raise ConfigError(f"{name} is missing", where="config.json", remedy=f"add {name!r}")
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ConfigError(f"{name} is {value!r}", where="config.json", remedy="a whole number above zero")
    return value
