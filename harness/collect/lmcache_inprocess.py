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
    engine_id, total, computed, hit, need = groups
    return {
        "tokens": _count(total),
        "computed_tokens": _count(computed),
        "hit_tokens": _count(hit),
        "need_tokens": _count(need),
        **request_of(engine_id),
    }


def _lookup_of_old(groups: Groups, layout: KeyLayout | None) -> Fields:
    engine_id, total, hit, need = groups
    return _lookup((engine_id, total, None, hit, need), layout)


def _waits(groups: Groups, layout: KeyLayout | None) -> Fields:
    engine_id, total = groups
    return _lookup((engine_id, total, None, None, None), layout)


def _load(groups: Groups, layout: KeyLayout | None) -> Fields:
    engine_id, got, needed, total, *sized = groups
    fields = {"need_tokens": _count(needed), **_moved(engine_id, got, total, layout)}
    return fields | _figures(sized, fields)


def _store(groups: Groups, layout: KeyLayout | None) -> Fields:
    engine_id, stored, total, *sized = groups
    fields = _moved(engine_id, stored, total, layout)
    return fields | _figures(sized, fields)


def _announced(groups: Groups, layout: KeyLayout | None) -> Fields:
    stored, total, engine_id = groups
    return _moved(engine_id, stored, total, layout)


def _answered(groups: Groups, layout: KeyLayout | None) -> Fields:
    engine_id, tokens = groups
    fields = {"hit_tokens": _count(tokens), **request_of(engine_id)}
    return fields | ({} if layout is None else {"bytes": layout.bytes_of(int(tokens or 0))})


def _nothing(_: Groups, __: KeyLayout | None) -> Fields:
    return {}


def _moved(engine_id: str | None, tokens: str | None, total: str | None, layout: KeyLayout | None) -> Fields:
    moved = int(tokens or 0)
    size = {} if layout is None else {"bytes": layout.bytes_of(moved)}
    return {"tokens": moved, "total_tokens": _count(total), **size, **request_of(engine_id)}


def _figures(sized: list[str | None], fields: Fields) -> Fields:
    if not sized:
        return {}
    gib, ms, gib_per_s = (float(number or 0) for number in sized)
    exact = fields.get("bytes")
    return {"bytes": round(gib * _GIB) if exact is None else exact, "cost_ms": ms, "gb_per_s": gib_per_s}


def _count(text: str | None) -> int | None:
    return None if text is None or text == "None" else int(text)


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
    Pattern("load", "0.3.15", "0.5.6", "[req_id=", line(rf"{_ID}Retrieved {_WAY}{_SIZE};"), _load),
    Pattern("load", "0.3.15", "0.5.6", "[req_id=", line(rf"{_ID}Retrieved {_SAME}"), _load),  # layer by layer
    Pattern("load", "0.3.7", "0.3.14", "Retrieved ", line(rf"{_NO_ID}Retrieved {_WAY}{_SIZE};"), _load),
    Pattern("load", "0.3.4", "0.3.6", "Retrieved ", line(rf"{_NO_ID}Retrieved {_SAME}\. {_SIZE};"), _load),
    Pattern("load", "0.3.1", "0.3.14", "Retrieved ", line(rf"{_NO_ID}Retrieved {_SAME}"), _load),
    Pattern(None, "0.3.1", "0.5.6", "Retrieved ", line(r"Retrieved \d+ tokens"), _nothing),  # after the last layer
    Pattern("store", "0.3.15", "0.5.6", "[req_id=", line(rf"{_ID}Stored {_PART}\. {_SIZE}{_PUT}"), _store),
    Pattern("store", "0.3.2", "0.3.14", "Stored ", line(rf"{_NO_ID}Stored {_PART}\. {_SIZE}{_PUT}"), _store),
    Pattern("store", "0.3.1", "0.3.12", "Stored ", line(rf"{_NO_ID}Stored {_PART}"), _store),
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
