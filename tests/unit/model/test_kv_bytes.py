"""s from config.json."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import ConfigError
from harness.model import Ranks, kv_bytes, kv_bytes_per_token
from harness.model.kv_bytes import Agreement, counted_bytes_per_token

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
@given(layers=SIZES, rank=SIZES, rope=SIZES, kind=st.sampled_from([("fp8", 1), ("float16", 2), ("float32", 4)]))
def test_mla_latents(layers: int, rank: int, rope: int, kind: tuple[str, int]) -> None:
    """MLA keeps one latent and one rotary key a layer, whatever the number of heads."""
    cache, width = kind
    config = TINY | {"num_hidden_layers": layers, "kv_lora_rank": rank, "qk_rope_head_dim": rope}
    assert kv_bytes_per_token(config, cache) == layers * (rank + rope) * width


@settings(deadline=None)
@given(layers=SIZES, heads=SIZES, head_dim=SIZES)
def test_dtype_scales(layers: int, heads: int, head_dim: int) -> None:
    """An FP8 cache needs half the bytes of a BF16 one."""
    config = TINY | {"num_hidden_layers": layers, "num_key_value_heads": heads, "head_dim": head_dim}
    assert 2 * kv_bytes_per_token(config, "fp8") == kv_bytes_per_token(config)
    assert kv_bytes_per_token(config, "int8") == kv_bytes_per_token(config, "fp8_e5m2")


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
        ({"layer_types": ["full_attention"] * 7 + ["telepathy"]}, "telepathy"),
        ({"layer_types": ["full_attention"]}, "kinds of 1 layers and has 8"),
        ({"layer_types": ["sliding_attention"] * 8}, "how wide its window is"),
        ({"mamba_d_state": 16}, "mamba_d_state"),
    ],
)
def test_unusable_field_is_named(changes: dict[str, Any], named: str) -> None:
    """A value that no model has, or a layer that keeps no KV per token, is refused by name."""
    with pytest.raises(ConfigError, match=named):
        kv_bytes_per_token(TINY | changes)


def test_given_type_is_checked() -> None:
    """A KV type that vLLM does not know, or only for MLA, is refused by name."""
    for name in ("fp6", "fp8_ds_mla"):
        with pytest.raises(ConfigError, match=name):
            kv_bytes_per_token(TINY, name)


def test_unknown_architecture_says_what_it_needs() -> None:
    """A config.json of another world: the architecture is named, and so are the fields that would do."""
    with pytest.raises(ConfigError, match="RwkvForCausalLM") as error:
        kv_bytes_per_token({"architectures": ["RwkvForCausalLM"], "n_layer": 24, "attention_hidden_size": 2048})
    for field in ("num_hidden_layers", "kv_lora_rank", "num_attention_heads", "s itself"):
        assert field in error.value.remedy


LLAMA_3_70B = {  # meta-llama/Meta-Llama-3-70B
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "hidden_size": 8192,
    "torch_dtype": "bfloat16",
}
QWEN_2_5_1_5B = {  # Qwen/Qwen2.5-1.5B: sliding_window is there and switched off
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "hidden_size": 1536,
    "torch_dtype": "bfloat16",
    "sliding_window": 131072,
    "use_sliding_window": False,
    "max_window_layers": 21,
}
DEEPSEEK_V3 = {  # deepseek-ai/DeepSeek-V3
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "hidden_size": 7168,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "torch_dtype": "bfloat16",
}
GLM_5 = DEEPSEEK_V3 | {"num_hidden_layers": 78, "index_head_dim": 128}  # zai-org/GLM-5


def test_published_sizes() -> None:
    """DeepSeek-V3 70.272 KB, Llama-3.1-405B 516.096 KB, Qwen-2.5-72B 327.680 KB (arXiv 2505.09343, table 1)."""
    assert kv_bytes_per_token(DEEPSEEK_V3) == 70_272
    assert kv_bytes_per_token(LLAMA_3_70B | {"num_hidden_layers": 126, "head_dim": 128}) == 516_096
    assert kv_bytes_per_token(LLAMA_3_70B) == 327_680  # Qwen-2.5-72B has the same 80 layers of 8 x 128


def test_the_ten_documents_model_as_measured() -> None:
    """Ten documents, 50,110 tokens of a 1.5B model, need about 1.3 GB of host memory (numbers.md, B), GB being 2^30."""
    assert kv_bytes_per_token(QWEN_2_5_1_5B) == 28 * 2 * 2 * 128 * 2
    assert 50_110 * kv_bytes_per_token(QWEN_2_5_1_5B) / 2**30 == pytest.approx(1.3, abs=0.05)


def test_the_papers_size_lies_between_latents_and_latents_with_index_keys() -> None:
    """GLM in FP8 with the 78 layers of GLM-5: 44.9 KB of latents, and at most 10.3 KB of index keys; 48.4 published."""
    size = kv_bytes(GLM_5, cache_dtype="fp8")
    assert size.per_token == 78 * (512 + 64)
    assert size.per_token < 48_400 < size.per_token + size.index_at_most


def test_fp8_of_sparse_mla_has_its_own_layout() -> None:
    """656 bytes a layer: 512 latents, four scales of four bytes, the rotary key in bfloat16 (FlashMLA sparse)."""
    assert kv_bytes_per_token(DEEPSEEK_V3, "fp8_ds_mla") == 61 * 656


@pytest.mark.parametrize(
    ("changes", "full", "windowed"),
    [
        ({"layer_types": ["linear_attention", "full_attention"] * 4}, 4, []),
        ({"layers_block_type": ["mamba"] * 6 + ["attention"] * 2, "mamba_d_state": 16}, 2, []),
        ({"hybrid_override_pattern": "M-M*-M-*", "ssm_state_size": 128}, 2, []),
        ({"attn_type_list": [0, 0, 0, 1, 0, 0, 0, 1]}, 2, []),
        ({"attn_layer_indices": [3], "mamba_d_state": 16}, 1, []),
        ({"attn_layer_period": 4, "attn_layer_offset": 2, "mamba_d_state": 16}, 2, []),
        ({"full_attention_interval": 4, "linear_num_key_heads": 16}, 2, []),
        ({"linear_attn_config": {"full_attn_layers": [4, 8], "kda_layers": [1]}}, 2, []),
        ({"block_types": ["recurrent", "recurrent", "attention"], "lru_width": 64}, 2, []),
        ({"sliding_window": 512}, 0, [(512, 8)]),
        ({"sliding_window": 512, "use_sliding_window": False}, 8, []),
        ({"sliding_window": 512, "use_sliding_window": True, "max_window_layers": 6}, 6, [(512, 2)]),
        ({"sliding_window": 512, "sliding_window_pattern": 4}, 2, [(512, 6)]),
        ({"layer_types": ["chunked_attention", "full_attention"] * 4, "attention_chunk_size": 64}, 4, [(64, 4)]),
        ({"layer_types": ["full_attention"] * 8, "num_kv_shared_layers": 3}, 5, []),
    ],
)
def test_layers_with_and_without_kv(changes: dict[str, Any], full: int, windowed: list[tuple[int, int]]) -> None:
    """Hybrid and sliding-window models: layers without KV per token cost nothing, windows are told apart."""
    layer = 2 * 2 * 64 * 2
    size = kv_bytes(TINY | changes)
    assert size.per_token == layer * (full + sum(count for _, count in windowed))
    assert size.windowed == tuple((window, count * layer) for window, count in windowed)


@settings(deadline=None)
@given(tokens=st.integers(1, 10_000), window=st.integers(1, 5_000))
def test_a_window_bounds_what_a_hit_needs(tokens: int, window: int) -> None:
    """Within its window a model needs all tokens; beyond it, windowed layers bring the window alone."""
    size = kv_bytes(TINY | {"sliding_window": window, "sliding_window_pattern": 4})
    assert size.needed(tokens) <= tokens * size.per_token
    assert (size.needed(tokens) == tokens * size.per_token) == (tokens <= window)


@pytest.mark.parametrize(
    ("config", "ranks", "per_rank", "all_ranks"),
    [
        (LLAMA_3_70B, Ranks(8), 1 / 8, 1),
        (LLAMA_3_70B, Ranks(16), 1 / 8, 2),
        (LLAMA_3_70B, Ranks(16, decode_context=2), 1 / 16, 1),
        (LLAMA_3_70B, Ranks(4, prefill_context=2), 1 / 4, 2),
        (DEEPSEEK_V3, Ranks(8), 1, 8),
        (DEEPSEEK_V3, Ranks(8, decode_context=8), 1 / 8, 1),
        (DEEPSEEK_V3, Ranks(1, prefill_context=8), 1, 8),
        (TINY | {"num_key_value_heads": 1}, Ranks(2), 1, 2),
    ],
)
def test_ranks(config: dict[str, Any], ranks: Ranks, per_rank: float, all_ranks: float) -> None:
    """Heads are split and, where ranks outnumber them, copied; latents are copied; context parallel splits tokens."""
    size = kv_bytes(config, ranks=ranks)
    assert float(size.per_rank) == pytest.approx(per_rank * size.per_token)
    assert float(size.all_ranks) == pytest.approx(all_ranks * size.per_token)


@pytest.mark.parametrize("bad", [(0, 1, 1), (8, 3, 1), (1, 1, -1)])
def test_ranks_that_no_engine_has(bad: tuple[int, int, int]) -> None:
    """Refused, not rounded."""
    with pytest.raises(ConfigError):
        Ranks(*bad)


def test_heads_that_cannot_be_split() -> None:
    """Eight heads over three ranks: vLLM refuses it, and so do we."""
    with pytest.raises(ConfigError, match="8 KV heads"):
        kv_bytes(LLAMA_3_70B, ranks=Ranks(3))


def test_counted_bytes_agree_or_the_disagreement_is_told() -> None:
    """Within 1 % they agree; twice as many are reported with what to look for."""
    assert Agreement(4096, counted_bytes_per_token(5_250_000, 1280)).agree
    twice = Agreement(4096, counted_bytes_per_token(2 * 5_242_880, 1280))
    assert not twice.agree
    assert "100% more" in twice.text()


@pytest.mark.parametrize("pair", [(0, 10), (10, 0), (-1, 10), (float("nan"), 1)])
def test_nothing_counted_is_no_size(pair: tuple[float, float]) -> None:
    """No bytes or no tokens: said, not divided."""
    with pytest.raises(ConfigError, match="cannot be counted"):
        counted_bytes_per_token(*pair)
