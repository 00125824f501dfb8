"""Format versions: what this version of kvreplay can read."""

from pathlib import Path

import pyarrow as pa

from harness.errors import RunFolderError
from harness.records import SCHEMA_VERSION


def check_version(schema: pa.Schema, path: Path) -> None:
    """Raise RunFolderError unless the file at `path`, of this Arrow schema, has the format version this code reads."""
    stated = (schema.metadata or {}).get(b"schema_version")
    require_version(None if stated is None else stated.decode(errors="replace"), path)


def require_version(stated: object, path: Path) -> None:
    """Raise RunFolderError unless `stated`, a file's own word, is this format; newer, older, unknown are told apart."""
    try:
        version = int(str(stated))
    except ValueError:
        raise RunFolderError(
            f"schema_version is {stated!r}: not written by kvreplay",
            where=str(path),
            remedy="give a run folder as kvreplay wrote it",
        ) from None
    if version > SCHEMA_VERSION:
        raise RunFolderError(
            f"written by a newer kvreplay: format {version}, this one reads {SCHEMA_VERSION}",
            where=str(path),
            remedy="upgrade kvreplay",
        )
    if version < SCHEMA_VERSION:
        raise RunFolderError(
            f"written by an older kvreplay: format {version}, this one reads {SCHEMA_VERSION} and has no upgrade",
            where=str(path),
            remedy="open it with the kvreplay named in run.json, or run the experiment again",
        )
