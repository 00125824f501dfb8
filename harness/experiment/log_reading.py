"""LMCache's log of one arm: followed while the arm runs, and read when it ends, into events and caveats."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from harness.collect import Fault, KeyLayout, LmcacheLog, file_faults, find_faults, following, log_files, parse_log
from harness.collect.lmcache_log import stated_version
from harness.collect.log_files import Followed
from harness.config import Arm
from harness.errors import CollectError
from harness.experiment.arm_log import ArmLog
from harness.experiment.facts import versions
from harness.experiment.prepare import Prepared
from harness.experiment.session import ArmSession
from harness.records import Caveat
from harness.stack import Interpreter

_LOCAL_HOSTS = {"127.0.0.1", "localhost", "::1"}


@contextlib.contextmanager
def reading_log(prepared: Prepared, session: ArmSession) -> Iterator[None]:
    """Follow the arm's log from here on; on leaving, put what it says into the journal and what is wrong into caveats.

    The log of an attached server is followed from its end: what others asked before is not ours (what a command prints
    begins with the arm). A log that cannot be read is a caveat, and costs nothing that was measured.
    """
    lmcache = session.arm.lmcache
    engines = session.stack.engines
    logs = [log for one in engines for log in (one.lmcache_log, one.connector_log) if log is not None]
    attached, follower = not session.stack.processes, session.stack.follower
    if not logs or (lmcache is None and not attached):
        if lmcache is not None:
            text = (
                f"{session.arm.name}: no log of LMCache was given: what lookups found is not told, nor where TTFT went"
            )
            remedy = "give attach.lmcache_log, or lmcache_log_command"
            session.place.caveats.append(Caveat("lmcache_log", text, remedy, session.arm.name))
        yield
        return
    paths = tuple(path for log in logs for path in log_files(str(log)))
    try:
        with following(paths, from_end=attached and follower is None) as followed:
            yield
    finally:
        _keep(prepared, session, paths, followed, attached=attached)


def _keep(
    prepared: Prepared, session: ArmSession, paths: Sequence[Path], followed: Followed, *, attached: bool
) -> None:
    """Read what was followed."""
    name, place = session.arm.name, session.place
    place.logs[name] = ArmLog(was_read=False)
    lines = followed.end()
    connectors = {one.connector_log for one in session.stack.engines}
    try:
        _require_one(paths)
        read = [
            _parse(prepared, session, path, lines[path], may_be_silent=attached or path in connectors) for path in paths
        ]
    except (CollectError, OSError) as error:
        text = f"{name}: LMCache's log was not read ({error}): loads are missing, and joins with them"
        place.caveats.append(Caveat("lmcache_log", text, "the log is whole where it was written", name))
        return
    for path, times in followed.shortened.items():
        text = f"{name}: {path.name} was cut short {times} times while it was followed: lines may be missing"
        remedy = "let it rotate by renaming, or not at all while a run goes on"
        place.caveats.append(Caveat("lmcache_log", text, remedy, name))
    place.caveats.extend(
        Caveat(fault.name, f"{name}: {fault.text}", fault.remedy, name, fault.evidence) for fault in _faults(read)
    )
    events = sorted((event for one in read for event in one.events), key=lambda event: event.t_unix_ns)
    if attached and not events:
        came = next((line for path in paths for line in lines[path]), "nothing at all")
        text = f"{name}: no line of LMCache's about KV came into its log while the run went on; what came: {came[:300]}"
        place.caveats.append(Caveat("lmcache_log", text.rstrip(), "is attach.lmcache_log the log of the server asked?"))
        return
    place.journal.extend(events)
    place.journal.flush()
    place.logs[name] = ArmLog(was_read=True, is_remote=attached and not _is_local(session.stack.url))


def _require_one(paths: Sequence[Path]) -> None:
    if not any(path.exists() for path in paths):
        raise CollectError("there is no such file", where=", ".join(map(str, paths)) or "attach.lmcache_log")


def _parse(
    prepared: Prepared, session: ArmSession, path: Path, lines: Sequence[str], *, may_be_silent: bool
) -> LmcacheLog:
    attached = not session.stack.processes
    return parse_log(
        lines,
        arm=session.arm.name,
        repeat=0,
        instance=path.stem if attached else path.stem.replace("vllm", "lmcache"),
        file=path.name,
        version=stated_version(path) if attached else _version(session.arm),
        layout=_layout(prepared, session.arm),
        may_be_silent=may_be_silent,
    )


def _version(arm: Arm) -> str | None:
    known = versions() if arm.python is None else Interpreter.of(arm.python).versions()
    return known.get("lmcache")


def _layout(prepared: Prepared, arm: Arm) -> KeyLayout | None:
    if arm.lmcache is None:
        return None
    ranks = prepared.experiment.engine.tensor_parallel
    kv_bytes = prepared.model.kv_bytes
    per_key = None if kv_bytes is None else kv_bytes * arm.lmcache.chunk_size // ranks
    return KeyLayout(arm.lmcache.chunk_size, ranks, per_key)


def _faults(read: Sequence[LmcacheLog]) -> tuple[Fault, ...]:
    """What went wrong by the events of all files together, and with each file."""
    events = sorted((event for one in read for event in one.events), key=lambda event: event.t_unix_ns)
    return (*find_faults(events), *(fault for one in read for fault in file_faults(one.cut, one.starts)))


def _is_local(url: str) -> bool:
    return urlsplit(url).hostname in _LOCAL_HOSTS
