"""`help(KafkaConsumer)`: the docstring of the class, and behind it the settings from the table."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any, Final

from aktor.consumer.configuration.table import SECTIONS, Setting

__all__ = ["with_settings"]

_WIDTH: Final = 88
_PAGE: Final = "docs/configuration.md"


def with_settings(text: str) -> str:
    """The docstring, and behind it what each setting means."""
    return "\n".join([inspect.cleandoc(text), "", *_lines(), ""])


def _lines() -> Iterator[str]:
    yield "Settings, with their defaults:"
    for heading, settings in SECTIONS.items():
        yield f"\n{heading}"
        for setting in settings:
            default, unit = _default(setting), setting.unit
            if unit and default == "None":
                unit = f"(in {unit})"
            yield f"    {setting.name} = {default} {unit}".rstrip()
            told = "; ".join(filter(None, (setting.meaning, setting.notes)))
            yield textwrap.indent(textwrap.fill(_plain(told), _WIDTH), " " * 8)


def _plain(told: str) -> str:
    """A text of the page configuration.md, for a reader who does not have that page."""
    told = re.sub(r"\[([^]]+)\]\(([^)]+)\)", r"\1: docs/\2", told)
    told = told.replace(" (more below)", "").replace("stands below", f"stands in {_PAGE}")
    return told.replace("`", "")


def _default(setting: Setting) -> str:
    value: Any = setting.given_by_default()
    if isinstance(value, tuple):
        return f"({', '.join(map(_name, value))})"
    return _name(value)


def _name(value: Any) -> str:
    """Functions and classes by their names."""
    return str(getattr(value, "__name__", None) or repr(value))
