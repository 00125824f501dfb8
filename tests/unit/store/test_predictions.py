"""Predictions on the disk."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import RunFolderError
from harness.records import RequestRecord
from harness.store.predictions import read_predictions, write_predictions
from harness.store.rows import batch
from tests.fakes.records import request_records


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(request_records(), max_size=4), st.lists(request_records(), max_size=4))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, one: list[RequestRecord], two: list[RequestRecord]
) -> None:
    """All arms' rows come back, arm by arm."""
    folder = tmp_path_factory.mktemp("run")
    write_predictions(folder, "a", one, "r1")
    write_predictions(folder, "b", two, "r1")
    assert read_predictions(folder).to_pylist() == batch("requests", [*one, *two], "r1").to_pylist()


def test_none_were_made(tmp_path: Path) -> None:
    """A run without predictions has an empty table."""
    assert read_predictions(tmp_path).num_rows == 0


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    """Half a file is an error that says which."""
    (tmp_path / "predictions").mkdir()
    (tmp_path / "predictions" / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(RunFolderError, match=r"cannot read a\.parquet") as caught:
        read_predictions(tmp_path)
    assert caught.value.where.endswith("predictions/a.parquet")
    assert "remove the file" in caught.value.remedy
