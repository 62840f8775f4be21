"""The sources keep their own rules: import direction, purity, links, routes, documents."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import os
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import aktor
from aktor.events.metadata import TopicsNamed
from aktor.events.routes import BY_NAME, ROUTES
from aktor.managers import classic_states, consumer_states
from aktor.managers.state_table import mermaid

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "aktor"

#: Who may import whom inside aktor; `errors`, `settings` and `trace` may be imported by all.
ALLOWED = {
    "events": {"events"},
    "records": {"records"},
    "protocol": {"protocol"},
    "trace": {"trace"},
    "actors": {"events", "actors", "protocol"},
    "managers": {"events", "actors", "managers", "protocol", "records"},
    "consumer": {"events", "actors", "managers", "consumer", "records", "protocol"},
}
FOR_ALL = {"errors", "settings", "trace"}

#: What a pure handler has no business with.
IMPURE = {"time", "random", "threading", "socket", "logging", "asyncio", "selectors"}


def modules(package: str = "") -> Iterator[Path]:
    return (PACKAGE / package).rglob("*.py")


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_imports_go_one_way(package: str) -> None:
    for path in modules(package):
        for name in imports(path):
            parts = name.split(".")
            if parts[0] == "aktor" and len(parts) > 1 and (PACKAGE / parts[1]).exists():
                assert parts[1] in ALLOWED[package] | FOR_ALL, f"{path} imports {name}"


@pytest.mark.parametrize("package", ["managers", "events"])
def test_managers_and_events_have_no_clock_socket_thread_or_randomness(package: str) -> None:
    for path in modules(package):
        found = {name.split(".")[0] for name in imports(path)} & IMPURE
        assert not found, f"{path} imports {found}"


def test_only_the_adapters_import_kafka_net() -> None:
    """`producer.py` is that of kafka-python's producer in simulations."""
    adapters = {"kafka_net.py", "handshake.py", "frames.py", "producer.py"}
    for path in modules():
        if any(name.startswith("kafka.net") for name in imports(path)):
            assert path.name in adapters, f"{path} imports kafka.net"


def test_nobody_imports_the_links_at_the_root() -> None:
    for folder in ("aktor", "tests", "examples", "benchmarks"):
        for path in (ROOT / folder).rglob("*.py"):
            for name in imports(path):
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
            if kind.__module__ == info.name and dataclasses.is_dataclass(kind):
                found.append(kind)
    return found


def said() -> list[type]:
    """Events that are messages: their docstring says who tells whom."""
    return [kind for kind in event_types() if "▶" in (kind.__doc__ or "")]


@pytest.mark.parametrize("kind", event_types(), ids=lambda kind: kind.__name__)
def test_an_event_is_frozen_slotted_and_documented(kind: type) -> None:
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert "__slots__" in vars(kind)
    doc = kind.__doc__ or ""
    assert doc
    assert not doc.startswith(f"{kind.__name__}("), "made by dataclass, not by us"
    if dataclasses.fields(kind):
        assert all(field.kw_only for field in dataclasses.fields(kind))


def test_every_message_has_a_route_and_every_route_a_message() -> None:
    assert set(said()) == set(ROUTES) | BY_NAME


#: What only a membership manager of KIP-848 asks for, and is told.
OF_848 = {TopicsNamed}


@pytest.mark.parametrize("protocol", ["classic", "consumer", "auto"])
def test_every_receiver_understands_what_is_routed_to_it(protocol: str) -> None:
    from aktor.actors.network import NetworkActor
    from aktor.consumer.port import ApplicationPort
    from aktor.consumer.system import MANAGERS, MEMBERSHIPS

    understands = {kind.name: kind.understands() for kind in MANAGERS}
    understands["membership"] = MEMBERSHIPS[protocol].understands()
    if protocol == "classic":
        understands["membership"] |= OF_848
    understands["network"] = NetworkActor.understands()
    understands["application"] = ApplicationPort.understands()
    for kind, names in ROUTES.items():
        for name in names:
            if name != "supervisor":
                assert kind in understands[name], f"{name} does not understand {kind.__name__}"


def test_every_event_stands_in_the_protocol_document() -> None:
    text = (ROOT / "docs" / "protocol.md").read_text()
    missing = [kind.__name__ for kind in said() if f"`{kind.__name__}`" not in text]
    assert not missing


def test_every_trace_event_stands_in_the_trace_document() -> None:
    text = (ROOT / "docs" / "trace.md").read_text()
    documented = set(re.findall(r"^\| `([a-z_]+\.[a-z_]+)`", text, re.MULTILINE))
    pattern = re.compile(r"""\.(?:debug|info|warning|error)\(\s*"([a-z_]+\.[a-z_]+)\"""")
    emitted = {name for path in modules() for name in pattern.findall(path.read_text())}
    assert emitted - documented == set()
    assert documented - emitted == set()


@pytest.mark.parametrize("states", [classic_states, consumer_states])
def test_the_diagram_of_the_members_states_is_the_table(states: Any) -> None:
    printed = f"```mermaid\n{mermaid(states.TRANSITIONS).strip()}\n```"
    assert printed in (ROOT / "docs" / "architecture.md").read_text()


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


def test_the_version_is_told_once() -> None:
    assert f"version = {aktor.__version__}" in (ROOT / "setup.cfg").read_text()
