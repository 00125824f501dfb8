"""Files of a line a request, read as a stream: what is no such file, or changes while it is read, is refused."""

import csv
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NoReturn

from harness.errors import TraceError

_BOM = b"\xef\xbb\xbf"
_PEEK_BYTES = 65_536
_NOT_TEXT = (
    (b"\x1f\x8b", "is a gzip file", "unpack it first (gunzip -k)"),
    (b"\x28\xb5\x2f\xfd", "is a zstd file", "unpack it first (zstd -d)"),
    (b"PK\x03\x04", "is a zip file", "unpack it first"),
    (b"BZh", "is a bzip2 file", "unpack it first"),
    (b"PAR1", "is a parquet file", "write it as JSONL or CSV first"),
    (b"version https://git-lfs", "is a Git LFS pointer, not the trace", "fetch the file itself (git lfs pull)"),
    (b"\xff\xfe", "is UTF-16", "save it as UTF-8"),
    (b"\xfe\xff", "is UTF-16", "save it as UTF-8"),
)


@contextmanager
def text_file(path: Path) -> Iterator[BinaryIO]:
    """The file at `path`, behind its BOM.

    Raises TraceError for one that cannot be read, that is no text (packed or binary), or that changes while it is read
    (its size and time of change are compared).
    """
    try:
        if path.is_dir():
            raise TraceError("is a folder", where=str(path), remedy="give one file, or name a format that is a folder")
        file = path.open("rb")
    except OSError as error:
        raise TraceError(
            f"cannot read the trace: {error.strerror}", where=str(path), remedy="give a file that can be read"
        ) from error
    with file:
        before = os.fstat(file.fileno())
        _refuse_no_text(path, file.read(_PEEK_BYTES))
        file.seek(0)
        if file.read(len(_BOM)) != _BOM:
            file.seek(0)
        yield file
        after = os.fstat(file.fileno())
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            _refuse_change(path, before.st_size, after.st_size)


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Each line with its number from 1. Raises TraceError as `text_file` does."""
    with text_file(path) as file:
        yield from enumerate(_lines(file, path), start=1)


def csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Each record of a CSV file, header included, with the number of its last line. Blank lines have no cells.

    Raises TraceError as `text_file` does, and where bytes are no UTF-8 or quotes do not close.
    """
    with text_file(path) as file:
        reader = csv.reader(_decoded(file, path), strict=True)
        while True:
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise TraceError(
                    f"not CSV: {error}", where=f"{path}:{reader.line_num}", remedy="correct the file"
                ) from error
            yield reader.line_num, row


def _lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """The lines of the file as long as it was at the start: one that grows as fast as it is read would never end."""
    size = os.fstat(file.fileno()).st_size
    left = size - file.tell()
    for line in file:
        left -= len(line)
        if left < 0:
            _refuse_change(path, size, os.fstat(file.fileno()).st_size)
        yield line


def _refuse_change(path: Path, before: int, after: int) -> NoReturn:
    raise TraceError(
        f"changed while it was read: {before} bytes, then {after}",
        where=str(path),
        remedy="read it when its writer has ended, or read a copy",
    )


def _decoded(file: BinaryIO, path: Path) -> Iterator[str]:
    for number, line in enumerate(_lines(file, path), start=1):
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            raise TraceError(
                f"not UTF-8: {error.reason}", where=f"{path}:{number}", remedy="save the file as UTF-8"
            ) from error


def _refuse_no_text(path: Path, start: bytes) -> None:
    for magic, what, remedy in _NOT_TEXT:
        if start.startswith(magic):
            raise TraceError(what, where=str(path), remedy=remedy)
    if b"\0" in start:
        raise TraceError("is a binary file", where=str(path), remedy="give a trace as JSONL or CSV")
