"""Lines of LMCache's multiprocess server (`lmcache server`), 0.3.12 to 0.5.6.

    Prefetch request completed (L1+L2): 5/5 retained keys (0 L1, 5 L2) in 9.1 ms
        (external_request_id=cmpl-kvr-r1a1-7-0-1a2b3c4d, prefetch_request_id=3)
    Retrieved 1280 tokens in 0.004 seconds

What they do not say: a full miss leaves no prefetch line; loads and stores carry no request id; a prefetch's time runs
until the engine's scheduler asks and so bounds the transfer from above; where the GPU copies are queued (CUDA) the
seconds of a load end before the copy does. Hence no GB/s is derived from any of them. The source file that a line names
moved from version to version, and is not looked at.
"""

from harness.collect.key_layout import KeyLayout
from harness.collect.pattern import Fields, Groups, Pattern, line, request_of

_FOUND = r"\((\d+) L1, (\d+) L2\) in (\d+(?:\.\d+)?) ms"


def _prefetch(groups: Groups, layout: KeyLayout | None) -> Fields:
    hit, keys, l1, l2, ms, *ids = groups
    l2_keys = int(l2 or 0)
    fields: Fields = {"keys": int(keys or 0), "l1_keys": int(l1 or 0), "l2_keys": l2_keys, "cost_ms": float(ms or 0)}
    if ids:
        fields |= request_of(ids[0])
    if layout is not None:
        fields |= {"tokens": layout.tokens(fields["keys"]), "hit_tokens": layout.tokens(int(hit or 0))}
        fields["bytes"] = None if layout.bytes_per_key is None else l2_keys * layout.bytes_per_key
    return fields


def _moved(groups: Groups, _: KeyLayout | None) -> Fields:
    tokens, seconds = groups
    return {"tokens": int(tokens or 0), "cost_ms": float(seconds or 0) * 1e3}


_OPENING = "Prefetch request completed"
MULTIPROCESS = (
    Pattern(
        "prefetch",
        *("0.4.7", "0.5.6", _OPENING),
        line(
            rf"Prefetch request completed \(L1\+L2\): (\d+)/(\d+) retained keys {_FOUND} "
            r"\(external_request_id=(.*?), prefetch_request_id=-?\d+\)"
        ),
        _prefetch,
    ),
    Pattern(
        "prefetch",
        *("0.4.3", "0.4.5", _OPENING),
        line(
            rf"Prefetch request completed \(L1\+L2\): (\d+)/(\d+) prefix hits {_FOUND} "
            r"\(external_request_id=(.*?), prefetch_request_id=-?\d+\)"
        ),
        _prefetch,
    ),
    Pattern(
        "prefetch",
        *("0.4.1", "0.4.2", _OPENING),
        line(rf"Prefetch request completed \(L1\+L2\): (\d+)/(\d+) prefix hits {_FOUND} \(request_id=-?\d+\)"),
        _prefetch,
    ),
    Pattern(
        "load", "0.3.12", "0.5.6", "Retrieved ", line(r"Retrieved (\d+) tokens in (\d+(?:\.\d+)?) seconds"), _moved
    ),
    Pattern("store", "0.3.12", "0.5.6", "Stored ", line(r"Stored (\d+) tokens in (\d+(?:\.\d+)?) seconds"), _moved),
)
