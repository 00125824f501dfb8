"""CSV traces: BurstGPT's, Azure's, and any table whose columns are named."""

from pathlib import Path

import pytest

from harness.errors import TraceError
from harness.trace import ReadOptions, Trace, read_trace
from tests.fakes.traces import SHARED, lines

needs_public_traces = pytest.mark.skipif(not SHARED.exists(), reason="the public traces are not beside this checkout")
SIX = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
EIGHT = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens"
OWN = ReadOptions(allow_unhashed=True)
COLUMNS = {"timestamp": "t", "input_length": "in", "output_length": "out"}


def read(path: Path, *rows: str, format: str | None = None, options: ReadOptions = OWN) -> Trace:  # noqa: A002
    """The trace of these lines."""
    return read_trace(lines(path, *rows), format, options)


def failure(path: Path, *rows: str, format: str | None = None, options: ReadOptions = OWN) -> TraceError:  # noqa: A002
    """The error that reading these lines raises."""
    with pytest.raises(TraceError) as caught:
        read(path, *rows, format=format, options=options)
    assert caught.value.where.startswith(str(path)) or not path.exists()
    return caught.value


def test_burstgpt_by_name_not_by_place(tmp_path: Path) -> None:
    """Case 44: six columns and eight are read by name; the session is a session, not the model."""
    six = read(tmp_path / "a.csv", SIX, "5,ChatGPT,472,18,490,Conversation log", "45,GPT-4,7,1,8,API log")
    eight = read(
        tmp_path / "b.csv",
        EIGHT,
        "19440110.0,1722ac82,43,GPT-4,906,446,1352,Conversation log",
        "19440161.0,,2,ChatGPT,36,29,65,API log",
    )

    assert [(one.arrival_us, one.input_tokens, one.output_tokens) for one in six.requests] == [
        (0, 472, 18),
        (40_000_000, 7, 1),
    ]
    assert [(one.arrival_us, one.session, one.input_tokens) for one in eight.requests] == [
        (0, "1722ac82", 906),
        (51_000_000, "", 36),
    ]
    assert eight.report is not None
    assert (eight.report.format, eight.report.unhashed) == ("burstgpt", 2)


@pytest.mark.parametrize(("options", "kept"), [(OWN, 1), (ReadOptions(allow_unhashed=True, zero_output="one"), 2)])
def test_burstgpts_failures_are_counted(tmp_path: Path, options: ReadOptions, kept: int) -> None:
    """Cases 34 and 35: requests that failed are dropped by that name; those with a prompt are kept on request."""
    rows = ["5,ChatGPT,472,18,490,API log", "6,ChatGPT,9,0,9,API log", "7,ChatGPT,0,0,0,API log"]

    report = read(tmp_path / "t.csv", SIX, *rows, options=options).report

    assert report is not None
    assert (report.kept, report.dropped) == (kept, {"failed request in source": 3 - kept})
    assert report.read == 3


def test_burstgpts_total_is_checked(tmp_path: Path) -> None:
    """A row whose total is not its sum has its columns mixed up, and is refused."""
    assert "Total tokens is 491" in failure(tmp_path / "t.csv", SIX, "5,ChatGPT,472,18,491,API log").what


@pytest.mark.parametrize(
    ("first", "second", "gap_us"),
    [
        ("2023-11-16 18:17:03.9799600", "2023-11-16 18:17:04.0319605", 52_001),
        ("2024-05-10 00:00:00.009930+00:00", "2024-05-10 00:00:00.009931+00:00", 1),
        ("2024-05-10 00:00:00+00:00", "2024-05-10 02:00:01+02:00", 1_000_000),
        ("2023-12-31 23:59:59.9999999", "2024-01-01 00:00:00", 0),
        ("2023-11-16T18:17:03Z", "2023-11-16T18:17:03.000000500Z", 1),
        ("2023-11-16 18:17:03.000000499", "2023-11-16 18:17:04", 1_000_000),
    ],
)
def test_azures_clock(tmp_path: Path, first: str, second: str, gap_us: int) -> None:
    """Case 12: dates with 0 to 9 decimals and with or without an offset, rounded to us; lines may end in CRLF."""
    path = tmp_path / "t.csv"
    path.write_bytes(f"{AZURE}\r\n{first},10,1\r\n{second},20,2\r\n".encode())

    requests = read_trace(path, None, OWN).requests

    assert requests[1].arrival_us == gap_us
    assert requests[1].input_tokens == 20


@pytest.mark.parametrize(
    "text",
    [
        "2023-11-16 18:17",
        "2023-02-30 00:00:00",
        "2023-11-16 18:17:03.1234567891",
        "2023-11-16 18:17:03+00:00",
        "1700158623",
        "",
    ],
)
def test_azures_bad_clocks(tmp_path: Path, text: str) -> None:
    """What is no date, and an offset where other rows have none, is refused with its line."""
    path = tmp_path / "t.csv"

    error = failure(path, AZURE, "2023-11-16 18:17:03.9799600,10,1", f"{text},10,1")

    assert error.what.startswith("TIMESTAMP is")
    assert error.where == f"{path}:3"


def test_no_prefix_information_is_said(tmp_path: Path) -> None:
    """Case 27: a format that never says what prompts share is refused as a whole until that is allowed."""
    assert "says nothing of what prompts share" in failure(tmp_path / "t.csv", AZURE, options=ReadOptions()).what


def test_any_table(tmp_path: Path) -> None:
    """A table is read by its column map: quotes, sessions, ids and delays; unknown columns are ignored."""
    columns = {**COLUMNS, "hash_ids": "ids", "session_id": "who", "delay": "wait"}
    options = ReadOptions(time_unit="s", block_size=4, columns=columns, allow_unhashed=True, tail="ceil")
    header = "more,t,in,out,ids,who,wait"

    trace = read(
        tmp_path / "t.csv",
        header,
        '"a,b",0.5,6,1,7 8,x,',
        '"q ""q""",1.25,8.0,2,"[7, 9]",x,250',
        "z,2,5,3,,,",
        format="csv",
        options=options,
    )

    assert [(one.arrival_us, one.blocks, one.session, one.delay_us) for one in trace.requests] == [
        (0, (0, 1), "x", None),
        (750_000, (0, 2), "x", 250_000),
        (1_500_000, (), "", None),
    ]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (ReadOptions(columns=COLUMNS), "the unit of the times is not known"),
        (
            ReadOptions(time_unit="s", columns={"timestamp": "t"}),
            "no column is named for input_length and output_length",
        ),
        (ReadOptions(time_unit="s", columns={**COLUMNS, "hash_ids": "ids"}), "hash_ids without a block size"),
        (ReadOptions(time_unit="s", columns={**COLUMNS, "when": "t"}), "no field 'when'"),
        (ReadOptions(time_unit="s", columns={**COLUMNS, "timestamp": "T"}), "column 'T' is not in the header"),
    ],
)
def test_a_table_must_be_explained(tmp_path: Path, options: ReadOptions, what: str) -> None:
    """Cases 1, 21 and 44: unit, block size and columns of a table are told, and checked before the first row."""
    with pytest.raises(TraceError) as caught:
        read(tmp_path / "t.csv", "t,in,out,ids", "0,1,1,5", format="csv", options=options)
    assert what in caught.value.what


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("", "blank line"),
        ("0,1", "2 cells in a table of 3 columns"),
        ("nan,1,1", "t is"),
        ("inf,1,1", "t is"),
        ("1_0,1,1", "t is"),
        ("0,1.5,1", "in is 1.5"),
        ("0,0,1", "in is 0"),
        ("0,1,-1", "out is -1"),
        ('0,1,"1', "not CSV"),
    ],
)
def test_a_bad_cell_is_named(tmp_path: Path, line: str, what: str) -> None:
    """Case 14: a bad or blank line is refused with its number, column and value."""
    path = tmp_path / "t.csv"
    options = ReadOptions(time_unit="s", columns=COLUMNS, allow_unhashed=True)

    error = failure(path, "t,in,out", line, "1,1,1", format="csv", options=options)

    assert what in error.what
    assert error.where.startswith(f"{path}:")


def test_a_table_out_of_order_keeps_rows_together(tmp_path: Path) -> None:
    """Case 9: CSV rows of an earlier time are sorted with their own lengths, and counted."""
    rows = ["2023-11-16 18:15:02,20,2", "2023-11-16 18:15:00,10,1"]

    trace = read(tmp_path / "t.csv", AZURE, *rows)

    assert [(one.arrival_us, one.input_tokens) for one in trace.requests] == [(0, 10), (2_000_000, 20)]
    assert trace.report is not None
    assert trace.report.moved == 1


def test_a_header_alone_is_no_trace(tmp_path: Path) -> None:
    """Case 40: a table without rows is an error."""
    assert failure(tmp_path / "t.csv", AZURE).what == "no rows in the trace"


@needs_public_traces
def test_public_azure_files() -> None:
    """Azure's first 4,999 rows of code span 1,630.8 s; a piece without header is no table; the peers' sample is one."""
    code = read_trace(SHARED / "azure2023_code_head5000.csv", None, OWN)
    sample = read_trace(SHARED / "inference_perf_azure_example.csv", None, OWN)

    assert (len(code.requests), code.requests[-1].arrival_us) == (4999, 1_630_800_244)
    assert (code.requests[0].input_tokens, code.requests[0].output_tokens) == (4808, 10)
    assert (len(sample.requests), sample.requests[-1].arrival_us) == (20, 13_025_088)
    with pytest.raises(TraceError, match="not in the header"):
        read_trace(SHARED / "azure2023_code_tail_no_final_newline.csv", "azure", OWN)
    with pytest.raises(TraceError, match="fits no format"):
        read_trace(SHARED / "servegen_m-large_chunk-0-trace.csv", None, OWN)
