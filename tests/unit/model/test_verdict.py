"""The verdict: its kinds, its refusal to be sure, and its laws."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import ConfigError
from harness.model import CostModel, Estimate
from harness.model.figures import Question
from harness.model.load import Traffic
from harness.model.placement import Placement
from harness.model.uncertain import UncertainModel, assumed
from harness.model.verdict import Word, judge_model
from tests.unit.model.test_cost import ARRIVALS_PER_S, PROMPT_TOKENS

WORTH = (Word.OFF, Word.UNDECIDED, Word.ON)


def exact(value: float) -> Estimate:
    """A number taken as exact."""
    return Estimate(value, value, value, 1, "given")


def within(value: float, share: float) -> Estimate:
    """A number that may be off by a share."""
    return Estimate(value, value * (1 - share), value * (1 + share), 1, "given")


def paper(bandwidth: Estimate, fixed_s: float = 0.33) -> UncertainModel:
    """The paper's R and s, and another B and T0."""
    return assumed(exact(52.2e3), exact(48.4e3), exact(fixed_s), bandwidth)


def word(model: UncertainModel, question: Question) -> Word:
    """The word alone."""
    return judge_model(model, question).word


def test_paper_16k_prompts_do_not_pay_on_any_hardware() -> None:
    """T0 alone takes longer than recomputing 16k tokens: off, and no number of instances changes it."""
    question = Question(PROMPT_TOKENS, Traffic(ARRIVALS_PER_S, PROMPT_TOKENS))
    judgement = judge_model(paper(exact(1.71e9)), question)
    assert judgement.word is Word.OFF
    assert math.isinf(judgement.needed_instances)
    assert judge_model(paper(exact(0.85e9)), question).estimate("rho").value == pytest.approx(1.13, abs=0.006)  # type: ignore[union-attr]


def test_paper_sharded_pays_for_long_prompts() -> None:
    """At 10.76 GB/s: on for prompts over 22.5k tokens; for 16k prompts alone the median is 0.09 s behind."""
    sharded = paper(exact(10.76e9))
    for question in (Question(), Question(PROMPT_TOKENS)):
        judgement = judge_model(sharded, question)
        assert judgement.word is Word.ON_OVER_LENGTH
        assert judgement.figures["break_even_tokens"].estimate.value == pytest.approx(22.5e3, rel=0.001)
    assert word(sharded, Question(32_000)) is Word.ON


def test_longer_prompts_than_there_are_do_not_count() -> None:
    """Where the engine takes 20k tokens, an n* of 22.5k is off; and so it is where such prompts would make a queue."""
    sharded = paper(exact(10.76e9))
    assert word(sharded, Question(PROMPT_TOKENS, longest_tokens=20_000)) is Word.OFF
    assert word(sharded, Question(PROMPT_TOKENS, longest_tokens=23_000)) is Word.ON_OVER_LENGTH
    busy = Question(PROMPT_TOKENS, Traffic(2.9, PROMPT_TOKENS))
    assert word(sharded, busy) is not Word.OFF
    assert (
        word(assumed(exact(300e3), exact(48.4e3), exact(0.05), exact(15e9)), Question(1000, Traffic(100, 1000)))
        is Word.OFF
    )


def test_on_once_sharded_says_how_many() -> None:
    """With a T0 of 50 ms two instances of 1.71 GB/s are enough; if there may be only one, off."""
    slow = paper(exact(1.71e9), 0.05)
    judgement = judge_model(slow, Question(PROMPT_TOKENS))
    assert (judgement.word, judgement.needed_instances) == (Word.ON_WITH_SHARDING, 2)
    assert judgement.needed_bytes_per_s == pytest.approx(3.42e9)
    assert word(slow, Question(PROMPT_TOKENS, most_instances=1)) is Word.OFF
    enough = slow.instances(judgement.needed_instances)
    assert word(enough, Question(PROMPT_TOKENS, instances=2)) is Word.ON


def test_an_interval_over_the_line_is_undecided_and_says_what_would_decide() -> None:
    """B may be on either side of what breaks even: no verdict, and B is named; exactly known, there is one."""
    judgement = judge_model(paper(within(3.0e9, 0.2), 0.05), Question(PROMPT_TOKENS))
    assert judgement.word is Word.UNDECIDED
    assert judgement.open_inputs == ("bandwidth_bytes_per_s",)
    assert word(paper(exact(3.0e9), 0.05), Question(PROMPT_TOKENS)) is not Word.UNDECIDED


def test_recomputing_that_cannot_keep_up_makes_a_slower_hit_pay() -> None:
    """GPU time given back: at 4 a second recomputing has no steady state, and hits that take longer have."""
    model = paper(exact(10.76e9))
    judgement = judge_model(model, Question(PROMPT_TOKENS, Traffic(4, PROMPT_TOKENS)))
    assert judgement.figures["hit_over_recompute"].estimate.value > 1
    assert judgement.figures["recompute_load"].estimate.value > 1
    assert judgement.word is Word.ON


@settings(deadline=None, max_examples=60)
@given(
    rate=st.floats(1e3, 1e5),
    size=st.floats(1e3, 1e5),
    fixed=st.floats(0, 1),
    bandwidth=st.floats(1e6, 1e11),
    share=st.floats(0, 0.5),
    factor=st.floats(1, 100),
    arrivals=st.floats(0.01, 5),
    in_step=st.booleans(),
)
def test_the_verdict_is_monotone_in_bandwidth(
    rate: float,
    size: float,
    fixed: float,
    bandwidth: float,
    share: float,
    factor: float,
    arrivals: float,
    in_step: bool,
) -> None:
    """More of the same bandwidth never turns an on into an off, alone or in traffic."""
    model = assumed(exact(rate), exact(size), exact(fixed), within(bandwidth, share))
    faster = assumed(exact(rate), exact(size), exact(fixed), within(factor * bandwidth, share))
    for question in (
        Question(1000, most_instances=1),
        Question(1000, Traffic(arrivals, 1000, in_step=in_step), most_instances=1),
    ):
        words = [word(one, question) for one in (model, faster)]
        ranks = [WORTH.index(one) if one in WORTH else 0 for one in words]
        assert ranks[0] <= ranks[1]


@settings(deadline=None, max_examples=15)
@given(bandwidth=st.floats(1e6, 1e11), factor=st.floats(1, 100), chunks=st.integers(1, 40))
def test_and_so_it_is_where_chunks_lie_by_hash(bandwidth: float, factor: float, chunks: int) -> None:
    """Four instances of more bandwidth never turn an on into an off."""
    traffic = Question(256 * chunks, Traffic(0.1, 256 * chunks), 4, most_instances=4)
    words = [
        word(assumed(exact(52.2e3), exact(48.4e3), exact(0.01), exact(b), Placement(4, 256)), traffic)
        for b in (bandwidth, factor * bandwidth)
    ]
    ranks = [WORTH.index(one) if one in WORTH else 0 for one in words]
    assert ranks[0] <= ranks[1]


@settings(deadline=None, max_examples=60)
@given(fixed=st.floats(0.01, 0.5), bandwidth=st.floats(1e8, 1e11), share=st.floats(0.01, 0.5))
def test_a_narrower_interval_never_contradicts_a_wider_one(fixed: float, bandwidth: float, share: float) -> None:
    """What was sure stays so when B is known exactly."""
    question = Question(PROMPT_TOKENS, most_instances=1)
    wide, sharp = word(paper(within(bandwidth, share), fixed), question), word(paper(exact(bandwidth), fixed), question)
    assert wide in {Word.UNDECIDED, sharp} or {wide, sharp} <= {Word.OFF, Word.ON_OVER_LENGTH}


def test_p99_and_median_that_disagree_are_a_trade_off() -> None:
    """The paper's sharded tier at 1.21 a second: both are sure, one of them falls and the other rises."""
    judgement = judge_model(paper(exact(10.76e9)), Question(PROMPT_TOKENS, Traffic(ARRIVALS_PER_S, PROMPT_TOKENS)))
    assert (judgement.word, judgement.trade_off, judgement.open_inputs) == (Word.UNDECIDED, True, ())
    assert not judge_model(paper(within(3.0e9, 0.2), 0.05), Question(PROMPT_TOKENS)).trade_off


def test_what_sharding_would_bring_has_its_own_length() -> None:
    """Prompts of any length: two instances are above B*, and then n* is R T0 / (1 - B*/B) = 65.9k tokens."""
    judgement = judge_model(paper(exact(1.71e9)), Question())
    assert (judgement.word, judgement.needed_instances) == (Word.ON_WITH_SHARDING, 2)
    assert judgement.needed_break_even_tokens == pytest.approx(52.2e3 * 0.33 / (1 - 52.2e3 * 48.4e3 / 3.42e9))


def test_without_t0_there_is_no_verdict() -> None:
    """A cost that was not measured is not taken for nothing."""
    unknown = UncertainModel(CostModel(52.2e3, 48.4e3, None, 1.71e9))
    with pytest.raises(ConfigError, match="T0"):
        judge_model(unknown, Question())


@pytest.mark.parametrize(
    ("field", "value"),
    [("prompt_tokens", 0), ("prompt_tokens", math.nan), ("instances", -1), ("p99_target_s", math.inf)],
)
def test_a_question_that_cannot_be_asked_is_refused(field: str, value: float) -> None:
    """By name."""
    with pytest.raises(ConfigError, match=field):
        Question(**{field: value})  # type: ignore[arg-type]


def test_a_rate_needs_its_prompts() -> None:
    """A rate of prompts of another length is refused."""
    with pytest.raises(ConfigError, match="length"):
        Question(1000, Traffic(1, 2000))


def test_instances_for_a_p99_target() -> None:
    """The number asked for is among the figures, and meets the target."""
    question = Question(32_000, Traffic(0.9, 32_000), p99_target_s=0.8)
    needed = judge_model(paper(exact(1.71e9)), question).figures["instances_for_p99"].estimate.value
    sharded = judge_model(paper(exact(1.71e9)).instances(needed), Question(32_000, Traffic(0.9, 32_000)))
    assert sharded.figures["hit_p99_s"].estimate.value <= 0.8
