"""`python -m tests.settings_table`: write anew what is made of the table of settings.

That is the tables of docs/configuration.md, from `aktor/consumer/configuration/table.py`; the types
of keyword arguments in `keywords.py` beside it; and which actor is given which setting. An actor
is given what its class declares (`READS`). A test compares that with the code: an actor reads a
setting if a module of its own does (`tests/protocol_table.py`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from aktor.actors.network.actor import NetworkActor
from aktor.actors.sockets.kafka_net import KafkaNet
from aktor.consumer.configuration.table import SECTIONS, SETTINGS, Setting
from aktor.settings import Settings
from aktor.simulation.world.crashes import in_start_order
from tests.protocol_table import modules_from, modules_of, tree_of

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "configuration.md"
KEYWORDS = ROOT / "aktor" / "consumer" / "configuration" / "keywords.py"
BEGIN, END = "<!-- readers -->\n", "<!-- /readers -->\n"

NAMES = frozenset(Settings.FIELDS)

#: What follows from several settings: the properties of `Settings`, each with those that it reads.
DERIVED: Final = {
    function.name: {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and node.attr in NAMES
    }
    for function in ast.walk(tree_of("aktor.settings"))
    if isinstance(function, ast.FunctionDef)
    and isinstance(vars(Settings).get(function.name), property)
}

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
        name
        for node in nodes
        if isinstance(node, ast.Attribute) and _is_settings(node.value)
        for name in DERIVED.get(node.attr, {node.attr} & NAMES)
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


#: Defaults that are shown by another text than their `repr`.
SHOWN: Final = {
    "client_id": "aktor-<version>",
    "default_offset_commit_callback": "ignore_commit",
    "kafka_client": "KafkaNetClient",
    "partition_assignment_strategy": "(RangePartitionAssignor, RoundRobinPartitionAssignor)",
    "selector": "DefaultSelector",
    "socket_options": "[(IPPROTO_TCP, TCP_NODELAY, 1)]",
}

#: The head of a table of settings, and one of its rows or more.
TABLE: Final = re.compile(r"(\| name \| default .*\n\|---.*\n)(?:\| `.*\n)+")


def row(setting: Setting) -> str:
    """What the document says of a setting."""
    default = SHOWN.get(setting.name, repr(setting.given_by_default()))
    cells = (f"`{setting.name}`", f"`{default}`", setting.unit, setting.meaning, setting.notes)
    return f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in cells)}|\n"


def document() -> str:
    """docs/configuration.md with tables that are made of those in the code."""
    text = DOCUMENT.read_text()
    for heading, settings in SECTIONS.items():
        before, found, after = text.partition(f"\n## {heading}\n\n")
        assert found, f"the document has no section {heading!r}"
        old = TABLE.search(after)
        assert old is not None, f"the section {heading!r} has no table"
        rows = "".join(map(row, settings))
        text = before + found + after[: old.start()] + old[1] + rows + after[old.end() :]
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


HEAD: Final = '''\
"""The types of a consumer's settings, for type checkers.

Made from `table` (`python -m tests.settings_table`); a test compares the two.
"""

from __future__ import annotations

import os
import selectors
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import TypedDict

from aktor.consumer.configuration.shapes import Deserializes, OnCommit, TokenProvider

__all__ = ["Config", "ConsumerSettings", "Keywords"]


class ConsumerSettings(TypedDict, total=False):
    """Settings of `KafkaConsumer(*topics, **settings)` that several consumers may share: all but
    the deserializers, which say what type a record's key and value have. docs/configuration.md."""

{settings}

class Keywords(ConsumerSettings, total=False):
    """All settings."""

{deserializers}

class Config(TypedDict):
    """`consumer.config`: every setting, as it was given or by its default."""

{config}'''

#: Their types are the consumer's own: see the overloads of `KafkaConsumer.__init__`.
DESERIALIZERS: Final = ("key_deserializer", "value_deserializer")

#: None in `config` with group_protocol "consumer".
LEFT_TO_BROKERS: Final = ("session_timeout_ms", "heartbeat_interval_ms")


def keywords() -> str:
    """The module with the typed dicts of the settings."""
    given = {name: f"    {name}: {one.kind}\n" for name, one in SETTINGS.items()}
    kept = [f"    {name}: {_kept(one)}\n" for name, one in SETTINGS.items()]
    deserializers = "".join(given.pop(name) for name in DESERIALIZERS)
    return HEAD.format(
        settings="".join(given.values()), deserializers=deserializers, config="".join(kept)
    )


def _kept(setting: Setting) -> str:
    """What `config` has: the default, if None stands for it."""
    is_default = None in setting.unset and setting.given_by_default() is not None
    if not is_default or setting.name in LEFT_TO_BROKERS:
        return setting.kind
    return setting.kind.removesuffix(" | None")


if __name__ == "__main__":
    DOCUMENT.write_text(document())
    KEYWORDS.write_text(keywords())
