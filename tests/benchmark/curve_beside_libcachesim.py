"""Our hit curve beside libCacheSim on the same trace: equal hits, and how long each takes.

python -m tests.benchmark.curve_beside_libcachesim TRACE [GRANULE_TOKENS]     (needs `pip install libcachesim`)

libCacheSim looks up and stores one object at a time, so for the comparison of hits each use is a row of its own here
too; the curve of the trace, whose rows are looked up whole, is timed beside it.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path

import libcachesim
import numpy as np

from harness.experiment.curve import _prefixes, _read
from harness.sim.curve import Uses, hit_curve, uses_of
from harness.trace import ReadOptions

_ORACLE = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])


def say(line: str) -> None:
    """One line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(path: Path, granule: int = 512) -> None:
    """Print times and hits."""
    begin = time.perf_counter()
    trace = _read(path, None, ReadOptions())
    rows, prefixes = _prefixes(trace)
    read_s = time.perf_counter() - begin
    hit_curve(uses_of([([0], 16)], 1, 16, 16))  # compiles

    begin = time.perf_counter()
    uses = uses_of(rows, prefixes, trace.block_size, granule)
    made_s = time.perf_counter() - begin
    curve = hit_curve(uses)
    say(f"{len(uses.ids):,} uses of {curve.different:,} granules of {granule} tokens; trace read in {read_s:.2f} s")
    ours_s = time.perf_counter() - begin
    say(f"ours: all {len(curve.hits):,} capacities in {ours_s:.2f} s ({made_s:.2f} s of it to list uses)")

    single = Uses(uses.ids, np.arange(len(uses.ids) + 1), np.full(len(uses.ids), granule + 1), granule)
    begin = time.perf_counter()
    ours = hit_curve(single)
    say(f"ours, use by use: {time.perf_counter() - begin:.2f} s")
    say(f"most memory of this process so far: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
    with tempfile.NamedTemporaryFile(suffix=".oracleGeneral.bin") as file:
        records = np.zeros(len(uses.ids), dtype=_ORACLE)
        records["id"], records["size"], records["next"] = uses.ids + 1, 1, -2
        records.tofile(file.name)
        for granules in np.geomspace(100, len(ours.hits), 4).astype(int):
            reader = libcachesim.TraceReader(file.name, libcachesim.TraceType.ORACLE_GENERAL_TRACE)
            begin = time.perf_counter()
            missed, _ = libcachesim.LRU(cache_size=int(granules)).process_trace(reader)
            took = time.perf_counter() - begin
            theirs = round((1 - missed) * len(uses.ids))
            mine = int(ours.hits[min(granules, len(ours.hits) - 1)])
            say(f"libCacheSim: capacity {granules:,} in {took:.2f} s: {theirs:,} hits, ours {mine:,}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
