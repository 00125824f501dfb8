"""The program's arguments."""

import pytest

from harness.stack.link_proxy import Link, main


def test_a_link_is_two_ports() -> None:
    """LISTEN:UPSTREAM is read as two ports."""
    assert Link.parse("7201:7101") == Link(7201, 7101)


@pytest.mark.parametrize("text", ["7201", "7201:", "a:b", "0:1", "1:65536", "1:2:3"])
def test_other_texts_are_refused(text: str) -> None:
    """What is not two ports is a ValueError."""
    with pytest.raises(ValueError, match=r".*"):
        Link.parse(text)


@pytest.mark.parametrize(
    "arguments",
    [["--bytes-per-s", "1e6"], ["--link", "1:x", "--bytes-per-s", "1"], ["--link", "1:2", "--bytes-per-s", "0"]],
)
def test_wrong_arguments_start_nothing(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong arguments end the program with status 2 and a line on stderr that names the option."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "--" in capsys.readouterr().err.splitlines()[-1]
