"""The HTML templates beside this file."""

from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined


def render(name: str, **values: Any) -> str:
    """The template `name` with `values`; whatever a server or a log said is text in it, never markup."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, loader=FunctionLoader(_source)
    )
    return environment.get_template(name).render(**values)


def _source(name: str) -> str:
    return files("harness.report").joinpath(name).read_text(encoding="utf-8")
