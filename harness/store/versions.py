"""Format versions: what this version of kvreplay can read, and how an older one becomes this one."""

from pathlib import Path

import pyarrow as pa

from harness.errors import RunFolderError
from harness.records import SCHEMA_VERSION, SCHEMAS

OLDEST_VERSION = 1
_ADDED: dict[int, dict[str, tuple[str, ...]]] = {
    2: {
        "requests": (
            *("server_queue_ms", "server_prefill_ms", "lookup", "loaded_keys", "loaded_l1_keys", "loaded_l2_keys"),
            *("loaded_bytes", "loaded_bytes_per_s", "load_wait_ms", "delivery_ms", "unexplained_ms"),
        ),
        "loads": ("computed_tokens", "total_tokens", "rank", "pid"),
    },
    3: {"requests": ("placement_slowdown", "response_id")},
}


def upgraded(rows: pa.Table, table: str) -> pa.Table:
    """`rows` of `table` in this format: columns that came after the version they state are there, null in every row."""
    stated = _version((rows.schema.metadata or {}).get(b"schema_version", b"").decode(errors="replace"))
    for version, tables in _ADDED.items():
        if stated is not None and stated < version:
            for name in tables.get(table, ()):
                field = SCHEMAS[table].field(name)
                rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows


def check_version(schema: pa.Schema, path: Path) -> None:
    """Raise RunFolderError unless the file at `path`, of this Arrow schema, has a format version this code reads."""
    stated = (schema.metadata or {}).get(b"schema_version")
    require_version(None if stated is None else stated.decode(errors="replace"), path)


def require_version(stated: object, path: Path) -> None:
    """Raise RunFolderError unless `stated`, a file's own word, can be read; newer, older, unknown are told apart."""
    version = _version(stated)
    if version is None:
        raise RunFolderError(
            f"schema_version is {stated!r}: not written by kvreplay",
            where=str(path),
            remedy="give a run folder as kvreplay wrote it",
        )
    if version > SCHEMA_VERSION:
        raise RunFolderError(
            f"written by a newer kvreplay: format {version}, this one reads {SCHEMA_VERSION}",
            where=str(path),
            remedy="upgrade kvreplay",
        )
    if version < OLDEST_VERSION:
        raise RunFolderError(
            f"written by an older kvreplay: format {version}, this one reads {OLDEST_VERSION} to {SCHEMA_VERSION}",
            where=str(path),
            remedy="open it with the kvreplay named in run.json, or run the experiment again",
        )


def _version(stated: object) -> int | None:
    try:
        return int(str(stated))
    except ValueError:
        return None
