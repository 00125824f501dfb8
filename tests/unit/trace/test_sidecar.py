"""The sidecar of a trace."""

import json
from pathlib import Path

import pytest

from harness.errors import TraceError
from harness.trace import Sidecar, TraceRequest, read_sidecar, read_trace, sidecar_path, write_trace

ROWS = [TraceRequest(0, "", 0, 0, 600, 5, (0, 1)), TraceRequest(1, "", 0, 1000, 600, 5, (0, 1))]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A small trace with its sidecar."""
    path = tmp_path / "t.jsonl"
    write_trace(path, ROWS, Sidecar(provenance="converted", dropped={"failed request in source": 2}))
    return path


def edited(trace: Path, **changes: object) -> None:
    """Changes keys of the trace's sidecar."""
    document = json.loads(sidecar_path(trace).read_text())
    sidecar_path(trace).write_text(json.dumps({**document, **changes}))


def test_is_read_back(trace: Path) -> None:
    """A sidecar is read as it was written, and its provenance becomes the trace's."""
    sidecar = read_sidecar(trace)

    assert sidecar is not None
    assert sidecar.encode() == sidecar_path(trace).read_bytes()
    assert (sidecar.rows, sidecar.dropped) == (2, {"failed request in source": 2})
    assert read_trace(trace).provenance == "converted"


def test_none_is_fine(trace: Path) -> None:
    """A trace without a sidecar has none, and Mooncake's defaults hold."""
    sidecar_path(trace).unlink()

    assert read_sidecar(trace) is None
    assert read_trace(trace).block_size == 512


def test_another_file_is_refused(trace: Path) -> None:
    """A trace that was changed after its sidecar was written is refused."""
    trace.write_bytes(trace.read_bytes().replace(b":5,", b":6,"))

    with pytest.raises(TraceError, match="sha256"):
        read_trace(trace)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("schema", 2),
        ("schema", None),
        ("schema", True),
        ("tail", "round"),
        ("tail", ["ceil"]),
        ("time_unit", "min"),
        ("turn_lengths", "both"),
        ("provenance", "guessed"),
        ("block_size", 0),
        ("block_size", 512.0),
        ("block_size", True),
        ("rows", 3),
        ("rows", -1),
        ("rows", "2"),
        ("sha256", 5),
        ("arrivals", 1.21),
        ("source", None),
        ("dropped", [1]),
        ("dropped", {"reason": "many"}),
        ("notes", None),
        ("block_szie", 16),
    ],
)
def test_refuses_what_it_does_not_know(trace: Path, key: str, value: object) -> None:
    """A schema, key or value that is not known, and a count that is not the trace's, is an error that names it."""
    edited(trace, **{key: value})

    with pytest.raises(TraceError) as caught:
        read_trace(trace)

    assert caught.value.what.startswith(f"{key} is ")
    assert caught.value.where == str(sidecar_path(trace))
    assert caught.value.remedy


@pytest.mark.parametrize("content", [b"", b"[]", b'{"schema":NaN}', b"\xff"])
def test_refuses_what_is_no_sidecar(trace: Path, content: bytes) -> None:
    """A sidecar that is not a JSON object is an error, not a missing sidecar."""
    sidecar_path(trace).write_bytes(content)

    with pytest.raises(TraceError):
        read_trace(trace)
