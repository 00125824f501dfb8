"""What holds for all rows of a file: options and sidecar have the word, then the format; they may not contradict."""

from dataclasses import replace
from pathlib import Path

from harness.errors import TraceError
from harness.trace.form import Form
from harness.trace.options import TIME_UNITS_NS, ReadOptions
from harness.trace.sidecar import Sidecar, read_sidecar, sidecar_path

_SAID = ("time_unit", "block_size", "tail", "hash_kind", "hash_scope", "turn_lengths")
_UNIX_DIGITS = {10: "s", 13: "ms", 16: "us", 19: "ns"}  # Unix time from 2001 to 2286 has so many digits


def what_holds(form: Form, path: Path, options: ReadOptions) -> tuple[Sidecar, bool]:
    """What is declared of a file, and whether a sidecar did it. Raises TraceError where an option contradicts it."""
    sidecar = read_sidecar(path) if path.is_file() else None
    declared = sidecar or form.declare(path, options)
    said = {name: getattr(options, name) for name in _SAID if getattr(options, name) is not None}
    for name, value in said.items():
        if sidecar is not None and getattr(sidecar, name) != value:
            raise TraceError(
                f"{name} is {value} in the options, but {getattr(sidecar, name)} in the sidecar",
                where=str(sidecar_path(path)),
                remedy="leave the option out, or correct the sidecar",
            )
    declared = replace(declared, **said)
    if declared.time_unit not in form.units:
        raise TraceError(
            f"time_unit is {declared.time_unit}, but times of {form.name} are in {' or '.join(form.units)}",
            where=str(path),
            remedy="leave --time-unit out, or name the format that it is",
        )
    if not form.hashed and not options.allow_unhashed:
        raise TraceError(
            f"{form.name} says nothing of what prompts share: every prompt would be its own, and no cache would hit",
            where=str(path),
            remedy="declare `allow_unhashed: true` on the workload where that is wanted",
        )
    return declared, sidecar is not None


def refuse_other_unit(
    first_us: int, declared: Sidecar, path: Path, options: ReadOptions, *, sidecar: bool
) -> tuple[str, ...]:
    """Notes on the first kept time. Unix time in another unit than the format's is refused unless somebody said so.

    Read as ms, Unix times of today in us would replay for centuries. Only where that is certain, above 10^11, is it an
    error; ten digits may be 20 days of ms too, and are noted. Raises TraceError that names the likely unit.
    """
    unit = declared.time_unit
    if sidecar or options.time_unit is not None or unit not in TIME_UNITS_NS:
        return ()
    value = first_us * 1000 // TIME_UNITS_NS[unit]
    likely = _UNIX_DIGITS.get(len(str(value)))
    if likely is None and value <= 10**11:
        return ()
    if likely == unit:
        return (f"times are Unix times in {unit}; they count from the first",)
    if value <= 10**11:
        return (f"the first timestamp, {value}, may be Unix time in {likely}; it was read as {unit}",)
    raise TraceError(
        f"timestamp of {len(str(value))} digits is no time in {unit}"
        + (f": it looks like Unix time in {likely}" if likely else ""),
        where=str(path),
        remedy="declare the unit: --time-unit, or time_unit in the sidecar (ns, us, ms or s)",
    )
