"""From a YAML file to an Experiment; an error names the file, the line and the path of the value."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from harness.config.experiment import Experiment
from harness.config.settings import apply_settings
from harness.config.strict import Strict
from harness.errors import ConfigError

_ALIKE = 0.75  # of 1: `instance` is `instances`, `shards` is nothing


def load_experiment(path: Path, settings: Mapping[str, str] | None = None) -> Experiment:
    """The experiment in `path`, with `settings` (config.settings) in place of what it says.

    Raises ConfigError that names file:line, the config path, and what is expected.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the config: {error}", where=str(path), remedy="give a YAML file") from error
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        _refuse_repeated_keys(root, path)
        document = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(
            f"not YAML: {error.problem}",
            where=f"{path}:{line}",
            remedy="correct it there or in the line before: a colon, a bracket, a quote or the indent",
        ) from error
    if not isinstance(document, dict):
        raise ConfigError("the config is empty or not a mapping", where=str(path), remedy="see configs/laptop.yaml")
    apply_settings(document, settings or {})
    return _validated(document, lambda location: f"{path}:{_line_of(root, location)}")


def experiment_from(document: Mapping[str, Any], where: str) -> Experiment:
    """The experiment of a document that is in no file. Raises ConfigError as `load_experiment` does, with `where`."""
    return _validated(document, lambda _: where)


def _validated(document: Mapping[str, Any], place: Callable[[Sequence[str | int]], str]) -> Experiment:
    try:
        return Experiment.model_validate(document)
    except ValidationError as error:
        errors = error.errors()  # a key that is misspelt is the reason why another is missing
        first = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
        location = tuple(part for part in first["loc"] if not _is_branch_label(part))
        raise ConfigError(
            f"{_dotted(location) or 'config'}: {_message(first)}",
            where=place(location),
            remedy=_remedy(first["type"], location),
        ) from error


def _message(error: Any) -> str:
    if error["type"] == "extra_forbidden":
        return "unknown key"
    if error["type"] == "missing":
        return "missing"
    if error["type"] == "value_error":
        return str(error["msg"]).removeprefix("Value error, ")
    return f"{error['msg']}, and it is {error['input']!r}"


def _remedy(kind: str, location: Sequence[str | int]) -> str:
    if kind == "extra_forbidden":
        known = {name for model in Strict.__subclasses__() for name in model.model_fields} - {location[-1]}
        close = get_close_matches(str(location[-1]), known, n=1, cutoff=_ALIKE)
        return f"write {close[0]!r}" if close else f"remove {location[-1]!r}; configs/*.yaml show the keys there are"
    if kind == "missing":
        return f"add {location[-1]!r}"
    return "correct this value"


def _is_branch_label(part: str | int) -> bool:
    """Whether pydantic put a union branch's name into a location: no key of ours has brackets or is a type's name."""
    return isinstance(part, str) and ("[" in part or part in {"float", "int", "str"})


def _dotted(location: Sequence[str | int]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _line_of(root: yaml.Node | None, location: Sequence[str | int]) -> int:
    """The line (from 1) of the value at `location`, or of its nearest parent that is there."""
    node, line = root, 1
    for part in location:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == part), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line


def _refuse_repeated_keys(node: yaml.Node | None, path: Path) -> None:
    """YAML lets a later key silently win; a config must not."""
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.value in seen:
                first = f"first on line {seen[key.value]}"
                raise ConfigError(
                    f"key {key.value!r} appears twice ({first})", where=f"{path}:{line}", remedy="keep one"
                )
            seen[key.value] = line
            _refuse_repeated_keys(value, path)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _refuse_repeated_keys(value, path)
