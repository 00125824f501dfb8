"""Tables as text, before they become Markdown, HTML or lines of a terminal."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.analysis.measured import OPEN_LOOP_PASS

MISSING = "-"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: `cells` in the order of its headers; `opens` where another workload or pass begins."""

    cells: tuple[str, ...]
    opens: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Headers, lines, and how many columns from the left are text. `by_pass`: the first column is workload/pass."""

    headers: tuple[str, ...]
    rows: tuple[Row, ...]
    text_columns: int
    by_pass: bool = False

    def of(self, label: str) -> "Table":
        """Its lines of one workload/pass."""
        return Table(self.headers, tuple(r for r in self.rows if r.cells[0] == label), self.text_columns, self.by_pass)

    def without(self, label: str) -> "Table":
        """Its lines of every other workload/pass."""
        return Table(self.headers, tuple(r for r in self.rows if r.cells[0] != label), self.text_columns, self.by_pass)


def table_by_pass(headers: Sequence[str], lines: Iterable[tuple[str, ...]], text_columns: int = 2) -> Table:
    """A table of lines that begin with workload/pass: those of one pass together, replays first, as they came else."""
    passes: dict[str, list[tuple[str, ...]]] = {}
    for line in lines:
        passes.setdefault(line[0], []).append(line)
    ordered = sorted(passes, key=lambda label: label.rpartition("/")[2] != OPEN_LOOP_PASS)
    rows = [Row(line, opens=at == 0) for label in ordered for at, line in enumerate(passes[label])]
    return Table(tuple(headers), tuple(rows), text_columns, by_pass=True)
