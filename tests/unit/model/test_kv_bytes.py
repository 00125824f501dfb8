"""s from config.json."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import ConfigError
from harness.model import kv_bytes_per_token

TINY = {"num_hidden_layers": 8, "num_key_value_heads": 2, "num_attention_heads": 4, "head_dim": 64, "dtype": "bfloat16"}
SIZES = st.integers(1, 512)


def test_tiny_model() -> None:
    """The laptop's model needs 4,096 bytes a token (live-stack.md: 8 x 2 x 2 x 64 x 2)."""
    assert kv_bytes_per_token(TINY) == 4096


def test_head_dim_from_hidden_size() -> None:
    """Without head_dim, or with it null, it is hidden_size / num_attention_heads."""
    config = TINY | {"head_dim": None, "hidden_size": 256}
    assert kv_bytes_per_token(config) == 4096


@pytest.mark.parametrize(
    ("changes", "kv_heads"),
    [({}, 4), ({"multi_query": True}, 1), ({"num_kv_heads": 2}, 2), ({"num_key_value_heads": 4}, 4)],
)
def test_heads(changes: dict[str, Any], kv_heads: int) -> None:
    """MHA counts every attention head, MQA one, GQA those it names."""
    config = {key: value for key, value in TINY.items() if key != "num_key_value_heads"} | changes
    assert kv_bytes_per_token(config) == 8 * 2 * kv_heads * 64 * 2


@settings(deadline=None)
@given(layers=SIZES, rank=SIZES, rope=SIZES, width=st.sampled_from([1, 2, 4]))
def test_mla_latents(layers: int, rank: int, rope: int, width: int) -> None:
    """MLA keeps one latent and one rotary key a layer, whatever the number of heads."""
    config = TINY | {"num_hidden_layers": layers, "kv_lora_rank": rank, "qk_rope_head_dim": rope}
    assert kv_bytes_per_token(config, dtype_bytes=width) == layers * (rank + rope) * width


@settings(deadline=None)
@given(layers=SIZES, heads=SIZES, head_dim=SIZES)
def test_dtype_scales(layers: int, heads: int, head_dim: int) -> None:
    """An FP8 cache needs half the bytes of a BF16 one."""
    config = TINY | {"num_hidden_layers": layers, "num_key_value_heads": heads, "head_dim": head_dim}
    assert 2 * kv_bytes_per_token(config, dtype_bytes=1) == kv_bytes_per_token(config)


def test_text_part_of_multimodal() -> None:
    """A multimodal config is read in its text_config; a dtype given outside it counts."""
    text = {key: value for key, value in TINY.items() if key != "dtype"}
    assert kv_bytes_per_token({"text_config": text, "torch_dtype": "torch.float32"}) == 8192


@pytest.mark.parametrize("field", ["num_hidden_layers", "dtype"])
def test_missing_field_is_named(field: str) -> None:
    """What is missing is named, not guessed."""
    config = {key: value for key, value in TINY.items() if key != field}
    with pytest.raises(ConfigError, match=field):
        kv_bytes_per_token(config)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"num_key_value_heads": True}, "num_key_value_heads is True"),
        ({"head_dim": -1}, "head_dim is -1"),
        ({"dtype": "int3"}, "dtype is 'int3'"),
        ({"kv_lora_rank": 512}, "qk_rope_head_dim is missing"),
        ({"head_dim": None, "hidden_size": 255}, "hidden_size 255"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "linear_attention"),
    ],
)
def test_unusable_field_is_named(changes: dict[str, Any], named: str) -> None:
    """A value that no model has, or a layer that keeps no KV per token, is refused by name."""
    with pytest.raises(ConfigError, match=named):
        kv_bytes_per_token(TINY | changes)


def test_given_dtype_is_checked() -> None:
    """dtype_bytes of zero would make every cache free."""
    with pytest.raises(ConfigError, match="dtype_bytes 0"):
        kv_bytes_per_token(TINY, dtype_bytes=0)
