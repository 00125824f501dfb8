"""harness.store.parquet: one table in, the same table out, or an error that says what is wrong with it."""

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import RunFolderError
from harness.store.parquet import read_parquet, write_parquet
from harness.store.rows import schema


def table(**columns: list[object]) -> pa.Table:
    """Requests with these columns, all others null."""
    rows = len(next(iter(columns.values())))
    return pa.table({one.name: pa.array(columns.get(one.name, [None] * rows), one.type) for one in schema("requests")})


def test_what_is_not_finite_is_null(tmp_path: Path) -> None:
    """NaN and infinity are no measurements: null, in lists too; whatever is finite stays as it was."""
    times = [1.5, math.nan, math.inf, -math.inf, None]
    gaps: list[object] = [[1.0, math.nan], [], None, [-math.inf], [2.0, 3.0]]
    rows = table(ttft_ms=times, itl_ms=gaps).replace_schema_metadata(schema("requests").metadata)
    write_parquet(tmp_path, "requests", rows)
    read = read_parquet(tmp_path / "requests.parquet", "requests")
    assert read["ttft_ms"].to_pylist() == [1.5, None, None, None, None]
    assert read["itl_ms"].to_pylist() == [[1.0, None], [], None, [None], [2.0, 3.0]]


@pytest.mark.parametrize(
    ("column", "values", "says"),
    [
        ("ttft_ms", ["fast", "slow"], "column 'ttft_ms' of requests.parquet holds no double"),
        ("seq", [0.5, 1.0], "column 'seq' of requests.parquet holds no int64"),
        ("itl_ms", [1.0, 2.0], "column 'itl_ms' of requests.parquet holds no list"),
    ],
)
def test_a_column_of_another_type(tmp_path: Path, column: str, values: list[object], says: str) -> None:
    """A column that does not hold what it must is named, whatever wrote it."""
    rows = table(seq=[0, 1])
    rows = rows.set_column(rows.schema.get_field_index(column), column, pa.array(values))
    pq.write_table(rows.replace_schema_metadata(schema("requests").metadata), tmp_path / "requests.parquet")
    with pytest.raises(RunFolderError) as caught:
        read_parquet(tmp_path / "requests.parquet", "requests")
    assert caught.value.what.startswith(says)


def test_integers_pass_for_times(tmp_path: Path) -> None:
    """A number is a number: whole milliseconds are read as such."""
    rows = table(seq=[0, 1]).set_column(schema("requests").get_field_index("ttft_ms"), "ttft_ms", pa.array([5, 6]))
    pq.write_table(rows.replace_schema_metadata(schema("requests").metadata), tmp_path / "requests.parquet")
    assert read_parquet(tmp_path / "requests.parquet", "requests")["ttft_ms"].to_pylist() == [5.0, 6.0]
