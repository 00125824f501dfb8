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

_ANONYMOUS = 5
_ID = r"([^,]*+(?:,(?! prefetch_request_id=)[^,]*+)*+)"  # up to the comma that ends it; no character is tried twice
_FOUND = r"\((\d+) L1, (\d+) L2\) in (\d+(?:\.\d+)?) ms"


def _prefetch(groups: Groups, layout: KeyLayout | None) -> Fields:
    request_id, seq = request_of(groups[5]) if len(groups) > _ANONYMOUS else (None, None)
    keys, l2_keys = int(groups[1]), int(groups[3])
    fields: Fields = {
        "request_id": request_id,
        "seq": seq,
        "keys": keys,
        "l1_keys": int(groups[2]),
        "l2_keys": l2_keys,
        "cost_ms": float(groups[4]),
    }
    if layout is not None:
        fields["tokens"], fields["hit_tokens"] = layout.tokens(keys), layout.tokens(int(groups[0]))
        fields["bytes"] = None if layout.bytes_per_key is None else l2_keys * layout.bytes_per_key
    return fields


def _moved(groups: Groups, _: KeyLayout | None) -> Fields:
    return {"tokens": int(groups[0]), "cost_ms": float(groups[1]) * 1e3}


_OPENING = "Prefetch request completed"
MULTIPROCESS = (
    Pattern(
        "prefetch",
        *("0.4.7", "0.5.6", _OPENING),
        line(
            rf"Prefetch request completed \(L1\+L2\): (\d+)/(\d+) retained keys {_FOUND} "
            rf"\(external_request_id={_ID}, prefetch_request_id=-?\d+\)"
        ),
        _prefetch,
    ),
    Pattern(
        "prefetch",
        *("0.4.3", "0.4.5", _OPENING),
        line(
            rf"Prefetch request completed \(L1\+L2\): (\d+)/(\d+) prefix hits {_FOUND} "
            rf"\(external_request_id={_ID}, prefetch_request_id=-?\d+\)"
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
