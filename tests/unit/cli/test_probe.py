"""`kvreplay probe --assume`: the answer as text and as JSON, without a machine."""

import json
import subprocess
import sys

import pytest

PAPER = "R=52.2k,s=48.4KB,T0=0.33,B=1.71GB/s"


def _probe(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "harness.cli", "probe", *arguments], capture_output=True, text=True, check=False
    )


def test_a_what_if_is_answered_as_text_and_as_json() -> None:
    """The paper's case: off, the three questions answered, and the same figures in both."""
    asked = ("--assume", PAPER, "--prompt", "16000", "--rate", "1.21")
    text, document = _probe(*asked), json.loads(_probe(*asked, "--json").stdout)
    assert text.returncode == 0
    assert text.stdout.startswith(
        "verdict: off\nFor prompts of 16,000 tokens at 1.21 a second: keep the remote tier off"
    )
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
        assert name in text.stdout
        assert {"value", "low", "high", "unit", "method"} <= set(figure)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "nothing to probe"),
        (("--assume", PAPER, "--rate", "1"), "--prompt"),
        (("--assume", PAPER, "--prompt", "-3"), "prompt_tokens is -3"),
        (("--assume", PAPER, "--prompt", "nan"), "prompt_tokens is nan"),
        (("--assume", PAPER, "--prompt", "100", "--rate", "0"), "requests_per_s is 0"),
        (
            (
                "--assume",
                PAPER.replace("48.4KB", "48.4"),
            ),
            "a number and its unit",
        ),
    ],
)
def test_bad_input_is_one_block_and_exit_2(arguments: tuple[str, ...], named: str) -> None:
    """What, where and what to do on stderr; nothing on stdout, no traceback."""
    end = _probe(*arguments)
    assert (end.returncode, end.stdout) == (2, "")
    assert end.stderr.startswith("error: ")
    assert "to do:" in end.stderr
    assert named in end.stderr
    assert "Traceback" not in end.stderr
