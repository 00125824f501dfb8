"""The model under test: its KV bytes on the ranks and in the type that vLLM is told."""

import json
from pathlib import Path

import pytest

from harness.config import Engine
from harness.errors import ConfigError
from harness.experiment.engine_model import resolve_model

CONFIG = {
    "num_hidden_layers": 8,
    "num_key_value_heads": 2,
    "num_attention_heads": 4,
    "head_dim": 64,
    "dtype": "bfloat16",
    "vocab_size": 32000,
}


def engine(folder: Path, *extra_args: str, **more: object) -> Engine:
    """An engine of the model in `folder`."""
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return Engine.model_validate({"backend": "vllm", "model": str(folder), "extra_args": extra_args, **more})


@pytest.mark.parametrize(
    ("extra_args", "more", "kv_bytes", "per_rank"),
    [
        ((), {}, 4096, 4096),
        (("--kv-cache-dtype", "fp8"), {}, 2048, 2048),
        (("--kv-cache-dtype=fp8_e5m2", "--other"), {"tensor_parallel": 2}, 2048, 1024),
        ((), {"tensor_parallel": 4}, 4096, 2048),
        (("--decode-context-parallel-size", "2"), {"tensor_parallel": 4}, 4096, 1024),
        ((), {"prefill_context_parallel": 8}, 4096, 4096),
    ],
)
def test_kv_bytes_follow_the_options(
    tmp_path: Path, extra_args: tuple[str, ...], more: dict[str, object], kv_bytes: int, per_rank: int
) -> None:
    """--kv-cache-dtype in both ways of writing it; heads split over ranks, copied where ranks outnumber them."""
    model = resolve_model(engine(tmp_path, *extra_args, **more))
    assert (model.kv_bytes, model.kv_bytes_per_rank) == (kv_bytes, per_rank)


@pytest.mark.parametrize("option", [("--decode-context-parallel-size", "two"), ("--kv-cache-dtype", "fp6")])
def test_an_option_that_is_none_is_refused(tmp_path: Path, option: tuple[str, str]) -> None:
    """Before vLLM would."""
    with pytest.raises(ConfigError, match=option[1]):
        resolve_model(engine(tmp_path, *option))


@pytest.mark.parametrize(
    ("missing", "named"), [("vocab_size", "vocab_size is None"), ("num_hidden_layers", "num_hidden_layers is missing")]
)
def test_a_config_that_lacks_something_is_named_with_its_path(tmp_path: Path, missing: str, named: str) -> None:
    """What is missing, and in which file: never a traceback."""
    asked = engine(tmp_path)
    (tmp_path / "config.json").write_text(
        json.dumps({name: value for name, value in CONFIG.items() if name != missing})
    )
    with pytest.raises(ConfigError, match=named) as error:
        resolve_model(asked)
    assert error.value.where == str(tmp_path / "config.json")
    assert error.value.remedy
