"""A run as read back from its folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Caveat:
    """Why a number needs care: a short `kind`, what is so, and what to do about it.

    `arm` is the one whose numbers it concerns, all of them if empty. `evidence` are lines of a log, as they were.
    """

    kind: str
    text: str
    remedy: str = ""
    arm: str = ""
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """A run folder in memory: run.json as `meta`, and the four tables of contract.md.

    `predictions` has rows like those of `requests`, source "sim", made before each arm was measured; None: not read.
    """

    folder: Path
    meta: Mapping[str, Any]
    requests: pa.Table
    loads: pa.Table
    samples: pa.Table
    passes: pa.Table
    predictions: pa.Table | None = None
