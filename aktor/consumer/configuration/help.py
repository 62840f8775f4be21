"""`help(KafkaConsumer)`: the docstring of the class, and behind it the settings from the table."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from typing import Any, Final

from aktor.consumer.configuration.table import SECTIONS, Setting

__all__ = ["WithSettings"]

_WIDTH: Final = 88


class WithSettings:
    """A class's `__doc__`, made when it is asked for: a program that does not ask pays nothing."""

    def __init__(self, text: str | None) -> None:
        self._text = text

    def __get__(self, _instance: object, _owner: type | None = None) -> str:
        """What `help` shows."""
        return "\n".join([inspect.cleandoc(self._text or ""), "", *_lines(), ""])


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
