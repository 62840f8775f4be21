"""What `status()` and `why()` say, looked at once a second from outside: `status.seen`; and what
is told of stalls."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from aktor.simulation.checks.hindrances import Hindrances
from aktor.simulation.checks.logs import COMMITTED, Log
from aktor.simulation.checks.readers import Replay, process_of
from aktor.simulation.history import Event, History

__all__ = ["CHECKS"]

#: An owner that was given nothing of a partition for so many seconds and `fetch_max_wait_ms`,
#: although there are records, does not say that nothing is wrong. (A broker may keep a Fetch for as
#: long as that, so before nobody can know; a second later its answer is late. What has just failed
#: is tried again before it is a fault, see docs/operate.md.)
SILENT: Final = 5.0

#: That all is well may be said twice, a second apart: the broker has answered again, these were not
#: the first records that it sent, and its next answer is not late yet.
OFTEN: Final = 3

#: What a fault has begun is felt for longer than it: a handshake that was swallowed is waited for
#: until the connection's set-up has taken too long (a setting), and then for the next attempt, in
#: seconds.
FELT: Final = 2.0

#: A process that stood still for so many seconds says so, within so many after it.
STOOD_STILL: Final = 2.0
SAID_WITHIN: Final = 2.0

#: Clocks that are read one after the other differ by less, in seconds.
SAME_TIME: Final = 0.1

#: What says that nothing is wrong, of the values of `WaitingFor`.
WELL: Final = frozenset({"nothing new", "fetch"})

#: What says that something hinders the consumer, and the partition would be read without that.
HINDERED: Final = frozenset(
    {
        *("application", "broker", "callback", "no leader", "position", "refused"),
        *("session unconfirmed", "throttled"),
    }
)

#: How a sentence begins that says what is wrong with the whole consumer: an application that does
#: not poll, for example, while one of its partitions has nothing here and is being fetched.
_OF_ALL: Final = "Nothing is delivered: "

#: How a sentence blames a broker. Who is asked, or asked next, is not: "at broker 1, b1:9092" and
#: "the coordinator, broker 1, b1:9092".
_BROKER: Final = re.compile(r"(?<!\bat )(?<!coordinator, )\bbroker (\d+), ")

#: What gives some partitions, or all of a member's, another beginning.
_BEGINS: Final = frozenset(
    {"partitions.assigned", "partitions.resumed", "position.sought", "position.reset"}
)
_BEGINS_ALL: Final = frozenset(
    {"member.thawed", "clock.jumped", "actor.restarted", "user.subscribed"}
)

#: What no member can see: which records followers have not got yet.
_UNSEEN: Final = frozenset({"replica.held", "replica.released", "log.truncated", "partition.led"})


class _Silence(NamedTuple):
    """What a consumer said while it was given nothing of a partition since then."""

    seen: Event
    partition: str
    since: float


class _Silences:
    """Owns since when each owner was given nothing of a partition of which there are records."""

    def __init__(self, history: History) -> None:
        self.hindrances = Hindrances()
        self._replay = Replay(history)
        #: When a partition was begun anew, by consumer and partition; and what a partition brings.
        self._begun: dict[tuple[str, str], float] = defaultdict(float)
        self._moved: dict[str, float] = defaultdict(float)
        self._paused: dict[str, set[str]] = defaultdict(set)
        self._held: set[str] = set()
        #: For how long each consumer lets brokers keep a Fetch.
        self._waits: dict[str, float] = defaultdict(lambda: 0.5)
        #: How long each consumer waits for a connection to be set up.
        self.sets_up: dict[str, float] = defaultdict(lambda: 10.0)

    def __iter__(self) -> Iterator[_Silence]:
        """Each look at a consumer, with each partition of which it was given nothing for long."""
        for event, reader in self._replay:
            self.hindrances.apply(event)
            self._apply(event)
            if event["event"] != "status.seen":
                continue
            for partition, mine in reader.owned.items():
                if mine.next is None or partition in self._paused[event["member"]]:
                    continue
                if partition in self._held or mine.outdated:
                    continue
                log = self._replay.logs[partition]
                written = _first_unread(log, mine.next, reader.isolation)
                if written is None:
                    continue
                since = max(
                    written,
                    self._moved[partition],
                    self._begun[event["member"], partition],
                    self._begun[process_of(event["member"]), ""],
                )
                if event["at"] - since > SILENT + self._waits[event["member"]]:
                    yield _Silence(event, partition, since)

    def _apply(self, event: Event) -> None:
        name, member, at = event["event"], event["member"], event["at"]
        if name == "records.delivered":
            self._begun[member, event["partition"]] = at
        elif name in _BEGINS:
            for partition in event["partitions"]:
                self._begun[member, partition] = at
        elif name in _BEGINS_ALL:
            self._begun[process_of(member), ""] = at
        elif name in _UNSEEN or name == "transaction.ended":
            self._moved[event["partition"]] = at
        match name:
            case "consumer.made":
                self._waits[member] = event["fetch_max_wait_ms"] / 1000
                if (longest := event.get("socket_connection_setup_timeout_ms")) is not None:
                    self.sets_up[member] = longest / 1000
            case "replica.held":
                self._held.add(event["partition"])
            case "replica.released":
                self._held.discard(event["partition"])
            case "partitions.paused":
                self._paused[member] |= set(event["partitions"])
            case "partitions.resumed" | "partitions.released" | "partitions.assigned":
                self._paused[member] -= set(event["partitions"])


def _first_unread(log: Log, position: int, isolation: str) -> float | None:
    """When the first record from here on was written that a reader must be given."""
    if isolation == COMMITTED and any(log.open.values()):
        return None
    eras = len(log.eras)
    return next(
        (
            log.records[offset][1]
            for offset in range(position, log.end)
            if log.readable(offset, eras, isolation)
        ),
        None,
    )


def who_is_silent_does_not_say_that_nothing_is_wrong(history: History) -> list[str]:
    """While a consumer was given nothing for `SILENT` seconds of a partition that it owns, has not
    paused, and of which there are records, it does not say `OFTEN` times in a row that there is
    nothing new of it, or that it is being fetched."""
    complaints = []
    #: How often it was said in a row, by consumer, partition and since when that is silent.
    in_a_row: Counter[tuple[str, str, float]] = Counter()
    for seen, partition, since in _Silences(history):
        silence = seen["member"], partition, since
        said = seen["waiting"].get(partition)
        if said not in WELL or seen["why"].startswith(_OF_ALL):
            in_a_row[silence] = 0
            continue
        in_a_row[silence] += 1
        if in_a_row[silence] >= OFTEN:
            complaints.append(
                f"at {seen['at']:.3f} {seen['member']} said {said!r} of {partition}, of which it"
                f" was given nothing since {since:.3f}: {seen['why']}"
            )
    return complaints


def who_is_silent_for_long_tells_of_a_stall(history: History) -> list[str]:
    """While a consumer was given nothing for `SILENT` seconds of a partition of which there are
    records, and says `OFTEN` times in a row who hinders that, its trace tells of the stall."""
    complaints = []
    in_a_row: Counter[tuple[str, str]] = Counter()
    untold = _Untold(history)
    for seen, partition, since in _Silences(history):
        member = seen["member"]
        said = seen["waiting"].get(partition)
        if said not in HINDERED or not untold.at(seen, partition):
            in_a_row[member, partition] = 0
            continue
        in_a_row[member, partition] += 1
        if in_a_row[member, partition] == OFTEN:
            complaints.append(
                f"at {seen['at']:.3f} {member} said {said!r} of {partition}, of which it was given"
                f" nothing since {since:.3f}, and has told of no stall: {seen['why']}"
            )
    return complaints


class _Untold:
    """Owns of which partitions stalls were told that are not over."""

    def __init__(self, history: History) -> None:
        self._events = iter(history.events)
        self._stalled: set[tuple[str, str]] = set()
        self._look: Event | None = None

    def at(self, look: Event, partition: str) -> bool:
        """Whether the consumer that is looked at has told of no stall of this partition."""
        while self._look is not look:
            self._look = event = next(self._events)
            match event["event"]:
                case "delivery.stalled":
                    self._stalled.add((event["member"], event["partition"]))
                case "delivery.resumed":
                    self._stalled.discard((event["member"], event["partition"]))
        return (look["member"], partition) not in self._stalled


def why_blames_only_brokers_to_which_something_has_happened(history: History) -> list[str]:
    """If `why()` names brokers while a partition is silent, one of them was hit by a fault, or its
    connections to this member were."""
    complaints, looked = [], set()
    silences = _Silences(history)
    for seen, _, since in silences:
        member, look = seen["member"], (seen["member"], seen["at"])
        blamed = sorted({int(node) for node in _BROKER.findall(seen["why"])})
        if look in looked or not blamed:
            continue
        looked.add(look)
        felt = since - silences.sets_up[member] - FELT
        if not any(silences.hindrances.has_hit(member, node, felt) for node in blamed):
            complaints.append(
                f"at {seen['at']:.3f} {member} blamed brokers that are well: {seen['why']}"
            )
    return complaints


def no_record_is_given_out_during_a_stall(history: History) -> list[str]:
    """Between the beginning and the end of a stall, as `delivery.resumed` tells them, the consumer
    gave out no record of the partition."""
    complaints = []
    given: dict[tuple[str, str], list[float]] = defaultdict(list)
    stalls: list[tuple[Event, float, float]] = []
    jumps: dict[str, list[float]] = defaultdict(list)
    for event in history.events:
        member, at = event["member"], event["at"]
        match event["event"]:
            case "records.delivered":
                times = (at - event.get("first_ago", 0.0), at - event.get("last_ago", 0.0))
                given[member, event["partition"]] += times
            case "delivery.resumed":
                ended = at - event["ended_ago"]
                stalls.append((event, ended - event["seconds"], ended))
            # (A frozen process has a clock of its own: it stood still, too.)
            case "clock.jumped" | "member.thawed":
                jumps[process_of(member)].append(at)
    for event, began, ended in stalls:
        member, partition = event["member"], event["partition"]
        if any(began <= at <= event["at"] for at in jumps[process_of(member)]):
            continue  # by which clock it was as long is not known
        inside = [
            at for at in given[member, partition] if began + SAME_TIME < at < ended - SAME_TIME
        ]
        if inside:
            complaints.append(
                f"at {event['at']:.3f} {member} told that nothing of {partition} was given out from"
                f" {began:.3f} to {ended:.3f} ({event['reason']}), and gave out some at"
                f" {inside[0]:.3f}"
            )
    return complaints


class _Standstills:
    """Owns which processes stood still and have to say so, and by how much a clock has jumped."""

    def __init__(self) -> None:
        #: Since when a process stands still, and for how long it did last, or its clock jumped.
        self._frozen: dict[str, float] = {}
        self.lasted: dict[str, float] = defaultdict(float)
        self._owned: dict[str, set[str]] = defaultdict(set)
        #: By when a consumer has to say so, by its name.
        self.due: dict[str, float] = {}

    def apply(self, event: Event) -> None:
        """What has happened."""
        member, at = event["member"], event["at"]
        process = process_of(member)
        match event["event"]:
            case "member.frozen":
                self._frozen[process] = at
                self._forget(process)
            # (Of a real process it is not said: what else keeps the machine busy is not known.)
            case "member.thawed" if not event.get("asleep", True):
                self.lasted[process] = at - self._frozen.pop(process)
                if self.lasted[process] >= STOOD_STILL:
                    owners = [one for one, owned in self._owned.items() if owned]
                    here = [one for one in owners if process_of(one) == process]
                    self.due |= dict.fromkeys(here, at + SAID_WITHIN)
            case "member.killed" | "member.thawed":
                self._forget(process)
            case "clock.jumped":
                self.lasted[process] = event["seconds"]
                self._forget(process)
            case "partitions.assigned":
                self._owned[member] = set(event["partitions"])
            case "partitions.released":
                self._owned[member] -= set(event["partitions"])
                if not self._owned[member]:
                    self.due.pop(member, None)
            case "consumer.closed" | "consumer.failed":
                self._owned.pop(member, None)
                self.due.pop(member, None)
            case "process.stood_still":
                self.due.pop(member, None)

    def _forget(self, process: str) -> None:
        self.due = {one: at for one, at in self.due.items() if process_of(one) != process}


def who_stood_still_says_so_and_nobody_else(history: History) -> list[str]:
    """A consumer with partitions whose process stood still for `STOOD_STILL` seconds tells
    `process.stood_still` within `SAID_WITHIN`; it tells of no longer time than it was, and of none
    if it did not stand still, and its clock did not jump."""
    complaints, known = [], _Standstills()
    for event in history.events:
        for member in [one for one, at in known.due.items() if at < event["at"]]:
            complaints.append(
                f"{member} stood still, and had not said so at {known.due.pop(member):.3f}"
            )
        if event["event"] == "process.stood_still":
            lasted = known.lasted[process_of(event["member"])]
            if event["seconds"] > lasted + SAME_TIME:
                complaints.append(
                    f"at {event['at']:.3f} {event['member']} said that it stood still for"
                    f" {event['seconds']} s; it did so for {lasted:.3f}"
                )
        known.apply(event)
    return complaints


CHECKS: Final = (
    who_stood_still_says_so_and_nobody_else,
    no_record_is_given_out_during_a_stall,
    who_is_silent_for_long_tells_of_a_stall,
    who_is_silent_does_not_say_that_nothing_is_wrong,
    why_blames_only_brokers_to_which_something_has_happened,
)
