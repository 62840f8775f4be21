"""`python -m tests.settings_table`: write anew which actor is given which setting, into docs/.

An actor is given what its class declares (`READS`). A test compares that with the code: an actor
reads a setting if a module of its own does (`tests/protocol_table.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from aktor.actors.network.actor import NetworkActor
from aktor.actors.sockets.kafka_net import KafkaNet
from aktor.settings import Settings
from aktor.simulation.faults.crashes import in_start_order
from tests.protocol_table import modules_from, modules_of, tree_of

DOCUMENT = Path(__file__).parent.parent / "docs" / "configuration.md"
BEGIN, END = "<!-- readers -->\n", "<!-- /readers -->\n"

NAMES = frozenset(Settings.FIELDS)

PROTOCOLS: Final = ("classic", "consumer", "auto")

#: To what else an actor gives its settings.
GIVES_TO: Final = {NetworkActor: KafkaNet}


def _is_settings(node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        return node.id == "settings"
    return isinstance(node, ast.Attribute) and node.attr in {"settings", "_settings"}


def given_to() -> dict[str, Any]:
    """The classes of a consumer's actors, by what the document calls them."""
    found: dict[str, Any] = {}
    for kinds in zip(*map(in_start_order, PROTOCOLS), strict=True):
        if len({*kinds}) == 1:
            found[kinds[0].name] = kinds[0]
        else:
            found |= {
                f"{kind.name} ({protocol})": kind
                for protocol, kind in zip(PROTOCOLS, kinds, strict=True)
            }
    return found


def read_in(modules: Iterable[str]) -> tuple[str, ...]:
    """The settings that these modules read, by name."""
    nodes = (node for module in modules for node in ast.walk(tree_of(module)))
    read = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr in NAMES and _is_settings(node.value)
    }
    return tuple(sorted(read))


def read_by(kind: Any) -> tuple[str, ...]:
    """The settings that the code of an actor of this class reads, by name."""
    begin = [one.__module__ for one in (kind, GIVES_TO.get(kind)) if one is not None]
    return read_in(modules_from(begin))


def table() -> str:
    """One row for each actor, and one for the application's half, which is given all."""
    read = {name: kind.READS for name, kind in given_to().items()}
    read["application"] = read_in(modules_of("application"))
    rows = [f"| {name} | {', '.join(f'`{one}`' for one in sorted(read[name]))} |" for name in read]
    return "\n".join(["| actor | reads |", "|---|---|", *rows]) + "\n"


def in_document() -> str:
    """The table as it stands in the document."""
    return DOCUMENT.read_text().partition(BEGIN)[2].partition(END)[0]


if __name__ == "__main__":
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    DOCUMENT.write_text(before + BEGIN + table() + END + rest.partition(END)[2])
