"""Faults by command: what is done to which of the next requests instead of a proper answer.

Pure: the transport asks `Faults.match` about each request and does as it is told. Of several
rules that fit, the oldest acts.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from aktor.broker.codes import Code
from aktor.broker.wire import APIS

__all__ = [
    "Action",
    "Corrupt",
    "CorruptRecords",
    "Delay",
    "Drop",
    "FailPartly",
    "FailWith",
    "Fault",
    "FaultError",
    "Faults",
    "Swallow",
    "Throttle",
    "Truncate",
    "error_response",
    "from_json",
    "to_json",
]

#: The length at the front of a frame, which is never corrupted: else no frame would follow.
_LENGTH: Final = 4

_API_NAMES: Final = tuple(api.name for api in APIS.values())


class FaultError(ValueError):
    """A fault that can't be: one line that says what was meant to be there."""


# -- what is done


@dataclass(frozen=True, slots=True)
class FailWith:
    """Not handled; the answer has this code in all the places where the API has one."""

    code: Code

    def __post_init__(self) -> None:
        if not isinstance(self.code, Code) or self.code is Code.NONE:
            raise FaultError(f"FailWith wants an error code of Kafka, not {self.code!r}")


@dataclass(frozen=True, slots=True)
class FailPartly:
    """Handled; the answer has this code for the last of the things that it is about, mostly a
    partition."""

    code: Code

    def __post_init__(self) -> None:
        if not isinstance(self.code, Code) or self.code is Code.NONE:
            raise FaultError(f"FailPartly wants an error code of Kafka, not {self.code!r}")

    def apply(self, answer: Any) -> None:
        """Put the code in its place."""
        found = answer
        while inner := _last_inside(found):
            found = inner
        for name in found.fields:
            if name in _ERRORS:
                setattr(found, name, int(self.code))
            elif name in _NOTHING:
                setattr(found, name, _NOTHING[name])


def _last_inside(message: Any) -> Any:
    """The last item of an answer's first array that has items with errors in them."""
    for name, field in message.fields.items():
        items = getattr(message, name, None)
        if items and field.is_struct_array() and _has_errors(field.data_class):
            return items[-1]
    return None


def _has_errors(message: Any) -> bool:
    return any(
        name in _ERRORS or (field.is_struct_array() and _has_errors(field.data_class))
        for name, field in message.fields.items()
    )


@dataclass(frozen=True, slots=True)
class Throttle:
    """Handled; the answer says that the client is to send nothing for so long, and what it sends
    all the same is looked at afterwards (KIP-219)."""

    seconds: float

    def __post_init__(self) -> None:
        if not (_is_number(self.seconds) and math.isfinite(self.seconds) and self.seconds >= 0):
            raise FaultError(f"Throttle wants a number of seconds, not {self.seconds!r}")


@dataclass(frozen=True, slots=True)
class Delay:
    """Handled, and the answer held back this long."""

    seconds: float

    def __post_init__(self) -> None:
        if not (_is_number(self.seconds) and math.isfinite(self.seconds) and self.seconds >= 0):
            raise FaultError(f"Delay wants a number of seconds, not {self.seconds!r}")


@dataclass(frozen=True, slots=True)
class Drop:
    """The connection is closed instead of an answer; `before`: and the request is not handled."""

    before: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.before, bool):
            raise FaultError(f"Drop wants before=True or before=False, not {self.before!r}")


@dataclass(frozen=True, slots=True)
class Truncate:
    """Handled; of the answer's frame, only the first `keep` bytes are sent, and then closed."""

    keep: int

    def __post_init__(self) -> None:
        if not _is_count(self.keep):
            raise FaultError(f"Truncate wants the number of bytes to keep, not {self.keep!r}")

    def apply(self, frame: bytes) -> bytes:
        """What is left of a frame, its length at the front included."""
        return frame[: self.keep]


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrupt:
    """Handled; bytes of the answer's frame are not what they were, its length excepted.

    position: the one byte that is inverted, counted behind the length; None: `count` bytes that
        `seed` chooses.
    """

    position: int | None = None
    seed: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if self.position is not None and not _is_count(self.position):
            raise FaultError(f"Corrupt wants a position from 0 on, not {self.position!r}")
        if not _is_count(self.seed):
            raise FaultError(f"Corrupt wants a seed from 0 on, not {self.seed!r}")
        if not _is_count(self.count) or self.count == 0:
            raise FaultError(f"Corrupt wants to change at least 1 byte, not {self.count!r}")

    def apply(self, frame: bytes) -> bytes:
        """The frame with other bytes; the same ones each time for frames of the same length."""
        changed = bytearray(frame)
        size = len(frame) - _LENGTH
        if size <= 0:
            return frame
        if self.position is not None:
            changed[_LENGTH + min(self.position, size - 1)] ^= 0xFF
            return bytes(changed)
        rng = random.Random(self.seed)
        for place in rng.sample(range(_LENGTH, len(frame)), min(self.count, size)):
            changed[place] ^= rng.randrange(1, 256)
        return bytes(changed)


@dataclass(frozen=True, slots=True)
class CorruptRecords:
    """A Fetch is handled; one byte (the last of the last partition that has records) is not what it
    was, so that the checksum of its batch is wrong."""

    def apply(self, answer: Any) -> None:
        """Change the byte. An answer without records stays as it is."""
        topics = getattr(answer, "responses", None) or ()
        partitions = [
            partition for topic in topics for partition in getattr(topic, "partitions", None) or ()
        ]
        for partition in reversed(partitions):
            if records := bytes(partition.records or b""):
                partition.records = records[:-1] + bytes([records[-1] ^ 0xFF])
                return


@dataclass(frozen=True, slots=True)
class Swallow:
    """Handled, and never answered; the connection stays open."""


Action = (
    FailWith | FailPartly | Delay | Throttle | Drop | Truncate | Corrupt | CorruptRecords | Swallow
)

_ACTIONS: Final[Mapping[str, type[Any]]] = {action.__name__: action for action in get_args(Action)}


# -- to which requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A rule: what is done to the requests that fit. Whatever is None fits all.

    api: Kafka's name, "Fetch", "JoinGroup".
    node: the broker that is asked.
    client_id: of who asks.
    group: a group the request is about; requests that name none don't fit.
    above: only requests of a newer version than this; for what a broker does not know.
    times: how many requests; None: for ever.
    after: how many that fit are let by first.

    Raises FaultError for values that make no sense, with a suggestion for an API's name.
    """

    action: Action
    api: str | None = None
    node: int | None = None
    client_id: str | None = None
    group: str | None = None
    above: int | None = None
    times: int | None = 1
    after: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.action, tuple(_ACTIONS.values())):
            raise FaultError(f"action must be one of {', '.join(_ACTIONS)}, not {self.action!r}")
        if self.api is not None and self.api not in _API_NAMES:
            hint = _suggestion(str(self.api), _API_NAMES)
            raise FaultError(f"there is no API {self.api!r}{hint}")
        if self.node is not None and not _is_count(self.node):
            raise FaultError(f"node must be the id of a broker, not {self.node!r}")
        if self.above is not None and type(self.above) is not int:
            raise FaultError(f"above must be a version, -1 for all, not {self.above!r}")
        for name in ("client_id", "group"):
            if not isinstance(getattr(self, name), str | None):
                raise FaultError(f"{name} must be a string, not {getattr(self, name)!r}")
        if self.times is not None and (not _is_count(self.times) or self.times == 0):
            raise FaultError(f"times must be at least 1, or None for ever, not {self.times!r}")
        if not _is_count(self.after):
            raise FaultError(f"after must be 0 or more, not {self.after!r}")

    def fits(
        self, api: str, node: int, client_id: str | None, request: Any = None, version: int = 0
    ) -> bool:
        """Whether such a request is meant."""
        return (
            self.api in (None, api)
            and self.node in (None, node)
            and self.client_id in (None, client_id)
            and (self.group is None or self.group in _groups(request))
            and (self.above is None or version > self.above)
        )


class Faults:
    """Owns the rules in force."""

    def __init__(self) -> None:
        self._rules: dict[int, Fault] = {}
        self._next = 1

    def add(self, fault: Fault) -> int:
        """Put a rule in force; the answer is its number."""
        number = self._next
        self._next += 1
        self._rules[number] = fault
        return number

    def remove(self, number: int) -> bool:
        """Take a rule back; False if it is used up or never was."""
        return self._rules.pop(number, None) is not None

    def clear(self) -> None:
        """Take all rules back."""
        self._rules.clear()

    def rules(self) -> dict[int, Fault]:
        """The rules in force by number, with what is left of their `times` and `after`."""
        return dict(self._rules)

    def match(
        self, api: str, node: int, client_id: str | None, request: Any = None, version: int = 0
    ) -> Action | None:
        """What to do with this request, None: handle it well. Counts it.

        request: the message, without which rules that name a group fit nothing.
        version: of the request.
        """
        for number, fault in self._rules.items():
            if not fault.fits(api, node, client_id, request, version):
                continue
            if fault.after:
                self._rules[number] = dataclasses.replace(fault, after=fault.after - 1)
                continue
            if fault.times == 1:
                del self._rules[number]
            elif fault.times is not None:
                self._rules[number] = dataclasses.replace(fault, times=fault.times - 1)
            return fault.action
        return None


def _groups(request: Any) -> frozenset[str]:
    """The groups that a request names, wherever its API has them."""
    found = {getattr(request, "group_id", None)}
    for name in ("groups", "group_ids", "groups_names"):
        for group in getattr(request, name, None) or ():
            found.add(group if isinstance(group, str) else getattr(group, "group_id", None))
    if getattr(request, "key_type", None) == 0:  # FindCoordinator, of a group
        found |= {request.key, *(request.coordinator_keys or ())}
    return frozenset(group for group in found if group)


# -- over the control port


def to_json(fault: Fault) -> dict[str, Any]:
    """A fault as JSON: its fields, and the action as its fields with its class's name as `type`."""
    values = {field.name: getattr(fault, field.name) for field in dataclasses.fields(fault)}
    action = {
        field.name: getattr(fault.action, field.name) for field in dataclasses.fields(fault.action)
    }
    if isinstance(fault.action, FailWith | FailPartly):
        action["code"] = fault.action.code.name
    return {**values, "action": {"type": type(fault.action).__name__, **action}}


def from_json(value: Any) -> Fault:
    """The fault that `to_json` wrote, or that a person did: only `action` must be there, and a
    code may be a name or a number.

    Raises FaultError, in one line, for anything else.
    """
    given = _fields(value, Fault, "a fault")
    if "action" not in given:
        raise FaultError(f"a fault needs an action: one of {', '.join(_ACTIONS)}")
    action = given.pop("action")
    if isinstance(action, str):
        action = {"type": action}
    kind = action.get("type") if isinstance(action, dict) else None
    if not isinstance(kind, str) or kind not in _ACTIONS:
        raise FaultError(f"there is no action {kind!r}{_suggestion(str(kind), _ACTIONS)}")
    arguments = _fields(action, _ACTIONS[kind], kind, ignore="type")
    if "code" in arguments:
        arguments["code"] = _code(arguments["code"])
    try:
        return Fault(action=_ACTIONS[kind](**arguments), **given)
    except TypeError:
        wanted = ", ".join(field.name for field in dataclasses.fields(_ACTIONS[kind]))
        raise FaultError(f"{kind} needs {wanted}") from None


def _fields(value: Any, of: type[Any], what: str, ignore: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FaultError(f"{what} must be a JSON object, not {value!r}")
    names = [field.name for field in dataclasses.fields(of)]
    given = {name: argument for name, argument in value.items() if name != ignore}
    for name in given:
        if name not in names:
            raise FaultError(f"{what} has no {name!r}{_suggestion(str(name), names)}")
    return given


def _code(value: Any) -> Code:
    try:
        return Code[value] if isinstance(value, str) else Code(value)
    except (KeyError, ValueError):
        names = [code.name for code in Code]
        suggestion = _suggestion(str(value), names)
        raise FaultError(f"there is no error code {value!r}{suggestion}") from None


def _suggestion(name: str, names: Iterable[str]) -> str:
    by_lower = {candidate.lower(): candidate for candidate in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    if close:
        return f"; did you mean {by_lower[close[0]]!r}?"
    return f"; there are {', '.join(by_lower.values())}" if len(by_lower) < 50 else ""


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


# -- the answer that says no

#: Codes about a topic or a partition. They are put only there: as the code of a whole answer,
#: clients would take them for a bug of the broker. Any other code is put into every field for
#: codes.
_OF_A_PARTITION: Final = frozenset(
    {
        Code.OFFSET_OUT_OF_RANGE,
        Code.CORRUPT_MESSAGE,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.LEADER_NOT_AVAILABLE,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.REPLICA_NOT_AVAILABLE,
        Code.MESSAGE_TOO_LARGE,
        Code.OFFSET_METADATA_TOO_LARGE,
        Code.INVALID_TOPIC_EXCEPTION,
        Code.RECORD_LIST_TOO_LARGE,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.INVALID_COMMIT_OFFSET_SIZE,
        Code.TOPIC_AUTHORIZATION_FAILED,
        Code.KAFKA_STORAGE_ERROR,
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
        Code.UNSUPPORTED_COMPRESSION_TYPE,
        Code.OFFSET_NOT_AVAILABLE,
        Code.GROUP_SUBSCRIBED_TO_TOPIC,
        Code.UNSTABLE_OFFSET_COMMIT,
        Code.UNKNOWN_TOPIC_ID,
        Code.INCONSISTENT_TOPIC_ID,
        Code.OFFSET_MOVED_TO_TIERED_STORAGE,
    }
)

#: Which array of a request the items of an answer's array are about.
_ASKED_IN: Final[Mapping[str, tuple[str, ...]]] = {
    "coordinators": ("coordinator_keys",),
    "filter_results": ("filters",),
    "groups": ("groups", "group_ids"),
    "markers": ("markers",),
    "members": ("members",),
    "partition_responses": ("partition_data",),
    "partition_result": ("partitions",),
    "partitions": ("partitions", "partition_indexes"),
    "replica_election_results": ("topic_partitions",),
    "responses": ("topic_data", "topics", "topic_names", "resources"),
    "results": ("resources", "topics", "groups_names", "creations"),
    "results_by_partition": ("partitions",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_transaction": ("transactions",),
    "topic_results": ("topics",),
    "topics": ("topics",),
    "transaction_states": ("transactional_ids",),
}

#: What an item of an answer is recognized by.
_KEYS: Final = frozenset(
    {
        "group_id",
        "group_instance_id",
        "index",
        "key",
        "member_id",
        "name",
        "partition",
        "partition_id",
        "partition_index",
        "producer_id",
        "resource_name",
        "resource_type",
        "topic",
        "topic_id",
        "transactional_id",
    }
)

_ERRORS: Final = frozenset({"error_code", "partition_error_code"})

#: What an answer says where it has nothing to say, if that is not the schema's default.
_NOTHING: Final[Mapping[str, Any]] = {
    "base_offset": -1,
    "committed_offset": -1,
    "high_watermark": -1,
    "low_watermark": -1,
    "node_id": -1,
    "port": -1,
    "producer_epoch": -1,
    "records": b"",
}


def error_response(request: Any, version: int, code: Code) -> Any:
    """The API's own answer that refuses all that a request of this version asks for.

    The answer has the request's topics, partitions, groups and members. A code that is said of
    topics and partitions stands only there, if the request names any; others in all places.
    """
    answer, _ = _refusal(APIS[request.API_KEY].response, None, request, version, code)
    return answer


def _refusal(
    answer_class: Any, item: Any, asked: Any, version: int, code: Code
) -> tuple[Any, bool]:
    """Makes an answer, or (`item`: of the request) one item of an answer's array. Returns it, and
    whether an error code was put anywhere in it."""
    values: dict[str, Any] = {}
    said = False
    fields = {
        name: field for name, field in answer_class.fields.items() if field.for_version_q(version)
    }
    for name, field in fields.items():
        if field.is_struct_array():
            inner = [
                _refusal(field.data_class, entry, entry, version, code)
                for entry in _asked(asked, name)
            ]
            values[name] = [answer for answer, _ in inner]
            said = said or any(has_code for _, has_code in inner)
        elif name in _KEYS and (key := _key(item, name)) is not None:
            values[name] = key
        elif name in _NOTHING:
            values[name] = _NOTHING[name]
    if not (said and code in _OF_A_PARTITION):
        for name in _ERRORS & fields.keys():
            values[name] = int(code)
            said = True
    return answer_class(**values), said


def _asked(asked: Any, name: str) -> Iterable[Any]:
    """What was asked for, of which the answer's array of this name speaks."""
    if isinstance(asked, str | int):
        return ()
    found = (getattr(asked, field, None) for field in _ASKED_IN.get(name, ()))
    return next((items for items in found if items), ())


def _key(item: Any, name: str) -> Any:
    if isinstance(item, str | int):
        return item if name != "producer_id" else None  # the item is a transactional id
    if name == "partition_index" and not hasattr(item, name):
        name = "partition"  # as Fetch calls it
    return getattr(item, name, None)
