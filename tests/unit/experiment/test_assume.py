"""What-if: four numbers with units in, a model out; everything else is refused by name."""

import pytest

from harness.errors import ConfigError
from harness.experiment.assume import parse_assumptions

PAPER = "R=52.2k,s=48.4KB,T0=0.33,B=1.71GB/s"


def test_the_papers_numbers() -> None:
    """Units are read: k tokens a second, KB of 1000 bytes, seconds, GB/s."""
    point = parse_assumptions(PAPER).point
    assert (point.prefill_tokens_per_s, point.kv_bytes_per_token) == (52_200, 48_400)
    assert (point.hit_fixed_s, point.bandwidth_bytes_per_s) == (0.33, 1.71e9)


def test_other_ways_to_write_them() -> None:
    """Spaces, ms, tokens/s, and a bandwidth in multiples of B* = s R."""
    point = parse_assumptions("B=2 Bstar, T0=330ms, s=48.4KB, R=52200 tokens/s").point
    assert point.hit_fixed_s == pytest.approx(0.33)
    assert point.bandwidth_bytes_per_s == pytest.approx(2 * 52_200 * 48_400)


def test_what_may_be_off_has_an_interval() -> None:
    """+-5 % of B is an interval of B, and of what follows from it; the others stay exact."""
    model = parse_assumptions("R=52.2k,s=48.4KB,T0=0.33,B=1.71GB/s+-5%")
    bandwidth = model.estimate(lambda m: m.bandwidth_bytes_per_s)
    assert bandwidth.low == pytest.approx(0.95 * 1.71e9, rel=0.02)
    assert bandwidth.high == pytest.approx(1.05 * 1.71e9, rel=0.02)
    recompute = model.estimate(lambda m: m.recompute_s(16_000))
    assert recompute.low == recompute.high == recompute.value


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (PAPER.replace("s=48.4KB", "s=48.4"), "s: '48.4'"),
        (PAPER.replace("B=1.71GB/s", "B=1.71"), "B: '1.71'"),
        (PAPER.replace("B=1.71GB/s", "B=1.71GB"), "not a rate"),
        (PAPER.replace("R=52.2k", "R=-5"), "R: '-5'"),
        (PAPER.replace("R=52.2k", "R=0"), "R is 0"),
        (PAPER.replace("R=52.2k", "R=nan"), "R: 'nan'"),
        (PAPER.replace("R=52.2k", "R=fast"), "tokens a second"),
        (PAPER.replace("T0=0.33", "T0=-1"), "T0: '-1'"),
        (PAPER.replace("T0=0.33", "T0=0.33parsec"), "parsec"),
        (PAPER.replace("s=48.4KB", "s=0KB"), "s is 0KB"),
        (PAPER.replace("B=1.71GB/s", "B=inf"), "B: 'inf'"),
        (PAPER.replace(",B=1.71GB/s", ""), "B is missing"),
        (PAPER + ",B=2GB/s", "is given twice"),
        (PAPER + ",Q=2", "'Q=2' is not one of"),
        (PAPER + "+-150%", "off by 150"),
        ("", "is not one of"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, named: str) -> None:
    """Negative, zero, NaN, without a unit, missing, twice, unknown: each by name, with the way to write it."""
    with pytest.raises(ConfigError, match=named.replace("(", r"\(")) as error:
        parse_assumptions(text)
    assert error.value.where == "--assume"
    assert error.value.remedy
