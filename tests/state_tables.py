"""`python -m tests.state_tables`: write docs/state_machines.md anew, from the tables in the code.

A state machine is one table, see `aktor/state_table.py`. A test finds the tables in the code by
their form, and fails until each has a name in `NAMES`.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final

from aktor.state_table import mermaid

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "state_machines.md"

#: What the page calls the machine of each table, in the order of the page.
NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "The consumer": {
        "aktor.managers.membership.classic.states.TRANSITIONS": "A member of a classic group",
        "aktor.managers.membership.consumer.states.TRANSITIONS": "A member of a KIP-848 group",
        "aktor.managers.membership.consumer.registration.TRANSITIONS": (
            "Registration in a KIP-848 group"
        ),
        "aktor.managers.membership.classic.leader.STAGES": "Leader of a classic group",
        "aktor.managers.membership.consumer.reconciliation.STAGES": "Reconciliation",
        "aktor.managers.membership.revocation.STAGES": "Revocation",
        "aktor.managers.coordinator.TRANSITIONS": "Coordinator",
        "aktor.managers.positions.partition.TRANSITIONS": "Position of a partition",
        "aktor.consumer.core.partition.STAGES": "Delivery of a partition",
        "aktor.actors.network.bootstrap.TRANSITIONS": "Bootstrap",
        "aktor.actors.network.links.TRANSITIONS": "Link",
        "aktor.actors.sockets.conversation.TRANSITIONS": "Conversation",
    },
    "The embedded cluster": {
        "aktor.broker.groups.classic.states.TRANSITIONS": "Classic group",
        "aktor.broker.transactions.transaction.TRANSITIONS": "Transaction",
        "aktor.broker.sasl._TRANSITIONS": "Login of a client",
    },
}

#: Enums that are named like states, or like how far something is, and have no table; and why.
WITHOUT_TABLE: Final[Mapping[str, str]] = {
    "aktor.actors.sockets.diagnosis.Phase": "a note for the words of an error: which step a"
    " connection has begun",
    "aktor.managers.fetch.plan.FetchState": "worked out anew, from the facts, whenever a partition"
    " is looked at",
    "aktor.events.membership.MemberState": "what others are told of a member's state, in"
    " kafka-python's three words",
    "aktor.broker.groups.consumer.member.MemberState": "the machine without a table: one pure"
    " function (`reconcile`) makes the next member, as Kafka's CurrentAssignmentBuilder",
    "aktor.simulation.selftest.drill.Phase": "which part of a drill's script is being played",
}

HEAD = (
    "# The state machines",
    "Every state machine is one table in the code, but for one of the embedded cluster (see below):"
    " which trigger leads from which state to which. What is not in the table is refused as a bug"
    " in us (`aktor/state_table.py`). This page is made from the tables and their docstrings"
    " (`python -m tests.state_tables`), and a test compares the two.",
    "A fact that may be true in any state is no machine, but a plain attribute: whether a partition"
    " is paused, whether a link has brought an answer, when something is due. Every enum that is"
    " named like a state has a table, but for these:",
    "\n".join(f"- `{name}`: {why}." for name, why in WITHOUT_TABLE.items()),
)

#: How an enum of states is named.
_STATES: Final = re.compile(r"class (\w*(?:State|Stage|Status|Phase))\(.*Enum\):")


def named_like_states() -> set[str]:
    """All enums in the sources that are named like states, by dotted name."""
    return {
        f"{_module(path)}.{name}"
        for path in (ROOT / "aktor").rglob("*.py")
        for name in _STATES.findall(path.read_text())
    }


def with_table() -> set[str]:
    """The enums of states that have a table, by dotted name."""
    return {f"{one.__module__}.{one.__qualname__}" for one in map(states_of, found())}


def found() -> list[str]:
    """All tables of states in the sources, by dotted name."""
    return [name for path in sorted((ROOT / "aktor").rglob("*.py")) for name in _tables(path)]


def _tables(path: Path) -> Iterator[str]:
    source = path.read_text()
    if not re.search(r"\.[A-Z_]+:\s+\{", source):
        return  # without a row of a table: most files need not be parsed
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign | ast.AnnAssign) and _is_table(node.value):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            yield f"{_module(path)}.{ast.unparse(target)}"


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def _is_table(node: ast.expr | None) -> bool:
    """Whether members of one enum are mapped to rows that lead to members of the same enum."""
    if not isinstance(node, ast.Dict):
        return False
    rows = [row for row in node.values if isinstance(row, ast.Dict)]
    states = {_enum_of(key) for key in node.keys}
    return len(states) == 1 and states <= {_enum_of(to) for row in rows for to in row.values} - {""}


def _enum_of(member: ast.expr | None) -> str:
    return ast.unparse(member.value) if isinstance(member, ast.Attribute) else ""


def table(name: str) -> Mapping[Any, Mapping[Any, Any]]:
    """The table of this dotted name."""
    module, _, attribute = name.rpartition(".")
    states: Mapping[Any, Mapping[Any, Any]] = getattr(importlib.import_module(module), attribute)
    return states


def states_of(name: str) -> type[Enum]:
    """The enum of the states of a table."""
    return type(next(iter(table(name))))


def triggers_of(name: str) -> type[Enum] | None:
    """The enum of the triggers of a table; None if they are messages."""
    trigger = next(one for row in table(name).values() for one in row)
    return type(trigger) if isinstance(trigger, Enum) else None


@functools.cache
def docstrings(kind: type[Enum]) -> Mapping[str, tuple[str, ...]]:
    """The docstrings of an enum's members, by name, each paragraph on one line."""
    (one,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(one, ast.ClassDef)
    return {
        ast.unparse(member.targets[0]): _paragraphs(str(text.value.value))
        for member, text in zip(one.body, one.body[1:], strict=False)
        if isinstance(member, ast.Assign)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }


def _paragraphs(docstring: str) -> tuple[str, ...]:
    return tuple(" ".join(one.split()) for one in docstring.split("\n\n"))


def _table_of(first: str, second: str, members: Mapping[str, Enum]) -> Iterator[str]:
    """What these members of an enum mean, by what the diagram calls them: a table of the first
    paragraphs of their docstrings, and below it what else the docstrings say."""
    said = {name: docstrings(type(one))[one.name] for name, one in members.items()}
    rows = [f"| {name} | {meaning} |" for name, (meaning, *_) in said.items()]
    yield "\n".join([f"| {first} | {second} |", "|---|---|", *rows])
    more = [f"- {name}: {' '.join(rest)}" for name, (_, *rest) in said.items() if rest]
    if more:
        yield "\n".join(more)


def drawing(name: str) -> str:
    """The diagram of a table, as it stands on the page."""
    return f"```mermaid\n{mermaid(table(name))}\n```"


def _section(name: str, title: str) -> Iterator[str]:
    module, _, attribute = name.rpartition(".")
    states, triggers = states_of(name), triggers_of(name)
    path = module.replace(".", "/") + ".py"
    yield f"### {title}"
    yield f"`{attribute}` in `{path}`. {_first(importlib.import_module(module))}"
    yield f"`{states.__name__}`: {_first(states)}"
    yield drawing(name)
    yield from _table_of("state", "what it means", {one.name: one for one in states})
    if triggers is None:
        yield "The triggers are messages, see [protocol.md](protocol.md)."
    elif docstrings(triggers):
        yield from _table_of("trigger", "what has happened", {one.value: one for one in triggers})


def _first(one: object) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(one) or "").partition("\n\n")[0].split())


def document() -> str:
    """The whole page."""
    parts = list(HEAD)
    for part, machines in NAMES.items():
        parts.append(f"## {part}")
        for name, title in machines.items():
            parts += _section(name, title)
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
