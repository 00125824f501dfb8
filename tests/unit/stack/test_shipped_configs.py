"""What every shipped config starts, word for word: a change of a command line is seen in review.

KVREPLAY_UPDATE_GOLDEN=1 python -m pytest tests/unit/stack/test_shipped_configs.py     (writes the files anew)
"""

import os
from pathlib import Path

import pytest

from tests.fakes.shipped import CONFIGS, told

GOLDEN = Path(__file__).parents[2] / "data" / "plans"


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_command_lines_and_files_are_the_golden_ones(config: Path) -> None:
    """Every process and LMCache file of every arm, as it stands in tests/data/plans."""
    golden = GOLDEN / f"{config.stem}.txt"
    if os.environ.get("KVREPLAY_UPDATE_GOLDEN"):
        golden.write_text(told(config))
    assert told(config) == golden.read_text()


def test_there_is_no_golden_file_without_a_config() -> None:
    """A config that was removed leaves nothing behind."""
    assert {path.stem for path in GOLDEN.iterdir()} == {path.stem for path in CONFIGS}
