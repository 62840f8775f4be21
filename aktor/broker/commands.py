"""What a running cluster can be told from outside, by method, path and JSON body, as one table."""

from __future__ import annotations

import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from aktor.broker.codes import Refused
from aktor.broker.embedded import EmbeddedKafka
from aktor.broker.faults import from_json, to_json
from aktor.broker.journal import DataFolderError
from aktor.broker.server import PortInUseError

__all__ = ["COMMANDS", "Command", "CommandError", "execute"]

_BAD: Final = 400
_NOT_FOUND: Final = 404
_NOT_ALLOWED: Final = 405
_GONE: Final = 503

#: More than a test needs; so many are made in about a second, in which no client is served.
_MOST_PARTITIONS: Final = 10_000


class CommandError(Exception):
    """A command that can't be done: `status` is HTTP's, the text one line.

    allowed: for a path that is known, the methods that it has; else empty.
    """

    def __init__(self, status: int, message: str, allowed: tuple[str, ...] = ()) -> None:
        super().__init__(" ".join(message.split()))
        self.status = status
        self.allowed = allowed


Path = Mapping[str, str]
Body = Mapping[str, Any]
Act = Callable[[EmbeddedKafka, Path, Body], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One thing to say. `{names}` in the path are handed to `act`.

    body: which fields the JSON object may have, with their types. Those whose type includes None
        may be left out, and so may bools. None: the body is handed on as it is.
    """

    method: str
    path: str
    what: str
    act: Act
    body: Mapping[str, Any] | None = field(default_factory=dict)


def execute(kafka: EmbeddedKafka, method: str, target: str, content: bytes = b"") -> Any:
    """Do what a request says; the answer is a value for JSON. Raises CommandError."""
    target, _, query = target.partition("?")
    if query:
        raise CommandError(_BAD, "values belong into the JSON body, not behind a question mark")
    command, path = _find(method, target)
    body = _read(content) if content else {}
    if command.body is not None:
        body = _checked(body, command.body)
    try:
        return command.act(kafka, path, body)
    except (ValueError, Refused, PortInUseError, DataFolderError) as error:
        raise CommandError(_BAD, str(error)) from None
    except RuntimeError as error:
        raise CommandError(_GONE, str(error)) from None


# -- which command


def _find(method: str, target: str) -> tuple[Command, Path]:
    segments = target.split("/")
    allowed = []
    for command in COMMANDS:
        path = _match(command.path.split("/"), segments)
        if path is None:
            continue
        if command.method == method:
            return command, path
        allowed.append(command.method)
    if allowed:
        has = ", ".join(allowed)
        raise CommandError(_NOT_ALLOWED, f"{target} has {has}, not {method}", tuple(allowed))
    raise CommandError(_NOT_FOUND, f"there is no {target}; GET / lists what there is")


def _match(pattern: list[str], segments: list[str]) -> Path | None:
    """The names in the pattern with what stands in their place; None if it does not fit."""
    if len(pattern) != len(segments):
        return None
    found = {}
    for wanted, given in zip(pattern, segments, strict=True):
        if wanted.startswith("{"):
            found[wanted[1:-1]] = unquote(given)
        elif wanted != given:
            return None
    return found


# -- what stands in the body


def _read(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise CommandError(_BAD, "the body is not JSON") from None


def _checked(body: Any, fields: Mapping[str, Any]) -> Body:
    """All fields, those left out as None or False. Raises CommandError."""
    names = ", ".join(fields) or "no fields"
    if not isinstance(body, dict):
        raise CommandError(_BAD, f"the body must be a JSON object with {names}")
    for name in body:
        if name not in fields:
            raise CommandError(_BAD, f"there is no field {name!r} here, there is {names}")
    return {name: _value(name, body.get(name), kind) for name, kind in fields.items()}


def _value(name: str, value: Any, kind: Any) -> Any:
    kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if value is None and bool in kinds:
        return False
    if type(value) in kinds or (value is None and types.NoneType in kinds):
        return value
    if type(value) is int and float in kinds:
        return float(value)
    wanted = " or ".join(choice.__name__ for choice in kinds if choice is not types.NoneType)
    raise CommandError(_BAD, f"{name} must be of type {wanted}, not {json.dumps(value)[:100]}")


def _number(text: str, what: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    raise CommandError(_BAD, f"{what} must be a number, not {text!r}")


def _broker(kafka: EmbeddedKafka, text: str) -> int:
    number = _number(text, "broker")
    if number not in kafka.node_ids:
        there = ", ".join(map(str, kafka.node_ids))
        raise CommandError(_BAD, f"there is no broker {number}; there are {there}")
    return number


# -- what is done


def _usage(_kafka: EmbeddedKafka, _path: Path, _body: Body) -> Any:
    return {
        f"{command.method} {command.path}": command.what for command in COMMANDS if command.what
    }


def _faults(kafka: EmbeddedKafka) -> Any:
    return {str(number): to_json(fault) for number, fault in kafka.faults().items()}


def _add_fault(kafka: EmbeddedKafka, _path: Path, body: Body) -> Any:
    kafka.inject(from_json(body))
    return _faults(kafka)


def _remove_fault(kafka: EmbeddedKafka, path: Path, _body: Body) -> Any:
    number = _number(path["fault"], "fault")
    if not kafka.remove_fault(number):
        raise ValueError(f"there is no fault {number}, or it is used up")
    return _faults(kafka)


def _clear_faults(kafka: EmbeddedKafka, _path: Path, _body: Body) -> Any:
    kafka.clear_faults()
    return {}


def _one_broker(act: Callable[[EmbeddedKafka, int], None]) -> Act:
    """Do it to the broker in the path; the answer is how all brokers are then."""

    def run(kafka: EmbeddedKafka, path: Path, _body: Body) -> Any:
        act(kafka, _broker(kafka, path["broker"]))
        return kafka.status()["brokers"]

    return run


def _silenced_broker(act: Callable[..., None]) -> Act:
    """The same for what the other brokers notice only after a while, which the body may say."""

    def run(kafka: EmbeddedKafka, path: Path, body: Body) -> Any:
        timeout = body["session_timeout"]
        if timeout is not None and not 0 <= timeout < math.inf:
            raise ValueError(f"session_timeout must be some seconds, not {timeout}")
        given = {} if timeout is None else {"session_timeout": timeout}
        act(kafka, _broker(kafka, path["broker"]), **given)
        return kafka.status()["brokers"]

    return run


def _create_topic(kafka: EmbeddedKafka, _path: Path, body: Body) -> Any:
    for name, value in (body["configs"] or {}).items():
        if not isinstance(value, str):
            raise ValueError(f"config {name} must be a string, not {json.dumps(value)[:100]}")
    kafka.create_topic(
        body["name"],
        _partitions(body["partitions"]),
        replication_factor=_replication(body["replication_factor"]),
        configs=body["configs"],
    )
    return kafka.status()["topics"][body["name"]]


def _partitions(count: int | None) -> int | None:
    if count is not None and not 1 <= count <= _MOST_PARTITIONS:
        raise ValueError(f"a topic has 1 to {_MOST_PARTITIONS} partitions, not {count}")
    return count


def _replication(factor: int | None) -> int | None:
    if factor is not None and factor < 1:
        raise ValueError(f"a partition has at least 1 replica, not {factor}")
    return factor


def _delete_topic(kafka: EmbeddedKafka, path: Path, _body: Body) -> Any:
    kafka.delete_topic(path["topic"])
    return {}


def _add_partitions(kafka: EmbeddedKafka, path: Path, body: Body) -> Any:
    kafka.add_partitions(path["topic"], _partitions(body["count"]) or 0)
    return kafka.status()["topics"][path["topic"]]


def _move_leader(kafka: EmbeddedKafka, path: Path, body: Body) -> Any:
    partition = _number(path["partition"], "partition")
    leader = kafka.move_leader(path["topic"], partition, body["to"], unclean=body["unclean"])
    return {"leader": leader}


def _one_replica(act: Callable[[EmbeddedKafka, str, int, int], None]) -> Act:
    """Do it to the replica of the partition in the path that the broker in the body has."""

    def run(kafka: EmbeddedKafka, path: Path, body: Body) -> Any:
        partition = _number(path["partition"], "partition")
        act(kafka, path["topic"], partition, _broker(kafka, str(body["broker"])))
        return {}

    return run


def _move_coordinator(kafka: EmbeddedKafka, path: Path, body: Body) -> Any:
    return {"coordinator": kafka.move_coordinator(path["group"], body["to"])}


def _one_member(act: Callable[[EmbeddedKafka, str, str], None]) -> Act:
    """Do it to the member in the path."""

    def run(kafka: EmbeddedKafka, path: Path, _body: Body) -> Any:
        act(kafka, path["group"], path["member"])
        return {}

    return run


def _disconnect(kafka: EmbeddedKafka, _path: Path, _body: Body) -> Any:
    return {"disconnected": kafka.disconnect()}


def _commands() -> tuple[Command, ...]:
    partition = "/topics/{topic}/partitions/{partition}"
    member = "/groups/{group}/members/{member}"
    rows: tuple[tuple[str, str, Mapping[str, Any] | None, Act, str], ...] = (
        ("GET", "/", {}, _usage, ""),
        ("GET", "/status", {}, lambda kafka, *_: kafka.status(), "brokers, topics, groups, faults"),
        ("GET", "/faults", {}, lambda kafka, *_: _faults(kafka), "the faults in force by number"),
        ("POST", "/faults", None, _add_fault, "one more, as JSON: docs/embedded.md"),
        ("DELETE", "/faults", {}, _clear_faults, "no more faults"),
        ("DELETE", "/faults/{fault}", {}, _remove_fault, "take one fault back"),
        (
            "POST",
            "/brokers/{broker}/stop",
            {},
            _one_broker(EmbeddedKafka.stop_broker),
            "shut it down; others take over at once",
        ),
        ("POST", "/brokers/{broker}/start", {}, _one_broker(EmbeddedKafka.start_broker), "again"),
        (
            "POST",
            "/brokers/{broker}/kill",
            {"session_timeout": float | None},
            _silenced_broker(EmbeddedKafka.kill_broker),
            "it is gone; others take over when its session times out",
        ),
        (
            "POST",
            "/brokers/{broker}/pause",
            {"session_timeout": float | None},
            _silenced_broker(EmbeddedKafka.pause_broker),
            "it stands still; others take over when its session times out",
        ),
        ("POST", "/brokers/{broker}/resume", {}, _one_broker(EmbeddedKafka.resume_broker), "go on"),
        (
            "POST",
            "/topics",
            {
                "name": str,
                "partitions": int | None,
                "replication_factor": int | None,
                "configs": dict | None,
            },
            _create_topic,
            "make a topic",
        ),
        ("DELETE", "/topics/{topic}", {}, _delete_topic, "delete it and its records"),
        ("POST", "/topics/{topic}/partitions", {"count": int}, _add_partitions, "to have so many"),
        (
            "POST",
            f"{partition}/move-leader",
            {"to": int | None, "unclean": bool},
            _move_leader,
            "another replica leads",
        ),
        (
            "POST",
            f"{partition}/hold-replica",
            {"broker": int},
            _one_replica(EmbeddedKafka.hold_replica),
            "a follower fetches no more",
        ),
        (
            "POST",
            f"{partition}/release-replica",
            {"broker": int},
            _one_replica(EmbeddedKafka.release_replica),
            "it catches up",
        ),
        (
            "POST",
            "/groups/{group}/move-coordinator",
            {"to": int | None},
            _move_coordinator,
            "another broker coordinates the group",
        ),
        (
            "POST",
            f"{member}/expire",
            {},
            _one_member(EmbeddedKafka.expire_session),
            "as if it had been silent for its session timeout",
        ),
        (
            "POST",
            f"{member}/fence",
            {},
            _one_member(EmbeddedKafka.fence_member),
            "as if somebody had taken its place",
        ),
        ("POST", "/disconnect", {}, _disconnect, "break all connections of all clients"),
    )
    return tuple(
        Command(method=method, path=path, body=body, act=act, what=what)
        for method, path, body, act, what in rows
    )


#: All there is, in the order in which it is listed.
COMMANDS: Final = _commands()
