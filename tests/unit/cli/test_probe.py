"""`kvreplay probe --assume`: the answer as text and as JSON, without a machine."""

import json
import sys

import pytest

from harness.cli.main import main

PAPER = "R=52.2k,s=48.4KB,T0=0.33,B=1.71GB/s"


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> "Probe":
    """The command, in this process: importing what it needs takes seconds."""
    return Probe(monkeypatch, capsys)


class Probe:
    """`kvreplay probe` with arguments: exit code, stdout, stderr."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        """Run it."""
        self._monkeypatch.setattr(sys, "argv", ["kvreplay", "probe", *arguments])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = self._capsys.readouterr()
        return code, out, err


def test_a_what_if_is_answered_as_text_and_as_json(probe: Probe) -> None:
    """The paper's case: off, the three questions answered, and the same figures in both."""
    asked = ("--assume", PAPER, "--prompt", "16000", "--rate", "1.21")
    code, text, _ = probe(*asked)
    assert code == 0
    document = json.loads(probe(*asked, "--json")[1])
    assert text.startswith("verdict: off\nFor prompts of 16,000 tokens at 1.21 a second: keep the remote tier off")
    assert document["verdict"]["word"] == "off"
    assert [answer["question"] for answer in document["verdict"]["answers"]] == [
        "p99 or median?",
        "Faster, or GPU time given back?",
        "Does the topology turn one slow load into a queue?",
    ]
    figures = document["figures"]
    assert figures["bstar_bytes_per_s"]["value"] == pytest.approx(2.53e9, rel=0.002)
    assert figures["break_even_tokens"]["value"] == "infinite"
    assert figures["rho"]["value"] == pytest.approx(1.21 * 16_000 * 48_400 / 1.71e9)
    for name, figure in figures.items():
        assert name in text
        assert {"value", "low", "high", "unit", "method"} <= set(figure)


def test_chunks_by_hash_are_asked_for(probe: Probe) -> None:
    """64 chunks on eight instances: a hit takes half as long again as with equal parts, and rho stays."""
    asked = (
        "--assume",
        PAPER.replace("1.71", "10.76"),
        "--prompt",
        "16384",
        "--rate",
        "1",
        "--instances",
        "8",
        "--json",
    )
    even, by_hash = (json.loads(probe(*asked, *more)[1])["figures"] for more in ((), ("--by-hash", "--chunk", "256")))
    assert by_hash["placement_slowdown"]["value"] == pytest.approx(1.53, abs=0.01)
    assert by_hash["transfer_s"]["value"] == pytest.approx(1.53 * even["transfer_s"]["value"], rel=0.01)
    assert by_hash["rho"]["value"] == even["rho"]["value"]
    assert "placement_slowdown" not in even


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "nothing to probe"),
        (("--assume", PAPER, "--rate", "1"), "--prompt"),
        (("--assume", PAPER, "--prompt", "-3"), "prompt_tokens is -3"),
        (("--assume", PAPER, "--prompt", "nan"), "prompt_tokens is nan"),
        (("--assume", PAPER, "--prompt", "100", "--rate", "0"), "requests_per_s is 0"),
        (("--assume", PAPER, "--instances", "0"), "instances is 0"),
        (("--assume", PAPER, "--by-hash", "--chunk", "0"), "chunks of 0 tokens"),
        (
            (
                "--assume",
                PAPER.replace("48.4KB", "48.4"),
            ),
            "a number and its unit",
        ),
    ],
)
def test_bad_input_is_one_block_and_exit_2(probe: Probe, arguments: tuple[str, ...], named: str) -> None:
    """What, where and what to do on stderr; nothing on stdout, no traceback."""
    code, out, err = probe(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "to do:" in err
    assert named in err
    assert "Traceback" not in err
