"""The sources keep their own rules: import direction, purity, links, routes, documents."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import os
import pkgutil
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest

from aktor.actors.runtime.dispatcher import Dispatcher
from aktor.actors.runtime.handlers import failure_handlers, response_handlers
from aktor.actors.runtime.manager import RequestManager
from aktor.actors.runtime.supervisor import Supervisor
from aktor.events.lifecycle import ActorsRestarted, Tick
from aktor.events.message import Message
from aktor.events.metadata import TopicsNamed
from aktor.events.network import RequestFailed, ResponseReceived
from aktor.events.routes import APPLICATION, BY_NAME, FACTS, KEPT, MEMBERSHIP, ROUTES
from aktor.settings import Settings
from aktor.trace import silent
from aktor.values import Value
from tests import api_table, error_stub, metrics_table, protocol_table, settings_table, state_tables
from tests.sources import forget, nodes_of

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "aktor"

#: Who may import whom inside aktor; those of `FOR_ALL` may be imported by all, and
#: import at most one another.
ALLOWED: dict[str, set[str]] = {
    "address": set(),
    "errors": set(),
    # kafka-python's own, under the names that its imports have after `kafka` was replaced.
    "admin": set(),
    "cluster": set(),
    "codec": set(),
    "coordinator": {"coordinator"},
    "future": set(),
    "metrics": set(),
    "net": {"net"},
    "partitioner": set(),
    "producer": set(),
    "serializer": {"serializer"},
    "deserializers": {"deserializers"},
    "structs": set(),
    "kafka_errors": set(),
    "kafka_python": set(),
    "sensor": set(),
    "settings": set(),
    "state_table": set(),
    "compiled": set(),
    "values": set(),
    "version": set(),
    "events": {"events"},
    "records": {"records"},
    "protocol": {"protocol"},
    "trace": {"trace"},
    "actors": {"events", "actors", "protocol"},
    # What puts the consumer into kafka-python.
    "installation": {"consumer"},
    "managers": {"events", "actors", "managers", "protocol", "records"},
    "consumer": {
        *{"events", "actors", "managers", "consumer", "records", "protocol", "processing"}
    },
    "aio": {"aio", "actors", "consumer", "events", "processing", "records"},
    "processing": {"actors", "consumer", "processing"},
    "broker": {"broker", "records", "protocol"},
    "simulation": {"simulation", "broker", "consumer", "managers", "actors", "events"}
    | {"aio", "records", "processing"},
    "testing": {"testing", "simulation", "broker"},
    # A program of its own, which uses aktor as its users do.
    "demo": {"demo", "broker"},
    "cli": {"cli", "simulation", "broker", "demo"},
    "spark": {"spark", "spark_python", "consumer", "net"},
    "spark_python": set(),
}
FOR_ALL = {
    "address",
    "compiled",
    "errors",
    "future",
    "kafka_errors",
    "kafka_python",
    "sensor",
    "settings",
    "state_table",
    "structs",
    "trace",
    "values",
    "version",
}

#: The broker's modules and packages from the lowest layer to the highest. One may import those of
#: its own layer and of lower ones.
BROKER_LAYERS = (
    # Requests, error codes, limits.
    {"call", "codes", "limits"},
    # Formats, and state machines that know nothing of a cluster.
    {"connection", "faults", "fetch_sessions", "groups", "journal", "log", "sasl", "stream"}
    | {"timers", "topic_configs", "transactions", "wire"},
    {"settings"},
    # Nodes, topics, replicas, leaders, endpoints.
    {"partition", "topics", "topology"},
    # Handlers of requests, and what they ask of those above them.
    {"access", "config_admin", "fetching", "list_offsets", "metadata", "produce", "replica_admin"}
    | {"topic_admin", "broker_configs", "ports"},
    # All of it composed.
    {"apis", "cluster"},
    # The thread and the sockets around a cluster; what it looks like.
    {"server", "status"},
    # What a user holds.
    {"embedded"},
    {"commands", "control", "sample_records"},
)

#: What a pure handler has no business with.
IMPURE = {"time", "random", "threading", "socket", "logging", "asyncio", "selectors"}


@pytest.fixture(scope="module", autouse=True)
def _trees() -> Iterator[None]:
    yield
    forget()


def modules(package: str = "") -> Iterator[Path]:
    """The modules of a package, or the one module of that name."""
    if (alone := PACKAGE / f"{package}.py").exists():
        return iter([alone])
    return (PACKAGE / package).rglob("*.py")


@cache
def imports(path: Path) -> Sequence[str]:
    """What it imports: modules, and names of modules as if they were modules, too."""
    found = []
    # Of the tests this is the only look at each.
    nodes = (
        nodes_of(path) if path.is_relative_to(PACKAGE) else ast.walk(ast.parse(path.read_text()))
    )
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return found


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_imports_go_one_way(package: str) -> None:
    for path in modules(package):
        for name in imports(path):
            parts = name.split(".")
            if parts[0] == "aktor" and len(parts) > 1 and parts[1] in ALLOWED:
                assert parts[1] in ALLOWED[package] | FOR_ALL, f"{path} imports {name}"


def test_every_part_of_aktor_says_whom_it_may_import() -> None:
    parts = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert parts - {"__init__", "__pycache__"} == set(ALLOWED)


@cache
def import_graph() -> dict[str, set[str]]:
    """Which module of aktor imports which, those that are imported for annotations included."""
    paths = {dotted(path): path for path in modules()}
    return {name: set(imported(path, paths)) - {name} for name, path in paths.items()}


def imported(path: Path, known: Collection[str]) -> Iterator[str]:
    """The modules among the known ones. Who imports a module of a package does not import the
    package's own names."""
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found = [one if local(one) in known else node.module for one in names]
        else:
            continue
        yield from {local(one) for one in found} & set(known)


def local(name: str) -> str:
    """Without the name of aktor itself."""
    return name.removeprefix("aktor").removeprefix(".")


def dotted(path: Path) -> str:
    """A module's name without that of aktor."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def reachable(name: str) -> set[str]:
    """All that a module imports, and what that imports."""
    found: set[str] = set()
    left = [name]
    while left:
        news = import_graph()[left.pop()] - found
        found |= news
        left += news
    return found


def test_modules_import_each_other_in_no_circle() -> None:
    reached = {name: reachable(name) for name in import_graph()}
    circles = {
        frozenset(one for one in reached[name] if name in reached[one])
        for name in reached
        if name in reached[name]
    }
    assert circles == set()


def test_every_module_of_the_broker_has_one_layer() -> None:
    declared = [name for layer in BROKER_LAYERS for name in layer]
    assert sorted(declared) == sorted(
        path.stem
        for path in (PACKAGE / "broker").iterdir()
        if path.stem not in {"__init__", "__pycache__"}
    )


def test_the_layers_of_the_broker_stand_in_the_document() -> None:
    text = (ROOT / "docs" / "embedded.md").read_text()
    _, _, table = text.partition("| layer | modules |\n|---|---|\n")
    rows = table.partition("\n\n")[0].splitlines()
    layers = [{name.removesuffix("/*") for name in re.findall("`(.+?)`", row)} for row in rows]
    assert tuple(reversed(layers)) == BROKER_LAYERS


@pytest.mark.parametrize(
    "package",
    [
        *("actors", "aio", "consumer", "managers", "processing", "protocol", "records"),
        *("simulation", "spark", "trace"),
    ],
)
def test_every_module_of_the_core_stands_in_the_tree_of_the_document(package: str) -> None:
    (drawn,) = re.findall(rf"^{package}/ .*\n(?: .*\n)*", drawn_tree(), re.MULTILINE)
    known = import_graph()

    missing = {name for name in known if name.startswith(f"{package}.")} - {
        name for name in known if set(name.split(".")) <= set(re.findall(r"\w+", drawn))
    }

    assert {name for name in missing if not name.startswith("simulation.checks.")} == set()


def test_every_package_and_every_module_beside_them_stands_in_the_tree_of_the_document() -> None:
    """(The modules of the broker stand in embedded.md, by their layers.)"""
    heads = re.findall(r"^(\w.*?)(?:  |$)(.*)", drawn_tree(), re.MULTILINE)
    drawn = {name for words in heads for name in re.findall(r"\w+", " ".join(words))}

    there = {path.stem for path in PACKAGE.iterdir() if path.suffix in {".py", ""}}

    assert there - {"__init__", "__pycache__"} - drawn == set()


def drawn_tree() -> str:
    text = (ROOT / "docs" / "architecture.md").read_text()
    (tree,) = re.findall(r"```\n(events/ .*?)```", text, re.DOTALL)
    return str(tree)


def test_the_broker_imports_from_its_layers_downwards() -> None:
    height = {name: at for at, layer in enumerate(BROKER_LAYERS) for name in layer}
    for importer, imported in import_graph().items():
        if importer.startswith("broker."):
            for name in imported:
                if name.startswith("broker."):
                    below, above = name.split(".")[1], importer.split(".")[1]
                    assert height[below] <= height[above], f"{importer} imports {name}"


#: Attributes of others' objects that are replaced by a function all the same, and why.
PATCHED = {
    # A listener must not start threads in a simulation, and `threading` has no hook for that.
    ("simulation/world/blocking.py", "threading.Thread.start"),
    # Python's own place for the function that traces a frame.
    ("simulation/world/lines.py", "frame.f_trace"),
    # kafka-python makes its ClusterMetadata itself, and asks a set for the order of partitions.
    ("simulation/world/producers.py", "cluster.partitions_for_broker"),
    # What virtual time is made of: kafka-python's producer asks the simulation while one lives.
    ("simulation/world/virtual.py", "owner.<name>"),
    # As monitoring agents do with kafka-python's class, which this module follows.
    ("consumer/agents.py", "self._ours.<name>"),
    # A decorator notes on a function what was declared above it.
    ("actors/runtime/handlers.py", "handler.<name>"),
    # Fields of an answer, by their names in the protocol. They are no functions.
    ("broker/faults.py", "found.<name>"),
    # PySpark's daemon prints a traceback for each worker that Spark ends, and has no hook for that.
    ("spark/daemon.py", "daemon.worker"),
    # PySpark's processes connect by this function, and cannot be given a connection.
    ("spark_python.py", "util.local_connect_and_auth"),
}


def test_nobody_replaces_a_method_of_another_object() -> None:
    """A method that is replaced from outside does not do what its class says. What may be replaced
    is declared as an attribute."""
    found = {
        (str(path.relative_to(PACKAGE)), target) for path in modules() for target in patched(path)
    }
    assert found == PATCHED


def patched(path: Path) -> Iterator[str]:
    """What this module assigns to a method's name, or a function to a name that no class of aktor
    declares, or a function to a class or module that it has imported."""
    methods, declared = attributes()
    functions = {node.name for node in nodes_of(path) if isinstance(node, ast.FunctionDef)}
    imported_names = {
        (alias.asname or alias.name).split(".")[0]
        for node in nodes_of(path)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    of_objects = functions | methods - declared
    for owner, name, value in assigned(nodes_of(path)):
        is_function = isinstance(value, ast.Lambda) or (
            (isinstance(value, ast.Name) and value.id in functions)
            or (isinstance(value, ast.Attribute) and value.attr in of_objects)
        )
        if owner.split(".")[0] in imported_names:
            is_patch = is_function
        else:
            is_patch = name not in declared and (is_function or name in methods or name == "<name>")
        if is_patch:
            yield f"{owner}.{name}"


def is_named(function: ast.expr, name: str) -> bool:
    """Whether a function or a method of that name is called."""
    return isinstance(function, ast.Name | ast.Attribute) and name == (
        function.id if isinstance(function, ast.Name) else function.attr
    )


def assigned(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str, ast.expr | None]]:
    """Attributes of other objects that are set: whose, its name, and to what."""
    for node in nodes:
        if isinstance(node, ast.Call) and is_named(node.func, "setattr"):
            owner, name, value = node.args
            known = name.value if isinstance(name, ast.Constant) else "<name>"
            yield ast.unparse(owner), str(known), value
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Attribute) and not is_self(target.value):
                yield ast.unparse(target.value), target.attr, getattr(node, "value", None)


#: Attributes of other objects that are set in the application's half all the same, and why.
SET_BY_OTHERS = {
    # From letting go of a consumer to the return of its method there must be no call, for Python
    # may run a signal handler in it.
    ("consumer/core/guarded.py", "guard.begun"),
    ("consumer/core/guarded.py", "guard.holder"),
    # An attribute of Python's `weakref.finalize`.
    ("consumer/facade.py", "dropped.atexit"),
}


def test_the_applications_half_sets_no_attribute_of_another_object() -> None:
    """Who changes an object calls a method of it, which says what has happened. Else nobody can
    tell from a class what becomes of its objects, nor which thread writes them."""
    found = {
        (str(path.relative_to(PACKAGE)), target)
        for path in modules("consumer")
        for target in foreign(path)
    }
    assert found == SET_BY_OTHERS


def test_positions_move_past_records_in_one_place() -> None:
    """Whatever must be known of each record that leaves (offsets, epochs, acknowledgements) is
    known there."""
    found = {
        (str(path.relative_to(PACKAGE)), function.name)
        for path in modules("consumer")
        for function in nodes_of(path)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and is_named(node.func, "advance")
    }
    assert found == {("consumer/core/delivery.py", "_move")}


#: Attributes of objects of other libraries that are set or changed: their classes have no method
#: for it.
SET_OF_LIBRARIES = {
    # kafka-python sets the version of a body that it encodes. Its setter refuses None, which says
    # that the body has none.
    ("actors/sockets/in_flight.py", "body._version"),
    # A list of kafka-python's, in what this function has just made.
    ("managers/fetch/request.py", "topics[-1].partitions"),
    # Python's `ssl.SSLContext` is configured so.
    ("actors/sockets/dial.py", "context.check_hostname"),
    ("actors/sockets/dial.py", "context.minimum_version"),
    ("actors/sockets/dial.py", "context.verify_flags"),
}


def test_no_actor_sets_an_attribute_of_another_object() -> None:
    """Who changes a part calls a method of it."""
    paths = [path for package in ("actors", "managers") for path in modules(package)]
    found = {(str(path.relative_to(PACKAGE)), to) for path in paths for to in foreign(path)}
    assert found == SET_OF_LIBRARIES


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("self._port.chunks.clear()", ["self._port.chunks"]),
        ("chunks = self._port.chunks\n chunks.clear()", ["self._port.chunks"]),
        ("one, chunks = 1, self._port.chunks\n del chunks[0]", ["self._port.chunks"]),
        ("while chunks := port.chunks: chunks[0] = 1", ["port.chunks"]),
        ("chunks = self.chunks\n chunks.clear()", []),
        ("port = Port()\n chunks = port.chunks\n chunks.clear()", []),
    ],
)
def test_a_change_of_another_object_is_found(body: str, found: list[str], tmp_path: Path) -> None:
    source = tmp_path / "source.py"
    source.write_text(f"def method(self, port):\n {body}\n")
    assert list(foreign(source)) == found


#: The methods that change a list, a deque, a dictionary or a set.
CHANGES = {"append", "appendleft", "extend", "insert", "remove", "pop", "popleft", "clear"} | {
    *("add", "discard", "update", "setdefault", "popitem", "sort"),
}


def foreign(path: Path) -> Iterator[str]:
    """Attributes that are set of what is neither `self` nor was just made by the function, and
    containers in such attributes that are changed, also by a local name for them. Python's own
    attributes (`__cause__` of an error) are not counted."""
    for function in nodes_of(path):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            own = {"self", "cls", *just_made(function)}
            for changed in changed_in(function):
                if isinstance(changed, ast.Attribute) and ast.unparse(changed.value) not in own:
                    yield from {ast.unparse(changed)} if not changed.attr.startswith("__") else ()


def changed_in(function: ast.AST) -> Iterator[ast.expr]:
    """What this function sets, and the containers that it changes. In place of a local name: all
    that the name may stand for."""
    meant = aliases(function)
    for node in ast.walk(function):
        changed = changed_by(node)
        if isinstance(changed, ast.Name):
            yield from meant.get(changed.id, ())
        elif changed is not None:
            yield changed


def aliases(function: ast.AST) -> Mapping[str, list[ast.expr]]:
    """What each local name of this function may stand for: all that is assigned to it."""
    found: defaultdict[str, list[ast.expr]] = defaultdict(list)
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for name, value in pairs(target, node.value):
                    found[name].append(value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            for name, value in pairs(node.target, node.value):
                found[name].append(value)
    return found


def pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The names that are assigned, and to what; `a, b = c, d` assigns two."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, its_value in zip(target.elts, value.elts, strict=False):
            yield from pairs(one, its_value)


def changed_by(node: ast.AST) -> ast.expr | None:
    """What this sets, or the container that it changes."""
    if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return node if isinstance(node, ast.Attribute) else node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.value if node.func.attr in CHANGES else None
    return None


def just_made(function: ast.AST) -> Iterator[str]:
    """Local names for what a class, or `copy`, has made in this function."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            maker = ast.unparse(node.value.func)
            if re.fullmatch(r"_?[A-Z]\w*|copy\.copy|.*\.__new__", maker):
                yield from (one.id for one in node.targets if isinstance(one, ast.Name))


@cache
def attributes() -> tuple[set[str], set[str]]:
    """Names of methods in aktor, and names that some class declares as an attribute: in its body,
    as a property, or by setting it on itself."""
    methods: set[str] = set()
    declared: set[str] = set()
    for path in modules():
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                for one in node.body:
                    if isinstance(one, ast.FunctionDef):
                        is_property = "property" in map(ast.unparse, one.decorator_list)
                        (declared if is_property else methods).add(one.name)
                    elif isinstance(one, ast.AnnAssign):
                        declared.add(ast.unparse(one.target))
                    elif isinstance(one, ast.Assign):
                        declared.update(map(ast.unparse, one.targets))
            elif is_set_on_self(node):
                declared.add(node.attr)
    return methods, declared


def is_set_on_self(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return (
        isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_self(node.value)
    )


def is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


#: The rooms of a package, and which other rooms each may import. A room is a folder, or a module
#: that stands alone; a folder in a folder may import the one around it. Where a package is not
#: named here, its modules have rules of their own (the layers of the broker), or none.
ROOMS: dict[str, dict[str, set[str]]] = {
    "actors": {
        "runtime": set(),
        "sockets": {"runtime"},
        "network": {"runtime", "sockets"},
    },
    "managers": {
        **{name: set() for name in ("coordinator", "metadata", "fetch", "commits", "positions")},
        "membership": {"membership.classic", "membership.consumer"},
        "membership.classic": {"membership"},
        "membership.consumer": {"membership"},
    },
    "consumer": {
        **{name: set() for name in ("configuration", "core", "columns", "deserializers")},
        "agents": set(),
        "inside": set(),
        "habits": {"configuration"},
        "loaded": set(),
        "rebalance_history": {"loaded"},
        "present": {"core", "present.reasons"},
        "present.reasons": {"core", "present"},
        "status": {"present", "present.reasons"},
        # Where programs import from, as from kafka-python's modules of these names.
        "fetcher": set(),
        "group": {"facade"},
        "subscription_state": set(),
        "arguments": {"configuration", "core"},
        "internals": {"configuration", "core", "habits"},
        "metrics": {"core"},
        "system": {"core", "metrics"},
        "kind": {"core", "metrics", "system"},
        "assembly": {"core", "deserializers", "system"},
        "measured": {"assembly", "metrics", "rebalance_history"},
        "shown": {"core", "inside", "loaded", "measured", "present", "present.reasons"}
        | {"status", "system"},
        "facade": {"agents", "arguments", "assembly", "columns", "configuration", "core"}
        | {"deserializers", "habits", "internals", "kind", "shown"}
        | {"subscription_state", "system"},
    },
    "simulation": {
        **{name: set() for name in ("errors", "history", "revision")},
        "world": {"errors", "history"},
        "programs": {"world"},
        "faults": {"errors", "programs", "world"},
        "checks": {"history"},
        "progress": {"world"},
        "story": {"history", "world"},
        "sink": {"story", "world"},
        "shrink": {"errors", "faults", "history"},
        "simulation": {"checks", "errors", "faults", "history", "programs", "progress", "revision"}
        | {"shrink", "sink", "world"},
        "selftest": {"errors", "faults", "programs", "simulation", "world"},
    },
    "spark": {
        **{name: set() for name in ("bytecode", "log", "offsets", "rebalances")},
        "options": {"offsets"},
        "filters": {"offsets"},
        "decode": {"options"},
        "decode.avro": {"decode", "options"},
        "decode.protobuf": {"decode", "options"},
        "tasks": {"decode", "decode.avro", "decode.protobuf", "filters", "offsets", "options"},
        "driver": {"offsets", "options", "tasks"},
        "sink": {"options", "tasks"},
        "source": {"driver", "filters", "log", "offsets", "options", "sink", "tasks"},
        "planners": {"driver", "source"},
        # What Spark starts, and what has imported what the others need.
        "daemon": {"driver", "planners", "tasks"},
    },
    "broker.groups": {
        "settings": set(),
        "topics_view": set(),
        "classic": {"settings"},
        # A group of KIP-848 may have members of the classic protocol.
        "consumer": {"classic", "settings", "topics_view"},
        "migration": {"classic", "consumer", "settings", "topics_view"},
        "directory": {"classic", "consumer", "migration", "settings", "topics_view"},
        "offsets": {"classic", "consumer", "directory", "settings", "topics_view"},
        "listing": {"classic", "directory", "offsets"},
        "coordinator": {"classic", "consumer", "directory", "listing", "offsets", "settings"}
        | {"topics_view"},
    },
}


@pytest.mark.parametrize("package", ROOMS)
def test_a_room_imports_the_rooms_that_it_may_import_and_no_others(package: str) -> None:
    """An arrow that is in the list and not in the code is to be taken out of the list."""
    found: dict[str, set[str]] = {
        room_of(name, package): set() for name in import_graph() if name.startswith(f"{package}.")
    }
    for importer, imported in import_graph().items():
        if importer.startswith(f"{package}."):
            others = {room_of(name, package) for name in imported if name.startswith(f"{package}.")}
            room = room_of(importer, package)
            found[room] |= others - {room}
    assert found == ROOMS[package]


def room_of(name: str, package: str) -> str:
    """The room of a module, without its package: the folder, or the module that stands alone."""
    path = PACKAGE.joinpath(*name.split("."))
    inside = name.removeprefix(f"{package}.").split(".")
    return ".".join(inside if path.is_dir() or len(inside) == 1 else inside[:-1])


def test_no_method_is_assigned_to_against_the_types() -> None:
    """Where types are known mypy finds each replaced method: it may not be told to look away."""
    looks_away = [path.name for path in modules() if "method-assign" in path.read_text()]
    assert looks_away == ["blocking.py"]


@pytest.mark.parametrize("package", ["managers", "events"])
def test_managers_and_events_have_no_clock_socket_thread_or_randomness(package: str) -> None:
    for path in modules(package):
        found = {name.split(".")[0] for name in imports(path)} & IMPURE
        assert not found, f"{path} imports {found}"


def test_only_the_adapters_import_kafka_net() -> None:
    """`producers.py` is that of kafka-python's producer in simulations, `oauth.py` a mirror, and
    `client_credentials.py` has a class for whoever wants one of kafka-python's base class."""
    adapters = {"kafka_net.py", "sasl.py", "producers.py", "oauth.py", "client_credentials.py"}
    for path in modules():
        if any(name.startswith("kafka.net") for name in imports(path)):
            assert path.name in adapters, f"{path} imports kafka.net"


def test_no_module_of_tests_imports_a_test_module() -> None:
    """What several test modules need is in a builders module beside them: who changes a test
    module then changes no other one's tests."""
    found = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in (ROOT / "tests").rglob("*.py")
        if re.search(
            r"import [^\n]*\btest_|import \([^)]*\btest_|from [^\n]*\.test_", path.read_text()
        )
        for name in imports(path)
        if re.match(r"tests\.(.+\.)?test_\w+$", name)
    }
    assert found == set()


def test_nobody_imports_the_links_at_the_root() -> None:
    at_the_root = r"(?m)^\s*(from |import (.*[, ])?)(events|actors|managers)\b"
    for folder in ("aktor", "tests", "examples", "benchmarks"):
        for path in (ROOT / folder).rglob("*.py"):
            # To parse all tests takes eight seconds.
            for name in imports(path) if re.search(at_the_root, path.read_text()) else ():
                assert name.split(".")[0] not in {"events", "actors", "managers"}, path


@pytest.mark.parametrize("name", ["actors", "events", "managers"])
def test_the_link_at_the_root_leads_into_the_package(name: str) -> None:
    link = ROOT / name
    assert link.is_symlink()
    assert link.resolve() == (PACKAGE / name).resolve()


def event_types() -> list[type]:
    import aktor.events

    found = []
    for info in pkgutil.iter_modules(aktor.events.__path__, "aktor.events."):
        module = importlib.import_module(info.name)
        for _, kind in inspect.getmembers(module, inspect.isclass):
            if kind.__module__ == info.name and issubclass(kind, Value) and kind is not Message:
                found.append(kind)
    return found


def said() -> list[type]:
    """Events that are messages, and not parts of them."""
    return [kind for kind in event_types() if issubclass(kind, Message)]


@pytest.mark.parametrize("kind", event_types(), ids=lambda kind: kind.__name__)
def test_an_event_is_frozen_slotted_and_documented(kind: type) -> None:
    assert "__slots__" in vars(kind)
    doc = kind.__doc__ or ""
    assert doc
    assert vars(kind)["__match_args__"] == (), "its fields are given by name"


def test_every_message_has_a_route_and_every_route_a_message() -> None:
    assert set(said()) == set(ROUTES) | BY_NAME


def test_every_message_is_declared_in_the_module_of_its_conversation() -> None:
    """A message that is declared elsewhere needs no route, and stands in no document."""
    messages = {"Message", *(kind.__name__ for kind in said())}
    for path in set(modules()) - set(modules("events")):
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                is_message = not messages.isdisjoint(map(ast.unparse, node.bases))
                assert not is_message, f"{path.name}: {node.name} belongs in events/"


def test_every_conversation_stands_in_the_protocol_document() -> None:
    spoken = {kind.__module__.rpartition(".")[2] for kind in said()}
    assert sorted(protocol_table.CONVERSATIONS) == sorted(spoken)


def senders_of_requests() -> list[type[RequestManager]]:
    """The managers, with both membership managers in place of the one that chooses."""
    from aktor.consumer.kind import kind_of

    kinds = {kind for protocol in ("classic", "consumer") for kind in kind_of(protocol).actors}
    managers = [kind for kind in kinds if issubclass(kind, RequestManager)]
    return sorted(managers, key=lambda kind: kind.__name__)


def requests_made_by(manager: type[RequestManager]) -> set[type]:
    """The protocol requests that are made in the modules of a manager."""
    found: set[type] = set()
    for name in protocol_table.modules_from([manager.__module__]):
        module = importlib.import_module(name)
        named = (getattr(module, one, None) for one in protocol_table.made_in(name))
        found.update(one for one in named if inspect.isclass(one) and hasattr(one, "API_KEY"))
    return found


#: What only a membership manager of KIP-848 asks for, and is told.
OF_848 = {TopicsNamed}


@pytest.mark.parametrize("protocol", ["classic", "consumer", "auto"])
def test_every_receiver_understands_what_it_can_be_told_and_nothing_else(protocol: str) -> None:
    """A handler of a message that nobody tells to its receiver would never be called."""
    understood, told = understood_by_each(protocol), told_to_each(protocol)
    assert understood.keys() == told.keys()
    for name, kinds in told.items():
        assert not kinds - understood[name], f"{name} is told these, and has no handler"
        assert not understood[name] - kinds, f"{name} has handlers of these, and is never told them"


def understood_by_each(protocol: str) -> Mapping[str, Set[type]]:
    """Receiver -> the messages for which it has a handler."""
    from aktor.consumer.core.port import ApplicationPort
    from aktor.consumer.kind import kind_of

    receivers = (Supervisor, *kind_of(protocol).actors)
    understood: dict[str, Set[type]] = {kind.name: kind.understands() for kind in receivers}
    understood[APPLICATION] = ApplicationPort.understands()
    understood[KEPT] = FACTS.keys()
    if protocol == "classic":
        understood[MEMBERSHIP] |= OF_848
    return understood


def told_to_each(protocol: str) -> Mapping[str, Set[type]]:
    """Receiver -> the messages that it can be told: those that are routed to it, and those that are
    told by name."""
    from aktor.consumer.kind import kind_of

    told: defaultdict[str, set[type]] = defaultdict(set)
    for kind, names in [*kind_of(protocol).routes.items(), *receivers_by_name(protocol).items()]:
        for name in names:
            told[name].add(kind)
    return told


def receivers_by_name(protocol: str) -> Mapping[type, Collection[str]]:
    """The messages of `BY_NAME`, and the receivers that can be told them."""
    from aktor.consumer.kind import kind_of
    from aktor.consumer.system import Host, composition

    settings = Settings(group_id="g", group_protocol=protocol)
    children = composition(kind_of(protocol), settings, Host(), Dispatcher(ROUTES), silent())
    managers = [kind.name for kind in kind_of(protocol).actors if issubclass(kind, RequestManager)]
    by_name: dict[type, Collection[str]] = {
        Tick: [child.name for child in children],
        ActorsRestarted: [APPLICATION, *(child.name for child in children if child.asks)],
        ResponseReceived: managers,
        RequestFailed: managers,
    }
    assert by_name.keys() == BY_NAME
    return by_name


@pytest.mark.parametrize("manager", senders_of_requests(), ids=lambda kind: kind.__name__)
def test_a_manager_handles_the_answer_and_the_failure_of_every_request_that_it_sends(
    manager: type[RequestManager],
) -> None:
    answers, failures = response_handlers(manager), failure_handlers(manager)
    assert answers.keys() == failures.keys()
    assert {request for request, _ in answers} == requests_made_by(manager)
    for request in requests_made_by(manager):
        notes = [note for one, note in answers if one is request]
        assert None not in notes or notes == [None], f"two handlers of {request.__name__}"


@pytest.mark.parametrize("kind", said(), ids=lambda kind: kind.__name__)
def test_somebody_says_a_message_and_its_docstring_begins_with_who_says_it_to_whom(
    kind: type[Message],
) -> None:
    assert protocol_table.senders(kind)
    assert (
        inspect.cleandoc(kind.__doc__ or "")
        .replace("\n", " ")
        .startswith(protocol_table.heading(kind))
    )


def test_the_protocol_document_has_every_message_with_who_says_and_who_hears_it() -> None:
    assert protocol_table.DOCUMENT.read_text() == protocol_table.document(), (
        "python -m tests.protocol_table writes it anew"
    )


@pytest.mark.parametrize("actor", settings_table.given_to())
def test_an_actor_declares_the_settings_that_it_reads_and_no_others(actor: str) -> None:
    kind = settings_table.given_to()[actor]
    assert tuple(sorted(kind.READS)) == settings_table.read_by(kind)


def test_the_document_of_the_settings_is_made_from_their_table() -> None:
    """A setting that has another reader is seen here, and has to be meant."""
    assert settings_table.DOCUMENT.read_text() == settings_table.document(), (
        "python -m tests.settings_table writes it anew"
    )


def test_the_types_of_the_settings_are_made_from_their_table() -> None:
    assert settings_table.KEYWORDS.read_text() == settings_table.keywords(), (
        "python -m tests.settings_table writes them anew"
    )


def test_every_state_machine_has_a_name_and_every_name_is_of_one() -> None:
    named = {name for names in state_tables.NAMES.values() for name in names}
    assert set(state_tables.found()) == named, "name it in `NAMES`"


def test_an_enum_of_states_has_a_table_or_a_reason_for_none() -> None:
    found = state_tables.named_like_states() - state_tables.with_table()
    assert found == set(state_tables.WITHOUT_TABLE), "the reason stands in `WITHOUT_TABLE`"


@pytest.mark.parametrize("package", ["actors", "consumer", "managers"])
def test_one_method_assigns_the_state_of_a_state_machine_and_asks_its_table(package: str) -> None:
    """But for the first state, which the constructor sets, and for kafka-python's `TaskState`."""
    for path in modules(package):
        for one in nodes_of(path):
            if isinstance(one, ast.ClassDef):
                assigned = assignments_of_state(one)
                assert all(map(follows, assigned)), f"{path.name}: {one.name}"
                assert len(assigned) <= 1, f"{path.name}: {one.name}"


def assignments_of_state(one: ast.ClassDef) -> list[ast.Assign | ast.AnnAssign | ast.AugAssign]:
    """Where an attribute with the name of a state is set, except in the constructor."""
    return [
        node
        for method in one.body
        if isinstance(method, ast.FunctionDef) and method.name != "__init__"
        for node in ast.walk(method)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if re.fullmatch(r"self\._?(state|stage|status)", ast.unparse(target))
        and "TaskState." not in ast.unparse(node)
    ]


def follows(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> bool:
    called = node.value.func if isinstance(node.value, ast.Call) else None
    return called is not None and ast.unparse(called).rpartition(".")[2] == "follow"


@pytest.mark.parametrize("name", [*itertools.chain(*state_tables.NAMES.values())])
def test_a_state_machine_is_drawn_and_its_states_and_triggers_say_what_they_mean(name: str) -> None:
    """A trigger may be a message, and its value may be a sentence."""
    table, states = state_tables.table(name), state_tables.states_of(name)
    triggers = state_tables.triggers_of(name) or ()

    assert state_tables.drawing(name) in state_tables.DOCUMENT.read_text()
    assert set(table) == set(states)
    assert {one.name for one in states} == set(state_tables.docstrings(states))
    for one in triggers:
        documented = one.name in state_tables.docstrings(type(one))
        assert documented or len(one.value.split()) > 2, one


def test_the_document_of_the_state_machines_is_made_from_their_tables() -> None:
    assert state_tables.DOCUMENT.read_text() == state_tables.document(), (
        "python -m tests.state_tables writes it anew"
    )


def test_the_stub_of_kafka_pythons_errors_is_made_from_its_classes() -> None:
    assert error_stub.STUB.read_text() == error_stub.stub(), (
        "python -m tests.error_stub writes it anew"
    )


#: The most functions that a module of tests may call when it is imported; a storm calls millions.
CALLS_MAX = 20_000


@pytest.mark.gate
def test_no_module_of_tests_computes_when_it_is_imported() -> None:
    """All processes of a run would do it, also those that were asked for one other test."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.import_work"], cwd=ROOT, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    calls = {name: int(count) for count, name in map(str.split, ran.stdout.splitlines())}

    assert "tests.test_tidy" in calls
    assert {name: count for name, count in calls.items() if count > CALLS_MAX} == {}


def test_no_drawn_example_has_to_end_by_the_clock() -> None:
    """By default Hypothesis fails a test of which one example takes 200 ms: on a busy machine any
    may."""
    hurried = [
        f"{path.relative_to(ROOT)}: {test.name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        if "@given(" in (text := path.read_text())
        for test in ast.walk(ast.parse(text))
        if isinstance(test, ast.FunctionDef)
        for how in [" ".join(map(ast.unparse, test.decorator_list))]
        if "given(" in how and "deadline=None" not in how
    ]
    assert hurried == []


#: How many words a cell of a table may have: what is longer stands below the table.
CELL_MAX = 30


@pytest.mark.parametrize(
    "page",
    [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md"))],
    ids=lambda page: page.name,
)
def test_no_cell_of_a_table_in_a_document_is_a_paragraph(page: Path) -> None:
    long = {cell for cell in cells(page.read_text()) if len(cell.split()) > CELL_MAX}
    assert long == set(), f"{page.name}: say it shorter, and the rest below the table"


#: Where a page's path to a module may begin.
BEGINS = ("", "aktor", "aktor/consumer", "aktor/managers", "aktor/actors", "aktor/simulation")


@pytest.mark.parametrize(
    "page",
    # (dependencies.md names modules of kafka-python.)
    [one for one in sorted((ROOT / "docs").glob("*.md")) if one.name != "dependencies.md"],
    ids=lambda page: page.name,
)
def test_a_module_that_a_page_names_by_its_path_is_there(page: Path) -> None:
    rooms = {folder.name for begin in BEGINS for folder in (ROOT / begin).glob("[a-z]*/")}
    named = set(paths_in(page.read_text()))
    ours = {name for name in named if name.partition("/")[0] in rooms}

    gone = {name for name in ours if not any(path_of(name, begin) for begin in BEGINS)}

    assert gone == set()


def paths_in(text: str) -> Iterator[str]:
    """The paths in a text: `a/b`, and `a/{b,c}` for two."""
    for room, names in re.findall(r"`((?:\w+/)+)([\w.*-]+|\{[\w,]+\})(?:/[\w.*-]+)*/?`", text):
        yield from (f"{room}{name}" for name in names.strip("{}").split(","))


def test_the_table_of_changes_leads_to_each_module_by_its_path() -> None:
    """A name of a module without its room may stand for several."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    _, _, rest = text.partition("## If you change X, read Y")
    rows = [row for row in rest.partition("\n## ")[0].splitlines() if row.startswith("| ")]
    of_rooms = {path.stem for path in modules() if path.parent != PACKAGE}
    at_the_root = {path.stem for path in PACKAGE.iterdir()}

    read = [name for row in rows for name in re.findall(r"`(\w+)`", [*cells(row)][-1])]

    assert {*read} & of_rooms - at_the_root == set()

    rooms = {folder.name for begin in BEGINS for folder in (ROOT / begin).glob("[a-z]*/")}
    paths = {name for row in rows for name in paths_in(row) if name.partition("/")[0] in rooms}
    assert {name for name in paths if not path_of(name, "aktor") and "tests/" not in name} == set()


def path_of(name: str, begin: str) -> list[Path]:
    """The files or folders of this name, which may lack its suffix, and may end in `*`."""
    room = ROOT / begin
    return [*room.glob(name), *room.glob(f"{name}.*")]


def test_the_page_of_changes_is_short() -> None:
    page = (ROOT / "CHANGELOG.md").read_text()
    assert len(page.split("\n## ")[1].splitlines()) <= 60, "say what a user gets, not each repair"


def test_each_difference_from_kafka_python_has_its_reason() -> None:
    page = (ROOT / "docs" / "coming-from-kafka-python.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")]

    assert len(rows) > 40
    assert [row for row in rows if row.rstrip(" |").count(" | ") != 3] == []


def cells(page: str) -> Iterator[str]:
    """The cells of all tables of a page; blocks of code have none."""
    for line in "".join(page.split("```")[::2]).splitlines():
        if line.startswith("|"):
            yield from line.strip("|").split(" | ")


def test_no_file_names_a_machine() -> None:
    forbidden = re.compile(r"/work/|/root/|/home/[a-z]")
    for path in files():
        if path.suffix in {".py", ".md", ".cfg", ".toml", ""} and path.name != "test_tidy.py":
            assert not forbidden.search(path.read_text(errors="ignore")), path


def files() -> Iterator[Path]:
    """All files of the project; what tests, tools and caches make meanwhile is not looked at."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [one for one in folders if not is_made(one)]
        yield from (Path(folder, name) for name in names if not name.startswith("."))


def is_made(folder: str) -> bool:
    hidden = folder.startswith(".") and folder != ".ci"
    made = folder.startswith(("__pycache__", "pytest-cache-files-"))
    return hidden or made or folder.endswith(".egg-info")


def test_the_page_of_metrics_is_made_from_their_declarations() -> None:
    assert metrics_table.PAGE.read_text() == metrics_table.page(), (
        "run python -m tests.metrics_table"
    )


def test_the_page_of_public_names_is_made_from_all_of_the_public_modules() -> None:
    assert api_table.PAGE.read_text() == api_table.page(), "run python -m tests.api_table"


def test_a_package_that_uses_kafka_python_checks_before_that_it_is_the_right_one() -> None:
    users = {
        path.relative_to(PACKAGE).parts[0]
        for path in modules()
        if re.search(r"^\s*(from|import) kafka\b", path.read_text(), re.MULTILINE)
    }
    for user in sorted(users - {"__init__.py", "kafka_python.py"}):
        first = PACKAGE / user if user.endswith(".py") else PACKAGE / user / "__init__.py"
        imported = [
            node.names[0].name if isinstance(node, ast.Import) else node.module or ""
            for node in ast.parse(first.read_text()).body
            if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        ours = [name for name in imported if name.startswith(("aktor", "kafka"))]
        assert ours[:1] == ["aktor.kafka_python"], f"{first} does not import the check first"


def test_the_version_is_told_once() -> None:
    assert "version = attr: aktor.version.__version__" in (ROOT / "setup.cfg").read_text()
