"""`help(KafkaConsumer)`: the docstring of the class, and behind it the settings from the table."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from typing import Any, Final

from aktor.consumer.configuration.table import SECTIONS, Setting

__all__ = ["with_settings"]

_WIDTH: Final = 88


def with_settings(text: str) -> str:
    """The docstring, and behind it what each setting means."""
    return "\n".join([inspect.cleandoc(text), "", *_lines(), ""])


def _lines() -> Iterator[str]:
    yield "Settings, with their defaults:"
    for heading, settings in SECTIONS.items():
        yield f"\n{heading}"
        for setting in settings:
            yield f"    {setting.name} = {_default(setting)} {setting.unit}".rstrip()
            told = f"{setting.meaning}; {setting.notes}" if setting.notes else setting.meaning
            told = told.replace("`", "").replace(" (more below)", "")
            yield textwrap.indent(textwrap.fill(told, _WIDTH), " " * 8)


def _default(setting: Setting) -> str:
    value: Any = setting.given_by_default()
    if isinstance(value, tuple):
        return f"({', '.join(map(_name, value))})"
    return _name(value)


def _name(value: Any) -> str:
    """Functions and classes by their names."""
    return str(getattr(value, "__name__", None) or repr(value))
