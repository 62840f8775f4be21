"""`python -m tests.settings_table`: write anew which actor reads which setting, into docs/.

Read from the code, as the conversations are (`tests/protocol_table.py`): an actor reads a setting
if a module of its own does. All actors are given the same `Settings`; a test compares the table
with the code, so that an actor cannot begin to read another one's setting unseen.
"""

from __future__ import annotations

import ast
from pathlib import Path

from aktor.settings import Settings
from tests.protocol_table import BEGINS, modules_of, tree_of

DOCUMENT = Path(__file__).parent.parent / "docs" / "configuration.md"
BEGIN, END = "<!-- readers -->\n", "<!-- /readers -->\n"

NAMES = frozenset(Settings.FIELDS)


def _is_settings(node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        return node.id == "settings"
    return isinstance(node, ast.Attribute) and node.attr in {"settings", "_settings"}


def read_by(actor: str) -> list[str]:
    """The settings that this actor reads, by name."""
    nodes = (node for module in modules_of(actor) for node in ast.walk(tree_of(module)))
    read = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr in NAMES and _is_settings(node.value)
    }
    return sorted(read)


def table() -> str:
    """One row for each actor that reads any."""
    rows = [
        f"| {actor} | {', '.join(f'`{one}`' for one in read)} |"
        for actor in BEGINS
        if (read := read_by(actor))
    ]
    return "\n".join(["| actor | reads |", "|---|---|", *rows]) + "\n"


def in_document() -> str:
    """The table as it stands in the document."""
    return DOCUMENT.read_text().partition(BEGIN)[2].partition(END)[0]


if __name__ == "__main__":
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    DOCUMENT.write_text(before + BEGIN + table() + END + rest.partition(END)[2])
