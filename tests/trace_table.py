"""`python -m tests.trace_table`: write the tables of docs/trace.md anew, from the schema of events.

`calls` finds in the source what is told.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from aktor.trace import schema

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "trace.md"
BEGIN, END = "<!-- {} -->\n", "<!-- /{} -->\n"

_LEVELS: Final = ("debug", "info", "warning", "error")
_NAME: Final = re.compile(r"[a-z_]+\.[a-z_]+")

_HEAD: Final = "| event | level | when | keys |\n|---|---|---|---|\n"
_HEAD_OF_KEYS: Final = "| key | what it is | type |\n|---|---|---|\n"


class Call(NamedTuple):
    """Where the source tells an event, at which level, with which keys; `more`: and with `**`."""

    place: str
    event: str
    level: str
    keys: frozenset[str]
    more: bool


def calls() -> Iterator[Call]:
    """Every place in aktor that tells an event."""
    for path in sorted((ROOT / "aktor").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            first = node.args[0] if node.args else None
            if node.func.attr not in _LEVELS or not isinstance(first, ast.Constant):
                continue
            if _NAME.fullmatch(str(first.value)):
                keys = [keyword.arg for keyword in node.keywords]
                yield Call(
                    f"{path.relative_to(ROOT)}:{node.lineno}",
                    str(first.value),
                    node.func.attr,
                    frozenset(filter(None, keys)),
                    None in keys,
                )


def events() -> str:
    """The table of events."""
    return _HEAD + "".join(
        f"| **{title}** | | | |\n" + "".join(map(_event, rows))
        for title, rows in schema.SECTIONS.items()
    )


def _event(row: schema.EventRow) -> str:
    keys = ", ".join([*row.keys, *(f"({key})" for key in row.sometimes)])
    return f"| `{row.name}` | {', '.join(row.levels)} | {row.when} | {keys} |\n"


def keys(table: dict[str, schema.Key]) -> str:
    """A table of keys."""
    return _HEAD_OF_KEYS + "".join(
        f"| `{name}` | {key.meaning} | {' or '.join(key.types.split())} |\n"
        for name, key in table.items()
    )


def document() -> str:
    """docs/trace.md with the tables as they are to be."""
    text = DOCUMENT.read_text()
    always = {**schema.ALWAYS, **schema.BOUND}
    for name, table in (
        ("always", keys(always)),
        ("events", events()),
        ("keys", keys(dict(schema.KEYS))),
    ):
        begin, end = BEGIN.format(name), END.format(name)
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}{table}{end}{after}"
    return text


if __name__ == "__main__":
    DOCUMENT.write_text(document())
