"""Promises of harness.stack.tiny_model."""

import json
from pathlib import Path

import numpy as np

from harness.stack.tiny_model import PRESETS, TinyLlama, _bfloat16, make_tiny_model


def _tensors(folder: Path) -> dict[str, tuple[list[int], bytes]]:
    """A safetensors file read by its own rules."""
    data = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__")
    body = data[8 + size :]
    return {name: (one["shape"], body[slice(*one["data_offsets"])]) for name, one in header.items()}


def test_every_tensor_of_the_architecture_is_there(tmp_path: Path) -> None:
    """Nine tensors a layer, the embeddings and the last norm, each with as many bytes as its shape says."""
    tensors = _tensors(make_tiny_model("tiny-4l", tmp_path))
    assert len(tensors) == 4 * 9 + 2
    assert all(len(data) == 2 * int(np.prod(shape)) for shape, data in tensors.values())


def test_weights_have_the_scales_that_make_answers_depend_on_prompts(tmp_path: Path) -> None:
    """Standard deviations: embeddings 1, q 2/sqrt(256), o 4/sqrt(256), norms exactly 1."""
    tensors = _tensors(make_tiny_model("tiny-4l", tmp_path))

    def deviation(name: str) -> float:
        bits = np.frombuffer(tensors[name][1], "<u2").astype("<u4") << 16
        return float(bits.view("<f4").std())

    assert abs(deviation("model.embed_tokens.weight") - 1) < 0.01
    assert abs(deviation("model.layers.0.self_attn.q_proj.weight") - 2 / 16) < 0.01
    assert abs(deviation("model.layers.3.self_attn.o_proj.weight") - 4 / 16) < 0.01
    assert set(tensors["model.norm.weight"][1]) == {0x80, 0x3F}


def test_the_same_preset_is_the_same_bytes_and_is_made_once(tmp_path: Path) -> None:
    """Two machines, or two runs, have the same model; a folder that is whole is not written again."""
    one, other = make_tiny_model("tiny-4l", tmp_path / "a"), make_tiny_model("tiny-4l", tmp_path / "b")
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    before = (one / "model.safetensors").stat().st_mtime_ns
    assert make_tiny_model("tiny-4l", tmp_path / "a") == one
    assert (one / "model.safetensors").stat().st_mtime_ns == before


def test_a_folder_left_half_made_is_made_again(tmp_path: Path) -> None:
    """The stamp is written last: without it nothing in the folder is believed."""
    folder = make_tiny_model("tiny-4l", tmp_path)
    (folder / "made.json").unlink()
    (folder / "model.safetensors").write_bytes(b"half")
    assert _tensors(make_tiny_model("tiny-4l", tmp_path))


def test_presets_differ_in_layers_only() -> None:
    """tiny-4l is half of tiny-8l."""
    assert PRESETS["tiny-8l"] == TinyLlama(256, 688, 8, 4, 2, 64)
    assert PRESETS["tiny-4l"] == TinyLlama(256, 688, 4, 4, 2, 64)


def test_bfloat16_rounds_to_nearest_even() -> None:
    """1 + 2^-8 lies between two bfloat16 values and goes to the even one; 1 + 3 x 2^-8 goes up."""
    data = np.frombuffer(_bfloat16(np.array([1 + 2**-8, 1 + 3 * 2**-8, -2.5], np.float32)), "<u2")
    assert list(data) == [0x3F80, 0x3F82, 0xC020]
