"""`python -m tests.protocol_table`: write docs/protocol.md anew, from the routes and the code.

The receivers of a message are in `aktor/events/routes.py`. Its sender is read from the code: the
actor that makes one in a module of its own, and is not among the receivers.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

from aktor.actors.runtime.manager import RequestManager
from aktor.events.message import Message
from aktor.events.routes import BY_NAME, KEPT, ROUTES
from aktor.simulation.world.crashes import in_start_order
from tests import sources

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "protocol.md"

CONVERSATIONS = (
    *("lifecycle", "network", "sockets", "answers", "polling", "metadata"),
    *("coordinator", "membership", "commits", "positions", "fetching"),
)

HEAD = (
    "# The conversations",
    "Every message between the actors, and from the sockets to the network actor, by conversation,"
    " with who says it and who hears it. Messages are frozen values (`aktor/values.py`) in"
    " `aktor/events/`; their fields are documented there. This page is made from the code"
    " (`python -m tests.protocol_table`), and a test compares the two: the receivers of a message"
    " are in `aktor/events/routes.py`; its sender is the actor whose code makes it.",
    "Each conversation is drawn. Where its messages are steps, or questions and answers, they stand"
    " from the top down in the order in which the module declares them: an answer is below its"
    " question, but not every message is said each time. Where they have no order, one arrow has"
    " all that an actor says to another.",
)

#: The conversations of steps, or of questions and answers: their modules declare them in order.
IN_ORDER = frozenset({"lifecycle", "membership", "commits", "positions"})

#: The actors that the supervisor looks after, with the membership manager that has both protocols.
SUPERVISED = in_start_order("auto")

#: The modules in which an actor begins; it goes on in the modules of its package that they import.
BEGINS = {
    "dispatcher": ["aktor.actors.runtime.dispatcher"],
    "supervisor": ["aktor.actors.runtime.supervisor"],
    "sockets": ["aktor.actors.sockets.kafka_net"],
    **{kind.name: [kind.__module__] for kind in SUPERVISED},
    "application": ["aktor.consumer.facade"],
}

#: What an actor imports without being it.
OTHERS = {
    "aktor.actors.runtime.dispatcher",
    "aktor.actors.runtime.supervision",
    "aktor.actors.runtime.manager",
    "aktor.consumer.kind",
    "aktor.consumer.system",
}

MANAGERS = tuple(kind.name for kind in SUPERVISED if issubclass(kind, RequestManager))

#: Who hears a message that is declared for listeners to come: its route names no receiver.
NOBODY = "nobody yet"

#: To whom a message goes that is told by name, see `BY_NAME`.
NAMED = {
    "Tick": "the actor that is asked",
    "ActorsRestarted": "the actors that ask one of them, application",
    "ResponseReceived": "the manager that sent the request",
    "RequestFailed": "the manager that sent the request",
}


def tree_of(module: str) -> ast.Module:
    """The code of a module, by its dotted name."""
    path = ROOT.joinpath(*module.split("."))
    stub = path.with_suffix(".pyi")  # of a module that is compiled: those speak with nobody
    return sources.tree_of(stub if stub.exists() else path.with_suffix(".py"))


#: What is in another package, and still a part of each actor that imports it: what this reads of
#: the settings, the actor reads.
PARTS_OF_ALL = ("aktor.actors.runtime.exchange",)


def _imports(module: str) -> Iterator[str]:
    """The modules of the same package (`aktor.managers`, with all its rooms) that it imports, and
    the parts of it that are elsewhere."""
    package = ".".join(module.split(".")[:2])
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.ImportFrom) and (
            f"{node.module}.".startswith(f"{package}.") or node.module in PARTS_OF_ALL
        ):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = [one for one in names if _is_module(one)]
            yield from modules or [str(node.module)]


def _is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return any(path.with_suffix(suffix).exists() for suffix in (".py", ".pyi"))


def modules_of(actor: str) -> set[str]:
    """The modules that are this actor's: where it begins, and what that imports of its package."""
    return modules_from(BEGINS[actor])


def modules_from(begin: Iterable[str]) -> set[str]:
    """These modules, and what they import of their package."""
    found: set[str] = set()
    left = list(begin)
    while left:
        module = left.pop()
        if module not in found:
            found.add(module)
            left += [one for one in _imports(module) if one not in OTHERS]
    return found


def made_in(module: str) -> set[str]:
    """The names that are called in a module: those of classes are what it makes."""
    calls = (node.func for node in ast.walk(tree_of(module)) if isinstance(node, ast.Call))
    return {name.id for name in calls if isinstance(name, ast.Name)}


@functools.cache
def _made_by() -> Mapping[str, set[str]]:
    made = {actor: set[str]().union(*map(made_in, modules_of(actor))) for actor in BEGINS}
    for actor in MANAGERS:
        made[actor] |= made_in("aktor.actors.runtime.manager")
    return made


def senders(kind: type[Message]) -> list[str]:
    """The actors that say messages of this type, by name."""
    hears = ROUTES.get(kind, ())
    found = [a for a, made in _made_by().items() if kind.__name__ in made and a not in hears]
    return (
        ["every manager", *(a for a in found if a not in MANAGERS)]
        if set(MANAGERS) <= {*found}
        else found
    )


def receivers(kind: type[Message]) -> list[str]:
    """The actors that hear messages of this type."""
    if kind in BY_NAME:
        return [NAMED[kind.__name__]]
    return [name for name in ROUTES[kind] if name != KEPT] or [NOBODY]


def heading(kind: type[Message]) -> str:
    """How the docstring of a message begins: who says it, and who hears it."""
    return f"{', '.join(senders(kind))} ▶ {', '.join(receivers(kind))}:"


def kinds(module: ModuleType) -> list[type[Message]]:
    """The messages of a conversation, in the order in which they are written."""
    return [
        one
        for one in vars(module).values()
        if inspect.isclass(one) and issubclass(one, Message) and one.__module__ == module.__name__
    ]


def arrows(said: Iterable[type[Message]]) -> Iterator[tuple[str, str, str]]:
    """Who says which of these messages to whom: sender, message, receiver."""
    for kind in said:
        for sender in senders(kind) if NOBODY not in receivers(kind) else ():
            for receiver in ", ".join(receivers(kind)).split(", "):
                yield sender, kind.__name__, receiver


def drawing(said: Iterable[type[Message]], *, in_order: bool) -> str:
    """The messages as a Mermaid drawing, with the actors in the same order everywhere."""
    told = list(arrows(said))
    speaking = {actor for sender, _, receiver in told for actor in (sender, receiver)}
    known = [*BEGINS, "every manager", *", ".join(NAMED.values()).split(", ")]
    assert speaking <= {*known}, f"no place in the drawings for {speaking - {*known}}"
    actors = [actor for actor in dict.fromkeys(known) if actor in speaking]
    first, *lines = (_sequence if in_order else _flowchart)(actors, told)
    return "\n".join(["```mermaid", first, *(f"    {line}" for line in lines), "```"])


def _sequence(actors: Iterable[str], told: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    yield "sequenceDiagram"
    for actor in actors:
        yield f"participant {_id(actor)} as {actor}" if " " in actor else f"participant {actor}"
    for sender, message, receiver in told:
        yield f"{_id(sender)}->>{_id(receiver)}: {message}"


def _flowchart(actors: Iterable[str], told: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    yield "flowchart LR"
    for actor in actors:
        yield f"{_id(actor)}[{actor}]"
    messages: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for sender, message, receiver in told:
        messages[sender, receiver].append(message)
    for (sender, receiver), names in messages.items():
        yield f'{_id(sender)} -->|"{"<br>".join(names)}"| {_id(receiver)}'


def _id(actor: str) -> str:
    return actor.replace(" ", "_")


def _row(kind: type[Message]) -> str:
    text = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    what = text.removeprefix(heading(kind)).strip().replace("|", "\\|")
    columns = (f"`{kind.__name__}`", ", ".join(senders(kind)), ", ".join(receivers(kind)), what)
    return f"| {' | '.join(columns)} |"


def document() -> str:
    """The whole page."""
    parts = list(HEAD)
    for name in CONVERSATIONS:
        module = importlib.import_module(f"aktor.events.{name}")
        first, *more = inspect.cleandoc(module.__doc__ or "").split("\n\n")
        rows = "\n".join(map(_row, kinds(module)))
        parts += [f"## {name.capitalize()}", re.sub(r"\s+", " ", first)]
        parts += [re.sub(r"\s+", " ", one) for one in more]
        parts += [drawing(kinds(module), in_order=name in IN_ORDER)]
        parts += [f"| message | said by | heard by | what |\n|---|---|---|---|\n{rows}"]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
