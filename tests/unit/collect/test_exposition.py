"""harness.collect.exposition: the wanted lines of a metrics page."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from harness.collect.exposition import samples
from harness.errors import CollectError

LABELS = st.text(max_size=8)


@settings(deadline=None)
@given(st.dictionaries(LABELS, st.integers(0, 10**12), max_size=5))
def test_a_page_gives_back_what_was_counted(totals: dict[str, int]) -> None:
    """Every value and label that the Prometheus client writes is read back; families not asked for are not."""
    registry = CollectorRegistry()
    counter = Counter("tokens", "what is wanted", ["source"], registry=registry)
    Gauge("tokens_other", "what is not", registry=registry).set(1)
    for label, total in totals.items():
        counter.labels(label).inc(total)
    found = samples(generate_latest(registry).decode(), {"tokens_total"})
    assert {sample.labels["source"]: sample.value for sample in found} == totals


def test_a_value_that_is_no_number_is_left_out() -> None:
    """NaN and infinity are what a server says when it has no value: no sample."""
    text = 'a{x="1"} NaN\na{x="2"} +Inf\na{x="3"} 3\n'
    assert [sample.value for sample in samples(text, {"a"})] == [3.0]


def test_a_malformed_line_is_an_error_only_if_it_is_wanted() -> None:
    """What nobody asked for may be written as it likes."""
    text = "good 1\nbad{ what\n"
    assert [sample.value for sample in samples(text, {"good"})] == [1.0]
    with pytest.raises(CollectError):
        samples(text, {"bad"})


def test_a_prefix_takes_a_histograms_sum_and_count_and_no_bucket() -> None:
    """A family is asked for by its beginning; buckets and creation times only by their own names."""
    text = 'a_x_bucket{le="1"} 1\na_x_sum 2\na_x_count 1\na_x_created 9\na_y_total 5\nb 1\n'
    assert [sample.name for sample in samples(text, (), ("a_",))] == ["a_x_sum", "a_x_count", "a_y_total"]
    assert len(samples(text, {"a_x_bucket"}, ("a_",))) == 4
