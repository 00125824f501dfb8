"""Models made on this machine: real architectures, seeded random weights, nothing downloaded.

The weights are scaled so that the answer depends on the whole prompt (embeddings 1, q and k 2/sqrt(fan-in), v and MLP
1/sqrt(fan-in), o 4/sqrt(fan-in)): with vLLM's own dummy weights every prompt gave the same token, which hides wrong KV.
"""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FIRST_TOKEN = 4  # ids below are special: <pad> <s> </s> <unk>
_FORMAT = 1  # raise when what is written changes: an older folder is then made again


@dataclass(frozen=True, slots=True)
class TinyLlama:
    """The shape of a Llama made locally. `kv_bytes_per_token` follows from layers, KV heads, head size and bfloat16."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int = 32_000
    max_positions: int = 32_768

    def config(self) -> dict[str, Any]:
        """The config.json that vLLM and transformers read."""
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "vocab_size": self.vocabulary,
            "max_position_embeddings": self.max_positions,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "tie_word_embeddings": True,
            "attention_bias": False,
            "mlp_bias": False,
            "torch_dtype": "bfloat16",
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
        }


PRESETS = {
    "tiny-8l": TinyLlama(hidden=256, intermediate=688, layers=8, heads=4, kv_heads=2, head_dim=64),
    "tiny-4l": TinyLlama(hidden=256, intermediate=688, layers=4, heads=4, kv_heads=2, head_dim=64),
}


def make_tiny_model(preset: str, cache_dir: Path, seed: int = 0) -> Path:
    """The folder of a preset model, made if it is not there yet (about two seconds, 16 to 30 MB).

    The same preset and seed give the same bytes on every machine. Raises KeyError for an unknown preset.
    """
    shape = PRESETS[preset]
    folder = cache_dir / f"{preset}-seed{seed}"
    stamp = json.dumps({"format": _FORMAT, "seed": seed, **asdict(shape)})
    done = folder / "made.json"
    if done.exists() and done.read_text() == stamp:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _write_json(folder / "config.json", shape.config())
    _write_tokenizer(folder, shape.vocabulary)
    _write_weights(folder / "model.safetensors", shape, seed)
    done.write_text(stamp)
    return folder


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")


def _write_tokenizer(folder: Path, vocabulary: int) -> None:
    """A WordLevel tokenizer, one word a token; prompts are sent as ids, so it only has to decode."""
    special = ["<pad>", "<s>", "</s>", "<unk>"]
    words = special + [f"w{i}" for i in range(len(special), vocabulary)]
    tokens = [{"id": i, "content": text, "special": True} for i, text in enumerate(special)]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    _write_json(
        folder / "tokenizer.json",
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [token | flags for token in tokens],
            "normalizer": None,
            "pre_tokenizer": {"type": "WhitespaceSplit"},
            "post_processor": None,
            "decoder": None,
            "model": {
                "type": "WordLevel",
                "vocab": {word: i for i, word in enumerate(words)},
                "unk_token": "<unk>",
            },
        },
    )
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "pad_token": "<pad>",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "model_max_length": 32_768,
        },
    )


def _write_weights(path: Path, shape: TinyLlama, seed: int) -> None:
    """The weights as bfloat16 safetensors: an 8-byte header length, a JSON header, the tensors one after another."""
    generator = np.random.Generator(np.random.PCG64(seed))
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    chunks: list[bytes] = []
    offset = 0
    for name, dims, scale in _tensors(shape):
        values = np.ones(dims, np.float32) if scale is None else _normal(generator, dims, scale)
        data = _bfloat16(values)
        header[name] = {"dtype": "BF16", "shape": list(dims), "data_offsets": [offset, offset + len(data)]}
        chunks.append(data)
        offset += len(data)
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    path.write_bytes(len(head).to_bytes(8, "little") + head + b"".join(chunks))


def _tensors(shape: TinyLlama) -> list[tuple[str, tuple[int, ...], float | None]]:
    """Every tensor as (name, dimensions, standard deviation or None for ones)."""
    hidden, inner = shape.hidden, shape.intermediate
    query, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    fan = hidden**-0.5
    tensors: list[tuple[str, tuple[int, ...], float | None]] = [
        ("model.embed_tokens.weight", (shape.vocabulary, hidden), 1.0)
    ]
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}."
        tensors += [
            (prefix + "input_layernorm.weight", (hidden,), None),
            (prefix + "post_attention_layernorm.weight", (hidden,), None),
            (prefix + "self_attn.q_proj.weight", (query, hidden), 2 * fan),
            (prefix + "self_attn.k_proj.weight", (kv, hidden), 2 * fan),
            (prefix + "self_attn.v_proj.weight", (kv, hidden), fan),
            (prefix + "self_attn.o_proj.weight", (hidden, query), 4 * query**-0.5),
            (prefix + "mlp.gate_proj.weight", (inner, hidden), fan),
            (prefix + "mlp.up_proj.weight", (inner, hidden), fan),
            (prefix + "mlp.down_proj.weight", (hidden, inner), inner**-0.5),
        ]
    return [*tensors, ("model.norm.weight", (hidden,), None)]


def _normal(generator: np.random.Generator, dims: tuple[int, ...], scale: float) -> npt.NDArray[np.float32]:
    return generator.standard_normal(dims, dtype=np.float32) * np.float32(scale)


def _bfloat16(values: npt.NDArray[np.float32]) -> bytes:
    """Round to nearest even, keep the upper 16 bits, little endian."""
    bits = values.astype("<f4").view("<u4")
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    data: bytes = rounded.astype("<u2").tobytes()
    return data
