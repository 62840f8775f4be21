"""The referee of the fault tests: the checks of the simulation, over what real members tell.

A member's consumer runs on `Telling`: what it traces, and what its user is given and told, are the
events of a history, as in a simulation. What brokers do inside nobody tells here; what was written
the writer knows, for whom brokers acknowledged it.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from aktor import KafkaConsumer
from aktor.actors.runtime.dispatcher import Dispatcher
from aktor.consumer.core.port import Port
from aktor.consumer.system import Consumer, Host
from aktor.events.routes import Routes
from aktor.simulation.checks import broken_promises
from aktor.simulation.checks.readers import when
from aktor.simulation.history import Event, History, fingerprint, told_by
from aktor.simulation.world.observed import observe, settings_told
from aktor.trace import Trace

#: What is not passed on: how long anything takes the tests judge themselves, who know what else
#: keeps the machine busy; what is compared with the state of a thread that goes on meanwhile; and
#: requests are many.
KEPT_BACK: Final = ("call.late", "process.stood_still", "records.passed_over", "request.")

#: What is so from the beginning. A fault of any kind may be there at any time; the checks do not
#: hear when it is over.
BEFORE_ALL: Final = {"at": 0.0, "member": ""}
ANY_FAULT: Final[Event] = {**BEFORE_ALL, "event": "fault.began", "number": 0}


class Telling(Host):
    """What a member's consumer runs on: threads, clock and sockets; and all that happens to it is
    told, with the time of the machine's monotonic clock, which processes share."""

    def __init__(self, member: str, tell: Callable[[Event], None]) -> None:
        self._member, self._tell = member, tell
        self._listening = ExitStack()
        self._consumer: KafkaConsumer

    def for_consumer(self, consumer: Consumer) -> Host:
        """The member has one."""
        assert isinstance(consumer, KafkaConsumer)
        self._consumer = consumer
        observe(consumer, self.note, time.monotonic, lambda: None)
        return self

    def make_dispatcher(self, routes: Routes, port: Port, trace: Trace) -> Dispatcher:
        """As any; its trace is listened to from now on."""
        self._listening.enter_context(trace.listen(self._hear))
        return super().make_dispatcher(routes, port, trace)

    def start(self, dispatcher: Dispatcher, name: str) -> None:
        """Say what may be expected of it."""
        self.note("consumer.made", **settings_told(self._consumer))
        super().start(dispatcher, name)

    def note(self, event: str, **values: Any) -> None:
        """The member or its user tells this."""
        self._hear({"event": event, **values})

    def _hear(self, event: Event) -> None:
        if not event["event"].startswith(KEPT_BACK):
            self._tell(told_by(self._member, time.monotonic(), event))


class Written(NamedTuple):
    """A record that brokers have acknowledged, and when they did."""

    at: float
    value: str
    #: In milliseconds, as the record has it.
    timestamp: int = 0

    @property
    def content(self) -> int:
        """By what it is known."""
        return fingerprint(None, self.value.encode(), [], self.timestamp)


#: What was acknowledged: partition and offset.
Acknowledged = Mapping[int, Mapping[int, Written]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the referee found: `faults` in sentences, and how long anything stood still.

    `resume` is the longest time that any partition had acknowledged records waiting and its group
    was given none of them; `waits` has the longest of each partition.
    """

    faults: list[str]
    delivered: int
    repeated: int
    resume: float
    waits: Mapping[int, float]
    #: When each partition's longest wait ended.
    ended: Mapping[int, float]


def judge(told: Iterable[Event], acknowledged: Acknowledged, topic: str, group: str) -> Verdict:
    """All that can be said about this: everything in the topic was to be read by the group."""
    demanded = {**BEFORE_ALL, "event": "progress.demanded", "group": group, "topics": [topic]}
    history = History.of([ANY_FAULT, demanded, *_written(acknowledged, topic), *told])
    known: dict[str, set[int]] = defaultdict(set)
    times: dict[str, list[tuple[float, int]]] = defaultdict(list)
    repeated = 0
    for event in history.named("user.given"):
        books = known[event["partition"]]
        new = [offset for offset in event["offsets"] if offset not in books]
        repeated += len(event["offsets"]) - len(new)
        if new:
            times[event["partition"]].append((event["at"], new[0]))
        books.update(new)
    longest = {
        one: longest_wait(times[f"{topic}-{one}"], written) for one, written in acknowledged.items()
    }
    waits = {one: wait for one, (wait, _) in longest.items()}
    return Verdict(
        faults=[*broken_promises(history), *_failures(history), *_refusals(history)],
        delivered=sum(map(len, known.values())),
        repeated=repeated,
        resume=max(waits.values(), default=0.0),
        waits=waits,
        ended={one: at for one, (_, at) in longest.items()},
    )


def _written(acknowledged: Acknowledged, topic: str) -> Iterator[Event]:
    """Before all: a record may be read before its writer hears that it is written."""
    for partition, written in acknowledged.items():
        for offset, record in sorted(written.items()):
            yield {
                **BEFORE_ALL,
                "event": "records.written",
                "partition": f"{topic}-{partition}",
                "first": offset,
                "last": offset,
                "contents": [record.content],
            }


def _failures(history: History) -> list[str]:
    """Whatever brokers do, no member ends by an error."""
    return [f"{when(one)} failed: {one['because']}" for one in history.named("member.failed")]


def _refusals(history: History) -> list[str]:
    """Who is told *revoked* is still a member: its commit in the callback succeeds. (In storms the
    coordinator may be gone just then, or for longer.)"""
    complaints = []
    revoking: set[str] = set()
    asked: dict[str, Event] = {}
    for event in history.named(
        *("listener.told", "callback.finished", "callback.failed"),
        *("user.commits", "user.committed"),
    ):
        who, name = event["member"], event["event"]
        if name == "listener.told" and event["told"] == "revoked":
            revoking.add(who)
        elif name == "user.commits" and who in revoking:
            asked[who] = event
        elif name == "user.committed":
            asked.pop(who, None)
        elif name.startswith("callback."):
            revoking.discard(who)
            if (commit := asked.pop(who, None)) is not None:
                complaints.append(f"{when(commit)} could not commit before it gave back")
    return complaints


def longest_wait(
    times: Iterable[tuple[float, int]], written: Mapping[int, Written]
) -> tuple[float, float]:
    """The longest wait between two deliveries of a partition, and when it ended.

    Counted from when the older of what was waiting was acknowledged. `times` has when each batch
    was delivered, and the first offset of it.
    """
    order = sorted(written)
    longest, previous = (0.0, 0.0), float("-inf")
    for at, first in times:
        index = bisect_left(order, first)
        if index < len(order):
            since = max(previous, written[order[index]].at)
            longest = max(longest, (at - since, at))
        previous = at
    return longest
