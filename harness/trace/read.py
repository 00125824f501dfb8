"""The one door for traces: any public format, read as declared, every row checked, nothing guessed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from harness.errors import TraceError
from harness.trace.blocks import BlockTable, check_count
from harness.trace.declare import refuse_other_unit, what_holds
from harness.trace.fields import MAX_SPAN_US, DroppedRowError, RowError
from harness.trace.form import RawRow
from harness.trace.formats import form_of
from harness.trace.options import ReadOptions, ReadReport
from harness.trace.request import Trace, TraceRequest
from harness.trace.sidecar import sidecar_path


class TraceRows:
    """The checked rows of a trace, one by one, in the file's order: memory grows with distinct ids and sessions only.

    `arrival_us` counts from the first kept row of the file, so it is negative for rows of an earlier time. Iterate
    once; `report` is whole when the last row has come. Both the constructor and the iteration raise TraceError: for a
    file that is no such trace, for the first row that cannot be used (unless such rows are skipped), and at the end for
    a file without rows, one whose every row was dropped, and another number of rows than the sidecar says.
    """

    def __init__(self, path: Path, format: str | None = None, options: ReadOptions | None = None) -> None:  # noqa: A002
        self._path = path
        self._options = options or ReadOptions()
        self._form, self._format_by = form_of(path, format)
        self.declared, self._sidecar = what_holds(self._form, path, self._options)
        self._blocks = BlockTable(self.declared)
        self._dropped: Counter[str] = Counter()
        self._notes: list[str] = []
        self._read = self._kept = self._moved = self._raised = self._unhashed = 0
        self._zero_us, self._latest_us = 0, -1
        self._ends: dict[str, tuple[int, int]] = {}  # by session: its last time and how many turns it has had

    def __iter__(self) -> Iterator[TraceRequest]:
        for place, parse in self._form.records(self._path, self.declared, self._options):
            self._read += 1
            try:
                row = parse()
                request = self._request(row)
            except RowError as error:
                if self._options.on_bad_row == "fail" and not isinstance(error, DroppedRowError):
                    error.where = f"{self._path}:{place}"
                    raise
                self._dropped[error.reason] += 1
            else:
                yield request
        self._refuse_wrong_count()

    @property
    def report(self) -> ReadReport:
        """What reading has found so far."""
        return ReadReport(
            format=self._form.name,
            format_by=self._format_by,
            time_unit=self.declared.time_unit,
            block_size=self.declared.block_size,
            tail=self.declared.tail,
            hash_kind=self.declared.hash_kind,
            hash_scope=self.declared.hash_scope,
            turn_lengths=self.declared.turn_lengths,
            sidecar=self._sidecar,
            read=self._read,
            kept=self._kept,
            dropped=dict(self._dropped),
            moved=self._moved,
            raised_outputs=self._raised,
            unhashed=self._unhashed,
            ids=len(self._blocks),
            zero_us=self._zero_us,
            notes=tuple(dict.fromkeys(self._notes)),
        )

    def _request(self, raw: RawRow) -> TraceRequest:
        """The row as a request, counted. Raises RowError and counts nothing where it cannot be used."""
        time_us = self._time_us(raw)
        output_tokens = raw.output_tokens or self._output_of_none()
        ids = self._ids(raw)
        scope = raw.scope or (raw.session if self.declared.hash_scope == "session" else "")
        if ids and self.declared.hash_scope == "session" and not scope:
            raise RowError(
                "session_id is missing, but hash_scope is session",
                remedy="give the row its session_id, or declare hash_scope global",
                reason="session_id: missing",
            )
        blocks = self._blocks.add(ids, raw.input_tokens, scope, self._read) if ids else ()
        if not self._kept:
            self._zero_us = time_us
        self._kept += 1
        self._unhashed += ids is None
        self._raised += raw.output_tokens == 0
        self._moved += time_us < self._latest_us
        self._latest_us = max(time_us, self._latest_us)
        turn = 0
        if raw.session:
            turn = self._ends.get(raw.session, (0, 0))[1]
            self._ends[raw.session] = (time_us, turn + 1)
        return TraceRequest(
            self._read - 1,
            raw.session,
            turn,
            time_us - self._zero_us,
            raw.input_tokens,
            output_tokens,
            blocks,
            raw.delay_us if turn else None,
            raw.request_id,
        )

    def _time_us(self, raw: RawRow) -> int:
        time_us = raw.time_us
        if time_us is None:
            if raw.session not in self._ends:
                raise RowError(
                    "timestamp is missing, and no earlier row has this session_id",
                    remedy="give the first turn of a session a timestamp",
                    reason="timestamp: missing",
                )
            time_us = self._ends[raw.session][0] + (raw.delay_us or 0)
        if not self._kept:
            self._notes += refuse_other_unit(time_us, self.declared, self._path, self._options, sidecar=self._sidecar)
        elif time_us < self._latest_us and self._options.require_sorted:
            raise RowError(
                f"timestamp is {self._latest_us - time_us} us before that of an earlier row",
                remedy="sort the file, or leave out --require-sorted",
                reason="timestamp: out of order",
            )
        elif abs(time_us - self._zero_us) > MAX_SPAN_US:
            raise RowError(
                "timestamp is more than 292 years from the first",
                remedy="correct the time, or declare its unit",
                reason="timestamp: not a value it can have",
            )
        return time_us

    def _output_of_none(self) -> int:
        if self._options.zero_output == "one":
            return 1
        wrong = RowError if self._options.zero_output == "reject" else DroppedRowError
        raise wrong(
            "output_length is 0",
            remedy="no server takes max_tokens 0: use --zero-output drop or --zero-output one",
            reason="output_length: 0",
        )

    def _ids(self, raw: RawRow) -> Sequence[int | str] | None:
        """The row's ids, as many as it may have; None where it says nothing of what it shares, if that is allowed."""
        if raw.ids is None or (not raw.ids and self._shares_something(raw)):
            if not self._options.allow_unhashed:
                raise RowError(
                    "hash_ids is missing" if raw.ids is None else "hash_ids is []",
                    remedy="give its block ids, or declare `allow_unhashed: true`: the row then shares nothing",
                    reason="hash_ids: none",
                )
            return None
        if raw.ids:
            check_count(len(raw.ids), raw.input_tokens, self.declared)
        return raw.ids

    def _shares_something(self, raw: RawRow) -> bool:
        """Whether a prompt so long has a block that could be named."""
        return self.declared.tail == "ceil" or raw.input_tokens >= self.declared.block_size

    def _refuse_wrong_count(self) -> None:
        if not self._read:
            raise TraceError("no rows in the trace", where=str(self._path), remedy="give a file with a request a line")
        if not self._kept:
            reasons = "; ".join(f"{reason} ({count})" for reason, count in self._dropped.most_common(5))
            raise TraceError(
                f"no row is left of {self._read}: {reasons}",
                where=str(self._path),
                remedy="read it without --on-bad-row skip to see the first bad row",
            )
        if self._sidecar and self.declared.rows not in (None, self._read):
            raise TraceError(
                f"rows is {self.declared.rows}, but {self._path.name} has {self._read}",
                where=str(sidecar_path(self._path)),
                remedy="restore the file that the sidecar describes",
            )


def iter_rows(path: Path, format: str | None = None, options: ReadOptions | None = None) -> TraceRows:  # noqa: A002
    """The rows of `path` as a stream: see TraceRows. `format` None is guessed where only one fits."""
    return TraceRows(path, format, options)


def read_trace(path: Path, format: str | None = None, options: ReadOptions | None = None) -> Trace:  # noqa: A002
    """The trace in `path`, in order of arrival (rows of one time keep the file's order), times from the first arrival.

    `format` is one of `FORMATS`; None is guessed where only one fits, and the report says which. Raises TraceError as
    TraceRows does.
    """
    rows = TraceRows(path, format, options)
    requests = list(rows)
    report = rows.report
    if report.moved:
        requests.sort(key=lambda request: request.arrival_us)
        report = replace(report, zero_us=report.zero_us + requests[0].arrival_us)
        requests = list(_in_order(requests))
    return Trace(tuple(requests), report.block_size, str(path), rows.declared.provenance, report)


def _in_order(requests: Sequence[TraceRequest]) -> Iterator[TraceRequest]:
    """Requests whose order was another, with times, turns and dense ids counted anew in theirs."""
    dense: dict[int, int] = {}
    turns: Counter[str] = Counter()
    for request in requests:
        yield replace(
            request,
            arrival_us=request.arrival_us - requests[0].arrival_us,
            turn=turns[request.session],
            delay_us=request.delay_us if turns[request.session] else None,
            blocks=tuple(dense.setdefault(block, len(dense)) for block in request.blocks),
        )
        turns[request.session] += bool(request.session)
