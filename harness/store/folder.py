"""The folder of one run: where its files are, and its JSON written so that a crash never leaves half a file."""

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

from harness.errors import RunFolderError
from harness.records import SCHEMA_VERSION

_RESTORE = "restore it from a copy"


class Status(StrEnum):
    """How far a run got. It starts as `running`; a run that died stays so."""

    RUNNING = "running"
    COMPLETE = "complete"
    PARTIAL = "partial"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run folder that is being written: results/<experiment>/<UTC time>-<id>/."""

    path: Path

    @staticmethod
    def create(results_dir: Path, experiment: str, run_id: str, utc_stamp: str) -> "RunFolder":
        """A new folder whose run.json says `running`. Raises RunFolderError if it exists or cannot be made."""
        folder = RunFolder(results_dir / experiment / f"{utc_stamp}-{run_id}")
        try:
            folder.path.mkdir(parents=True)
        except OSError as error:
            raise RunFolderError(
                f"cannot make the run folder: {error.strerror}",
                where=str(folder.path),
                remedy="give another folder with --out",
            ) from error
        identity = {"schema_version": SCHEMA_VERSION, "experiment": experiment, "run_id": run_id, "utc": utc_stamp}
        write_json(folder.path / "run.json", {**identity, "status": Status.RUNNING})
        return folder

    def logs(self, arm: str) -> Path:
        """The folder of an arm's service logs, made if needed."""
        path = self.path / "logs" / arm
        path.mkdir(parents=True, exist_ok=True)
        return path

    def meta(self) -> dict[str, Any]:
        """What run.json says now. Raises RunFolderError if it is missing or not JSON."""
        return read_meta(self.path)

    def update(self, fields: Mapping[str, Any], status: Status | None = None) -> None:
        """Put `fields` (top-level keys of run.json) and the status in place of what was there, atomically."""
        changed = {**self.meta(), **fields}
        write_json(self.path / "run.json", changed if status is None else {**changed, "status": status})


def read_meta(folder: Path) -> dict[str, Any]:
    """The run.json of `folder`. Raises RunFolderError if the folder or the file is missing, or the file is not JSON."""
    path = folder / "run.json"
    remedy = "give a folder below results/<experiment>/ that holds a run.json"
    if not folder.is_dir():
        raise RunFolderError("there is no such run folder", where=str(folder), remedy=remedy)
    try:
        meta = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except FileNotFoundError as error:
        raise RunFolderError("not a run folder: run.json is missing", where=str(folder), remedy=remedy) from error
    except (OSError, ValueError) as error:
        raise RunFolderError(f"cannot read run.json: {error}", where=str(path), remedy=_RESTORE) from error
    if not isinstance(meta, dict):
        raise RunFolderError("run.json is not a mapping", where=str(path), remedy=_RESTORE)
    return meta


def _refuse(constant: str) -> None:
    raise ValueError(f"it holds {constant}, which is no number")


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write `document` to `path` as JSON, whole or not at all; paths become strings, dataclasses mappings.

    Raises ValueError on NaN and infinity, which JSON cannot say: a missing number is None.
    """
    text = json.dumps(document, indent=2, allow_nan=False, default=_plain) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def write_atomically(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let `write` fill a temporary file beside `path`, force it to the disk, and rename it to `path`."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """A rename is on the disk only once its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"run.json cannot hold a {type(value).__name__}: {value!r}")
