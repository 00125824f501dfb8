"""A judgement in words: the advice of each word, three answers, and a document that JSON can hold."""

import json

import pytest

from harness.analysis.forecast import forecast
from harness.analysis.forecast_json import forecast_json
from harness.analysis.verdict import Verdict
from harness.model import Estimate
from harness.model.figures import Question
from harness.model.load import Traffic
from harness.model.placement import Placement
from harness.model.uncertain import assumed
from harness.model.verdict import judge_model
from harness.report.forecast import render_forecast

GB = 1e9


def told(fixed_s: float, bandwidth: float, question: Question, share: float = 0.0) -> tuple[Verdict, str]:
    """The verdict on the paper's R and s, and all its text; the document must be JSON without infinity."""
    one = [Estimate(value, value, value, 1, "given") for value in (52.2e3, 48.4e3, fixed_s)]
    model = assumed(*one, Estimate(bandwidth, bandwidth * (1 - share), bandwidth * (1 + share), 1, "given"))
    judgement = judge_model(model, question)
    verdict = forecast(judgement)
    json.dumps(forecast_json(judgement, verdict), allow_nan=False)
    return verdict, render_forecast(verdict, judgement.figures)


@pytest.mark.parametrize(
    ("fixed_s", "bandwidth", "share", "question", "words"),
    [
        (0.05, 10 * GB, 0, Question(16_384), ["verdict: on\n", "turn the remote tier on;", "Faster"]),
        (0.33, 1.71 * GB, 0, Question(16_384), ["verdict: off\n", "no number of instances makes it pay", "T0 alone"]),
        (
            0.05,
            1.71 * GB,
            0,
            Question(16_384, most_instances=1),
            ["verdict: off\n", "with B at least 3.42 GB/s"],
        ),
        (0.05, 1.71 * GB, 0, Question(16_384), ["on_with_sharding", "(two instances like the one at hand)"]),
        (0.33, 10.76 * GB, 0, Question(), ["on_over_length", "for prompts over 22,512 tokens"]),
        (
            0.33,
            1.71 * GB,
            0,
            Question(),
            [
                "on_with_sharding",
                "B at least 3.42 GB/s",
                "then for prompts over 65,934 tokens",
                "no length breaks even",
            ],
        ),
        (
            0.05,
            3 * GB,
            0.2,
            Question(16_384),
            ["undecided", "a narrower interval of B", "at B = 3.01 GB/s"],
        ),
    ],
)
def test_each_word_has_its_advice(
    fixed_s: float, bandwidth: float, share: float, question: Question, words: list[str]
) -> None:
    """What to do, why, and where it is open what would decide it."""
    verdict, text = told(fixed_s, bandwidth, question, share)
    for piece in words:
        assert piece in text
    assert len(verdict.answers) == 3


def test_p99_and_median_that_disagree_are_no_uncertainty() -> None:
    """The paper's sharded tier: p99 is less than half, the median a third more, both for sure: it says which counts."""
    verdict, text = told(0.33, 10.76 * GB, Question(16_384, Traffic(1.21, 16_384)))
    assert verdict.word == "undecided"
    assert "hits make the p99 0.445 times that of recomputing, and the median 1.29 times" in verdict.sentence
    assert "depends on which of the two counts" in verdict.sentence
    assert "the median falls too for prompts over 22,512 tokens" in verdict.sentence
    assert "allow both answers" not in text


def test_a_fixed_cost_near_the_time_to_recompute_is_not_taken_for_a_bandwidth() -> None:
    """T0 may be on either side of it: T0 would decide, and no B is named as the line."""
    one = [Estimate(value, value, value, 1, "given") for value in (52.2e3, 48.4e3)]
    fixed = Estimate(0.33, 0.25, 0.4, 1, "given")
    judgement = judge_model(assumed(*one, fixed, Estimate(3e11, 3e11, 3e11, 1, "given")), Question(16_384))
    sentence = forecast(judgement).sentence
    assert "a narrower interval of T0" in sentence
    assert "at these values no B is enough" in sentence


def test_chunks_by_hash_are_said_to_share_b_unequally() -> None:
    """B of all instances, and what one prompt gets of it."""
    one = [Estimate(value, value, value, 1, "given") for value in (6500.0, 4096.0, 0.035, 113e6)]
    judgement = judge_model(assumed(*one, Placement(4, 256)), Question(1280, instances=4))
    assert "over four instances, of which one prompt gets 56.9 MB/s on the mean" in forecast(judgement).sentence


def test_a_queue_without_end_is_told() -> None:
    """rho over 1: yes, up to which rate it is stable, and which share to load."""
    _, text = told(0.33, 0.85 * GB, Question(16_384, Traffic(1.21, 16_384)))
    assert "rho is 1.13: yes, the queue grows for as long as requests come" in text
    assert "stable up to 1.07 a second" in text
    assert "load 71% of the hits" in text
    assert "without end" in text


def test_loads_in_the_step_stop_every_rank() -> None:
    """The in-process topology is named for what it does, and takes more of the engine than recomputing."""
    _, text = told(0.33, 10.76 * GB, Question(16_384, Traffic(1.21, 16_384, in_step=True)))
    assert "each stops every rank and request" in text
    assert "more than that" in text


def test_engine_time_is_given_back_where_hits_are_not_faster() -> None:
    """The second question: not faster, and still 0.38 of an engine is free."""
    verdict, _ = told(0.33, 10.76 * GB, Question(16_384, Traffic(1.21, 16_384)))
    assert verdict.answers[1].text.startswith("Not faster; each hit saves 314 ms of the engine")
    assert "hits give 0.38 engine seconds a second back" in verdict.answers[1].text
