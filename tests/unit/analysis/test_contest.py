"""How an arm stands beside recompute, and what word follows."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis.contest import Contest, Side, Standing, shown, standing, word
from harness.model import Estimate
from harness.model.verdict import Word

WORTH = (Word.OFF, Word.UNDECIDED, Word.ON_WITH_SHARDING, Word.ON)
RECOMPUTE = Side("recompute", 0, {}, rising=False, blockers=())


def exact(value: float) -> Estimate:
    """A number without doubt."""
    return Estimate(value, value, value, 100, "count")


@st.composite
def ratios(draw: st.DrawFn) -> Estimate:
    """A ratio to recompute with its interval."""
    value = draw(st.floats(0.1, 10))
    return Estimate(value, value * draw(st.floats(0.3, 1)), value * draw(st.floats(1, 3)), 100, "drawn")


@st.composite
def remotes(draw: st.DrawFn, instances: int = 1) -> Side:
    """An arm with a remote tier, in any state."""
    numbers = {
        "ttft_p50_ratio": draw(ratios()),
        "ttft_p99_ratio": draw(ratios()),
        "external_prefix_cache_hits": exact(draw(st.sampled_from([0.0, 500.0]))),
        "requests": exact(100),
        "failures": exact(draw(st.sampled_from([0.0, 3.0]))),
    }
    blockers = draw(st.sampled_from([(), ("rows are missing",)]))
    return Side(f"valkey-{instances}", instances, numbers, draw(st.booleans()), blockers)


def slowed(side: Side, factor: float) -> Side:
    """The same arm with every TTFT `factor` times as long."""
    numbers = dict(side.numbers)
    for name in ("ttft_p50_ratio", "ttft_p99_ratio"):
        one = numbers[name]
        assert one.low is not None
        assert one.high is not None
        numbers[name] = replace(one, value=one.value * factor, low=one.low * factor, high=one.high * factor)
    return replace(side, numbers=numbers)


@settings(deadline=None)
@given(one=remotes(1), four=remotes(4), factor=st.floats(1, 20), base_rises=st.booleans(), base_fails=st.booleans())
def test_slower_is_never_better(one: Side, four: Side, factor: float, base_rises: bool, base_fails: bool) -> None:
    """Whatever else holds, slowing down either remote arm never makes the verdict more favourable to it."""
    counts = {"requests": exact(100), "failures": exact(2.0 * base_fails)}
    recompute = replace(RECOMPUTE, numbers=counts, rising=base_rises)
    before = word(Contest("trace", "replay", recompute, (one, four)))
    for after in ((slowed(one, factor), four), (one, slowed(four, factor))):
        assert WORTH.index(word(Contest("trace", "replay", recompute, after))) <= WORTH.index(before)


@settings(deadline=None)
@given(side=remotes())
def test_better_needs_everything(side: Side) -> None:
    """An arm called better is shown faster at p99, not shown slower at p50, steady, whole, and had remote hits."""
    if standing(side, RECOMPUTE) is Standing.BETTER:
        assert shown(side.numbers["ttft_p99_ratio"]) == -1
        assert shown(side.numbers["ttft_p50_ratio"]) < 1
        assert not side.rising
        assert not side.blockers
        assert side.failed_share == 0
        assert side.value("external_prefix_cache_hits") == 500


@settings(deadline=None)
@given(sides=st.lists(remotes(), min_size=1, max_size=3))
def test_off_needs_every_arm_worse(sides: list[Side]) -> None:
    """Off is said only if each remote arm was shown to be worse; on only if one was shown to be better."""
    stands = {standing(side, RECOMPUTE) for side in sides}
    told = word(Contest("trace", "replay", RECOMPUTE, tuple(sides)))
    assert (told is Word.OFF) == (stands == {Standing.WORSE})
    assert (told is Word.ON) == (Standing.BETTER in stands)


def test_growing_beside_a_steady_recompute() -> None:
    """A queue that grows is worse than recompute even before p99 shows it, unless recompute's grows as well."""
    even = Estimate(1.0, 0.8, 1.2, 100, "drawn")
    numbers = {"ttft_p50_ratio": even, "ttft_p99_ratio": even, "external_prefix_cache_hits": exact(500)}
    growing = Side("valkey-1", 1, numbers, rising=True, blockers=())
    assert standing(growing, RECOMPUTE) is Standing.WORSE
    assert standing(growing, replace(RECOMPUTE, rising=True)) is Standing.UNCLEAR


def test_shown() -> None:
    """A ratio differs from 1 only if its whole interval does; without an interval nothing is shown."""
    assert shown(Estimate(0.5, 0.4, 0.9, 9, "")) == -1
    assert shown(Estimate(2.0, 1.1, 3.0, 9, "")) == 1
    assert shown(Estimate(2.0, 0.9, 3.0, 9, "")) == 0
    assert shown(Estimate(2.0, None, None, 1, "")) == 0
    assert shown(None) == 0
