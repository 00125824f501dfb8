"""Lines of LMCache inside the engine (LMCacheConnectorV1), 0.3.1 to 0.5.6: they stand in vLLM's own log.

The scheduler looks up, workers load and store:

    Reqid: cmpl-kvr-r1a1-7-0-1a2b3c4d, Total tokens 4109, Inference Engine computed tokens: 0, LMCache hit tokens: 4096,
        need to load: 4096
    [req_id=cmpl-kvr-r1a1-7-0-1a2b3c4d] Retrieved 4096 out of 4096 required tokens (from 4096 total tokens).
        size: 0.5000 gb, cost 391.7658 ms, throughput: 1.2763 GB/s;

What they do not say: a lookup's `need` is a claim, no transfer, and negative up to 0.3.13; loads and stores have no
request id up to 0.3.14; with asynchronous loading the remote tier is read during the lookup, so that the cost of a load
leaves it out; a store's cost ends when the remote write is queued, and a prompt computed in steps has several stores.
GB is 2^30 bytes here, written with four decimals: bytes are exact only where a token's size is known.
"""

from harness.collect.key_layout import KeyLayout
from harness.collect.pattern import Fields, Groups, Pattern, line, request_of

_GIB = 2**30
_DECIMAL = r"\d+(?:\.\d+)?"
_NUMBER = rf"({_DECIMAL})"
_SIZE = rf"size: {_NUMBER} (?:gb|GB), (?:cost|total time) {_NUMBER} ms, throughput: {_NUMBER} GB/s"


def _lookup(groups: Groups, _: KeyLayout | None) -> Fields:
    request_id, seq = request_of(groups[0])
    return {
        "request_id": request_id,
        "seq": seq,
        "tokens": int(groups[1]),
        "computed_tokens": int(groups[2]),
        "hit_tokens": int(groups[3]),
        "need_tokens": int(groups[4]),
    }


def _lookup_of_old(groups: Groups, _: KeyLayout | None) -> Fields:
    request, tokens, hit, need = groups
    return {**_waits((request, tokens), _), "hit_tokens": int(hit), "need_tokens": int(need)}


def _waits(groups: Groups, _: KeyLayout | None) -> Fields:
    request_id, seq = request_of(groups[0])
    return {"request_id": request_id, "seq": seq, "tokens": int(groups[1])}


def _load(groups: Groups, layout: KeyLayout | None) -> Fields:
    request_id, seq = request_of(groups[0])
    tokens = int(groups[1])
    return {
        "request_id": request_id,
        "seq": seq,
        "tokens": tokens,
        "need_tokens": int(groups[2]),
        "total_tokens": int(groups[3]),
        "bytes": _bytes(tokens, layout, groups[4]),
        "cost_ms": float(groups[5]),
        "gb_per_s": float(groups[6]),
    }


def _load_of_layers(groups: Groups, layout: KeyLayout | None) -> Fields:
    request, tokens, needed, total = groups
    return {**_moved(request, tokens, total, layout), "need_tokens": int(needed)}


def _store(groups: Groups, layout: KeyLayout | None) -> Fields:
    request_id, seq = request_of(groups[0])
    tokens = int(groups[1])
    return {
        "request_id": request_id,
        "seq": seq,
        "tokens": tokens,
        "total_tokens": int(groups[2]),
        "bytes": _bytes(tokens, layout, groups[3]),
        "cost_ms": float(groups[4]),
        "gb_per_s": float(groups[5]),
    }


def _store_of_old(groups: Groups, layout: KeyLayout | None) -> Fields:
    return _moved(groups[0], groups[1], groups[2], layout)


def _announced(groups: Groups, layout: KeyLayout | None) -> Fields:
    return _moved(groups[2], groups[0], groups[1], layout)


def _answered(groups: Groups, layout: KeyLayout | None) -> Fields:
    request_id, seq = request_of(groups[0])
    tokens = int(groups[1])
    return {"request_id": request_id, "seq": seq, "hit_tokens": tokens, "bytes": _bytes(tokens, layout)}


def _nothing(_: Groups, __: KeyLayout | None) -> Fields:
    return {}


def _moved(request: str, tokens: str, total: str, layout: KeyLayout | None) -> Fields:
    request_id, seq = request_of(request)
    moved = int(tokens)
    return {
        "request_id": request_id,
        "seq": seq,
        "tokens": moved,
        "total_tokens": int(total),
        "bytes": _bytes(moved, layout),
    }


def _bytes(tokens: int, layout: KeyLayout | None, gib: str | None = None) -> int | None:
    """What so many tokens are: exact where a token's size is known, else by the size that the line gives."""
    exact = None if layout is None else layout.bytes_of(tokens)
    return round(float(gib) * _GIB) if exact is None and gib is not None else exact


_ID = r"\[req_id=([^\]]*)\] "
_NO_ID = r"()"
_PUT = rf"(?:; offload_time: {_DECIMAL} ms, put_time: {_DECIMAL} ms)?"
_WAY = r"(\d+) out of (\d+) required tokens \(from (\d+) total tokens\)\. "
_SAME = r"(\d+) out of (?:total )?(\d+) out of total (\d+) tokens"
_PART = r"(\d+) out of total (\d+) tokens"
_NEED = r"(?:but )?need to load: (-?\d+)(?: < min_retrieve \d+, skip retrieve but record for save skip)?"
INPROCESS = (
    Pattern(
        "lookup",
        *("0.3.14", "0.5.6", "Reqid: "),
        line(
            r"Reqid: (\S+), Total tokens (\d+), Inference Engine computed tokens: (\d+), "
            rf"LMCache hit tokens: (\d+), {_NEED}"
        ),
        _lookup,
    ),
    Pattern(
        "lookup",
        *("0.3.1", "0.3.13", "Reqid: "),
        line(r"Reqid: (\S+), Total tokens (\d+), LMCache hit tokens: (\d+), need to load: (-?\d+)"),
        _lookup_of_old,
    ),
    Pattern(  # every scheduler step until an asynchronous lookup is answered; at DEBUG from 0.3.10
        "lookup",
        *("0.3.6", "0.5.6", "Reqid: "),
        line(
            r"Reqid: (\S+), Total tokens (\d+), (?:Inference Engine computed tokens: \d+, )?LMCache hit tokens: None\."
        ),
        _waits,
    ),
    Pattern("load", "0.3.15", "0.5.6", "[req_id=] Retrieved ", line(rf"{_ID}Retrieved {_WAY}{_SIZE};"), _load),
    Pattern("load", "0.3.15", "0.5.6", "[req_id=] Retrieved ", line(rf"{_ID}Retrieved {_SAME}"), _load_of_layers),
    Pattern("load", "0.3.7", "0.3.14", "Retrieved ", line(rf"{_NO_ID}Retrieved {_WAY}{_SIZE};"), _load),
    Pattern("load", "0.3.4", "0.3.6", "Retrieved ", line(rf"{_NO_ID}Retrieved {_SAME}\. {_SIZE};"), _load),
    Pattern("load", "0.3.1", "0.3.14", "Retrieved ", line(rf"{_NO_ID}Retrieved {_SAME}"), _load_of_layers),
    Pattern(None, "0.3.1", "0.5.6", "Retrieved ", line(r"Retrieved \d+ tokens"), _nothing),  # after the last layer
    Pattern("store", "0.3.15", "0.5.6", "[req_id=] Stored ", line(rf"{_ID}Stored {_PART}\. {_SIZE}{_PUT}"), _store),
    Pattern("store", "0.3.2", "0.3.14", "Stored ", line(rf"{_NO_ID}Stored {_PART}\. {_SIZE}{_PUT}"), _store),
    Pattern("store", "0.3.1", "0.3.12", "Stored ", line(rf"{_NO_ID}Stored {_PART}"), _store_of_old),
    Pattern(  # before it is done, without a time: a store is counted by the line that has a cost
        "store",
        *("0.3.1", "0.5.6", "Storing KV cache"),
        line(r"Storing KV cache for (\d+) out of (\d+) tokens \(skip_leading_tokens=\d+\) for request (\S+)"),
        _announced,
    ),
    Pattern(  # asynchronous loading: the whole hit is in host memory now
        "prefetch",
        *("0.3.6", "0.5.6", "Responding to scheduler"),
        line(r"Responding to scheduler for lookup id (\S+) with retrieved length (\d+)"),
        _answered,
    ),
)
