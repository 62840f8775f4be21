"""What users of other Kafka clients write by habit, and how it is written here."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from aktor.consumer.configuration.table import DEFAULT_CONFIG
from aktor.structs import TopicPartition

__all__ = [
    "Elsewhere",
    "check_topics",
    "explained",
    "refuse_of_poll",
    "warn_of_seconds",
    "with_defaults",
    "without_refused",
]

F = TypeVar("F", bound=Callable[..., Any])

#: No program polls for less than so many milliseconds on purpose, in a number as round as this.
SECONDS: Final = 10.0

ASYNC: Final = (
    "a KafkaConsumer is not asynchronous (aktor.aio.KafkaConsumer is, and aiokafka's): write `for"
    " record in consumer`, on a thread of its own (asyncio.to_thread) beside an event loop"
)


#: Methods of other clients' consumers: what to call in their place.
_ELSEWHERE: Final = {
    "confluent-kafka": {
        "consume": "poll(timeout_ms=1000, max_records=500), which returns a dict of lists",
        "get_watermark_offsets": "beginning_offsets() and end_offsets()",
        "incremental_assign": "assign(), which takes all partitions",
        "incremental_unassign": "assign(), which takes all partitions",
        "list_topics": "topics(), partitions_for_topic() or look_up_topics()",
        "memberid": "group_metadata().member_id",
        "store_offsets": "commit(offsets): nothing is stored for a later commit",
        "consumer_group_metadata": "group_metadata()",
        "unassign": "unsubscribe()",
    },
    "aiokafka": {
        "getmany": "poll(timeout_ms=..., max_records=...)",
        "getone": "next(consumer), or a for loop",
        "last_stable_offset": "end_offsets(), with isolation_level='read_committed'",
        "seek_to_committed": "committed() and seek()",
        "start": "nothing: the constructor has connected (aktor.aio.KafkaConsumer has start())",
        "stop": "close()",
    },
}


def _is_of_another_base(name: str, owner: type) -> bool:
    """Whether a subclass has this name of a base that stands after ours: `start` of
    `class Reader(KafkaConsumer, Thread)`."""
    others = owner.__mro__[owner.__mro__.index(Elsewhere) + 1 :]
    return any(name in vars(one) for one in others)


class _Absent:
    """A name that is no attribute: who reads it is told what to call in place of it."""

    def __init__(self, name: str, client: str, instead: str) -> None:
        self._name = name
        self._instead = f"which {client}'s consumer has. Here it is {instead}"

    def __get__(self, consumer: object, owner: type) -> Any:
        if _is_of_another_base(self._name, owner):
            found: Any = super(Elsewhere, owner if consumer is None else consumer)
            return getattr(found, self._name)
        of = f"type object {owner.__name__!r}" if consumer is None else f"{owner.__name__!r} object"
        raise AttributeError(
            f"{of} has no attribute {self._name!r}, {self._instead}", name=self._name, obj=consumer
        )


class Elsewhere:
    """Has none of the methods that consumers of other clients have, and says so to who asks.

    (Not by `__getattr__`: Python would read each attribute of a consumer in twice the time.)
    """

    if not TYPE_CHECKING:
        vars().update(
            (name, _Absent(name, client, instead))
            for client, methods in _ELSEWHERE.items()
            for name, instead in methods.items()
        )

    def __dir__(self) -> list[str]:
        absent = {name for methods in _ELSEWHERE.values() for name in methods}
        own = {name for name in absent if _is_of_another_base(name, type(self))}
        return [name for name in super().__dir__() if name not in absent - own]


def check_topics(topics: Collection[Any]) -> None:
    """Check the positional arguments of the constructor, which are topics."""
    for topic in topics:
        if isinstance(topic, Mapping):
            raise TypeError(
                "KafkaConsumer() was given a dict, as confluent-kafka's Consumer is. Topics are"
                " positional arguments, and settings keywords with underscores:"
                " KafkaConsumer('orders', bootstrap_servers='host:9092', group_id='billing')"
            )
        if isinstance(topic, TopicPartition):
            raise TypeError(
                f"KafkaConsumer() was given {topic}, but takes topics: make it without one, and"
                " call assign([...]) with partitions"
            )
        if isinstance(topic, list | tuple | set | frozenset):
            raise TypeError(
                "KafkaConsumer() was given a collection of topics. Each topic is an argument of its"
                " own: KafkaConsumer('orders', 'bills'), or KafkaConsumer(*topics)"
            )


def with_defaults(
    defaults: Mapping[str, Any], given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings that were given, after those that a subclass has in a DEFAULT_CONFIG of its own;
    and its further settings, which are not ours. They stand in `config`, as in kafka-python."""
    if defaults is DEFAULT_CONFIG:
        return dict(given), {}
    changed = {
        name: value
        for name, value in defaults.items()
        if name not in DEFAULT_CONFIG or value != DEFAULT_CONFIG[name]
    }
    every = changed | dict(given)
    own = {name for name in changed if name not in DEFAULT_CONFIG}
    return (
        {name: value for name, value in every.items() if name not in own},
        {name: every[name] for name in own},
    )


#: Keyword arguments of confluent-kafka's methods, by the method: what to write in their place.
_KEYWORDS: Final = {
    "poll": dict.fromkeys(
        ("timeout", "num_messages"),
        "poll(timeout_ms=1000, max_records=500), in milliseconds, and returns a dict of lists of"
        " records",
    ),
    "subscribe": {
        name: f"subscribe(topics, listener=...): a ConsumerRebalanceListener with {method}()"
        for name, method in (
            ("on_assign", "on_partitions_assigned"),
            ("on_revoke", "on_partitions_revoked"),
            ("on_lost", "on_partitions_lost"),
        )
    },
    "commit": {
        "asynchronous": "commit(), which waits for the broker, or commit_async(callback=...), which"
        " does not",
        "message": "commit({TopicPartition(record.topic, record.partition):"
        " OffsetAndMetadata(record.offset + 1)})",
    },
}


def check_unknown(method: str, unknown: Mapping[str, Any], ways: Mapping[str, str]) -> None:
    """Refuse keyword arguments that `method` does not have. `ways`: what is written in place of
    those that confluent-kafka's has."""
    for name, value in unknown.items():
        if name in ways:
            raise TypeError(
                f"{method}() has no {name!r} (confluent-kafka's consumer has). Here it is"
                f" {ways[name]}"
            )
        raise TypeError(f"{method}() got an unexpected keyword argument {name!r}: {type(value)}")


def refuse_of_poll(*given: object) -> None:
    """The same for `poll`, which has these arguments itself to refuse them: it is called often.
    The ellipsis stands for one that was not given."""
    ways = _KEYWORDS["poll"]
    named = zip(ways, given, strict=True)
    check_unknown("poll", {name: value for name, value in named if value is not ...}, ways)


def explained(method: F) -> F:
    """A method that is called with keyword arguments of confluent-kafka's says how that is written
    here."""
    name, known = method.__name__, frozenset(inspect.signature(method).parameters)
    ways = dict(_KEYWORDS.get(name, {}))
    if "timeout_ms" in known:
        ways["timeout"] = f"{name}(timeout_ms=...), in milliseconds"

    @functools.wraps(method)
    def told(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not known.issuperset(kwargs):
            unknown = {name: value for name, value in kwargs.items() if name not in known}
            check_unknown(name, unknown, ways)
        return method(self, *args, **kwargs)

    return cast("F", told)


def warn_of_seconds(timeout_ms: Any) -> bool:
    """Warn of a timeout that is probably meant in seconds; True if it is."""
    if type(timeout_ms) is not float or not 0 < timeout_ms <= SECONDS:
        return False
    if timeout_ms != round(timeout_ms, 2):
        return False  # what is left of a deadline
    warnings.warn(
        f"poll({timeout_ms}) waits for {timeout_ms} milliseconds. If seconds are meant, as in"
        f" confluent-kafka's poll(), write poll(timeout_ms={timeout_ms * 1000:g})",
        UserWarning,
        stacklevel=3,
    )
    return True


def without_refused(method: F) -> F:
    """`poll` without the arguments that it has only to refuse them, for tools that look at
    signatures."""
    signature = inspect.signature(method)
    known = [one for name, one in signature.parameters.items() if name not in _KEYWORDS["poll"]]
    vars(method)["__signature__"] = signature.replace(parameters=known)
    return method
