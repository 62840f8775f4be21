"""A group under load while things break, and a referee who judges what its members were given.

with Stage(kafka, topic, group) as stage:      # creates the topic
    stage.join("a", "b", "c")                  # or join("a", process=True), to be shot at
    stage.load()                               # 300 unique values a second from here on
    ...                                        # whatever shall go wrong
    verdict = stage.finish()                   # all that was acknowledged has been delivered
    assert verdict.faults == []

A member polls, says what it was given, works for 20 ms, commits, and says what it committed: in
this order, so that a member that is killed has said all that it may have committed. All times are
those of the machine's monotonic clock, which processes share.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, Self

from confluent_kafka import (
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
)
from confluent_kafka import TopicPartition as Place
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from aktor import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from tests.embedded import Cluster
from tests.kafka.support import ROOT, hurried, wait_until
from tests.real_kafka import topics

PARTITIONS: Final = 12
RECORDS_PER_SECOND: Final = 300
TICK_S: Final = 0.02
WORK_S: Final = 0.02
POLL_MS: Final = 100
SESSION_S: Final = 6.0

#: A group that notices things as soon as the issue's figures ask for; the rest are defaults.
SETTINGS: Final[Mapping[str, Any]] = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "session_timeout_ms": round(SESSION_S * 1000),
    "heartbeat_interval_ms": 500,
}

#: A writer that is not the bottleneck when a broker hangs: it gives up on it after 2 s. It is
#: librdkafka's, since kafka-python's spins while a broker stands still, and the embedded cluster
#: shares its process.
WRITER: Final[Mapping[str, Any]] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 5,
    "socket.timeout.ms": 2000,
    # Longer than three brokers may need to start on a busy machine.
    "message.timeout.ms": 120_000,
    "topic.metadata.refresh.interval.ms": 1000,
    "reconnect.backoff.max.ms": 200,
}

#: How a group rebalances: by the classic protocol (eager or cooperative), or by that of KIP-848.
Manner = Literal["eager", "cooperative", "consumer"]

Report = dict[str, Any]
Say = Callable[..., None]


# -- a member


class Control:
    """What a test may tell a member: to stop, to take long over its next batch, or to freeze."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.freeze = threading.Event()
        self.work_once_s = 0.0
        #: When it began to take long, by its own watch.
        self.long_work_began = 0.0


class Listener(ConsumerRebalanceListener):
    """Says what it is told, and commits before partitions go."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Say that these are ours."""
        self._member.say("assigned", partitions=numbers(assigned))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Commit, so that the next owner goes on where we stopped."""
        self._member.commit("revoked")
        self._member.say("released", partitions=numbers(revoked), how="revoked")

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        """They are somebody else's."""
        self._member.say("released", partitions=numbers(lost), how="lost")


class GroupMember:
    """Owns a consumer; runs on a thread of the test, or as the main program of a process."""

    def __init__(self, settings: Mapping[str, Any], control: Control, say: Say) -> None:
        self.say = say
        self._control = control
        own = dict(settings)
        topic = own.pop("topic")
        self._commits = not own["enable_auto_commit"]
        if own.pop("manner") == "cooperative":
            own["partition_assignment_strategy"] = [CooperativeStickyAssignor]
        self.consumer = KafkaConsumer(**own)
        self.consumer.subscribe([topic], listener=Listener(self))

    def run(self) -> None:
        """Read until told to stop, then close."""
        with contextlib.closing(self.consumer):
            while not self._control.stop.is_set():
                self._turn()
            self.commit("stop")
            owned = self.consumer.assignment()
            positions = {one.partition: self.consumer.position(one) for one in owned}
            self.say("stopping", positions=positions)
        self.say("closed")

    def _turn(self) -> None:
        began = time.monotonic()
        batches = self.consumer.poll(timeout_ms=POLL_MS)
        self.say("polled", took=time.monotonic() - began, got=bool(batches))
        if not batches:
            return
        for partition, records in batches.items():
            self.say(
                "read",
                partition=partition.partition,
                offsets=[record.offset for record in records],
                values=[record.value.decode() for record in records],
            )
        self._work()
        self.commit("turn")

    def _work(self) -> None:
        """All that was given to us has been said, and nothing of it is committed yet."""
        control = self._control
        if control.freeze.is_set():
            control.freeze.clear()
            self.say("freezing")
            os.kill(os.getpid(), signal.SIGSTOP)
        if not control.work_once_s:
            time.sleep(WORK_S)
            return
        work_s, control.long_work_began = control.work_once_s, time.monotonic()
        control.work_once_s = 0.0
        time.sleep(work_s)

    def commit(self, where: str) -> None:
        """Commit what was given to us; a refusal is said, and the next commit has it all again.

        With auto-commit on, that is aktor's to do.
        """
        if not self._commits:
            return
        began = time.monotonic()
        try:
            owned = self.consumer.assignment()
            self.consumer.commit()
        except Exception as error:
            because = f"{type(error).__name__}: {error}"
            self.say("refused", because=because, where=where, took=time.monotonic() - began)
        else:
            partitions = numbers(owned)
            took = time.monotonic() - began
            self.say("committed", partitions=partitions, where=where, took=took)


class TraceHandler(logging.Handler):
    """Passes aktor's events on."""

    def __init__(self, say: Callable[[Report], None]) -> None:
        super().__init__(logging.INFO)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        """One event."""
        if (event := getattr(record, "aktor", None)) is not None:
            self._say(event)


def numbers(partitions: Iterable[TopicPartition]) -> list[int]:
    """Their partition ids, in order."""
    return sorted(one.partition for one in partitions)


@contextlib.contextmanager
def passing_on_events(say: Callable[[Report], None]) -> Any:
    """All events of this process's consumers go to `say` meanwhile."""
    logger, handler = logging.getLogger("aktor"), TraceHandler(say)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def main(settings: Mapping[str, Any]) -> None:
    """A member as a process: reports on stdout; SIGTERM ends it cleanly, SIGUSR1 freezes it."""
    control, lock = Control(), threading.Lock()

    def say(what: str, **values: Any) -> None:
        line = json.dumps({"said": what, "at": time.monotonic(), **values})
        with lock:
            print(line, flush=True)

    signal.signal(signal.SIGTERM, lambda *_: control.stop.set())
    signal.signal(signal.SIGUSR1, lambda *_: control.freeze.set())
    logging.getLogger("aktor").propagate = False
    with passing_on_events(lambda event: say("event", event=event)):
        GroupMember(settings, control, say).run()


# -- members as the test sees them


class Ensemble:
    """All that the members said, in the order in which it arrived."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, Report]] = []
        self._lock = threading.Lock()

    def hear(self, member: str, report: Report) -> None:
        """One report of a member; those of one member come in its order."""
        with self._lock:
            self.reports.append((member, report))

    def said(self, what: str, *, by: str | None = None, since: float = 0.0) -> list[Report]:
        """The reports of this kind."""
        return [
            report
            for member, report in self.reports[:]
            if report["said"] == what and report["at"] >= since and by in (None, member)
        ]

    def events(self, name: str, *, by: str | None = None, since: float = 0.0) -> list[Report]:
        """The trace events of this name."""
        said = self.said("event", by=by, since=since)
        return [report["event"] for report in said if report["event"]["event"] == name]

    def owners(self, ignoring: str | None = None) -> dict[int, str]:
        """Who owns each partition, as far as the members (but for one) said."""
        owners: dict[int, str] = {}
        told = [
            (member, report)
            for member, report in self.reports[:]
            if member != ignoring and report["said"] in ("assigned", "released", "killed")
        ]
        # What a process says may arrive later than what a thread said after it.
        for member, report in sorted(told, key=lambda one: float(one[1]["at"])):
            match report["said"]:
                case "assigned":
                    owners.update(dict.fromkeys(report["partitions"], member))
                case "released" | "killed":
                    gone = report.get("partitions")
                    for one in [p for p, owner in owners.items() if owner == member]:
                        if gone is None or one in gone:
                            del owners[one]
        return owners


class ThreadMember:
    """A member on a thread of this process."""

    killed = False

    def __init__(self, name: str, settings: Mapping[str, Any], ensemble: Ensemble) -> None:
        self.name = name
        self.control = Control()
        self._settings, self._ensemble = settings, ensemble
        self._thread = threading.Thread(target=self._run, name=f"member-{name}", daemon=True)
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Begin to close."""
        self.control.stop.set()

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join(40)
        assert not self._thread.is_alive(), f"member {self.name} did not close within 40 s"

    def abandon(self) -> None:
        """Nobody waits for it any more."""
        self.control.stop.set()

    def _run(self) -> None:
        try:
            GroupMember(self._settings, self.control, self._say).run()
        except BaseException as error:
            self._say("failed", because=f"{type(error).__name__}: {error}")

    def _say(self, what: str, **values: Any) -> None:
        self._ensemble.hear(self.name, {"said": what, "at": time.monotonic(), **values})


class ProcessMember:
    """A member as a process of its own, which can be killed and stopped."""

    def __init__(self, name: str, settings: Mapping[str, Any], ensemble: Ensemble) -> None:
        self.name = name
        self._ensemble = ensemble
        self.killed = False
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.kafka.fault_support", json.dumps(dict(settings))],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def kill(self) -> None:
        """SIGKILL. All that it said is known when this returns."""
        self.killed = True
        self._process.kill()
        self._reader.join(10)
        self._ensemble.hear(self.name, {"said": "killed", "at": time.monotonic()})

    def stop(self) -> None:
        """Let it stop itself (SIGSTOP) while it works on what it was given: what it says later is
        new. From outside, one would now and then stop it between two things that it has to say."""
        self._process.send_signal(signal.SIGUSR1)
        wait_until(lambda: self._ensemble.said("freezing", by=self.name), f"{self.name} freezes")

    def go_on(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def ask_to_stop(self) -> None:
        """SIGTERM: it commits, leaves and ends."""
        self._process.send_signal(signal.SIGTERM)

    def join(self) -> None:
        """Wait for its end."""
        if not self.killed:
            self._reader.join(40)
            assert not self._reader.is_alive(), f"member {self.name} did not end within 40 s"

    def abandon(self) -> None:
        """Make sure that it is gone."""
        self.killed = True
        self._process.kill()
        self._reader.join(10)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        for line in self._process.stdout:
            if line.endswith("\n"):
                self._ensemble.hear(self.name, json.loads(line))
        errors = self._process.stderr.read()
        if self._process.wait() != 0 and not self.killed:
            at = time.monotonic()
            self._ensemble.hear(self.name, {"said": "failed", "because": errors[-2000:], "at": at})


# -- the writer


class Writer(threading.Thread):
    """Writes unique values, round robin, and notes when each was acknowledged, and where."""

    def __init__(self, bootstrap: list[str], topic: str) -> None:
        super().__init__(name="writer", daemon=True)
        self.acknowledged: dict[int, dict[int, tuple[float, str]]] = defaultdict(dict)
        #: By value, when a broker acknowledged it without its offset: it had it from before a
        #: retry. Where it is, its first reader knows.
        self.unplaced: dict[int, dict[str, float]] = defaultdict(dict)
        self.sent = 0
        self.error: BaseException | None = None
        self._servers, self._topic = bootstrap, topic
        self._ending = threading.Event()

    def run(self) -> None:
        try:
            producer = Producer({"bootstrap.servers": ",".join(self._servers), **WRITER})
            began = time.monotonic()
            while not self._ending.wait(TICK_S):
                self._catch_up(producer, (time.monotonic() - began) * RECORDS_PER_SECOND)
                producer.poll(0)
            producer.flush(60)
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        """Stop writing; all that was sent has been acknowledged when this returns."""
        self._ending.set()
        self.join(70)
        if self.error is not None:
            raise self.error
        noted = [*self.acknowledged.values(), *self.unplaced.values()]
        missing = self.sent - sum(map(len, noted))
        assert missing == 0, f"the writer has no acknowledgement of {missing} of {self.sent} values"

    def place(self, partition: int, offsets: Iterable[int], values: Iterable[str]) -> None:
        """These were read there: whatever of it was acknowledged without an offset has one now."""
        unplaced = self.unplaced[partition]
        for offset, value in zip(offsets, values, strict=True):
            if value in unplaced:
                self.acknowledged[partition].setdefault(offset, (unplaced.pop(value), value))

    def abandon(self) -> None:
        """Nobody waits for it any more."""
        self._ending.set()

    def _catch_up(self, producer: Any, due: float) -> None:
        while self.sent < due:
            partition, value = self.sent % PARTITIONS, f"value-{self.sent}"
            producer.produce(
                self._topic, value.encode(), partition=partition, on_delivery=self._note
            )
            self.sent += 1

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.error = KafkaException(error)
            return
        written: Any = message
        partition, offset, value = written.partition(), written.offset(), written.value().decode()
        if offset is None:
            self.unplaced[partition][value] = time.monotonic()
        else:
            self.acknowledged[partition].setdefault(offset, (time.monotonic(), value))


# -- the witness


class Witness(threading.Thread):
    """Reads the topic by librdkafka, outside of any group: when Kafka had it for whoever asked.

    A node that stands still for a moment of its own makes everybody wait, and says nothing of us.
    """

    def __init__(self, bootstrap: list[str], topic: str) -> None:
        super().__init__(name="witness", daemon=True)
        self.times: dict[int, list[tuple[float, int]]] = defaultdict(list)
        self._consumer = Consumer(
            {
                "bootstrap.servers": ",".join(bootstrap),
                "group.id": "witness",
                "enable.auto.commit": False,
            }
        )
        places = [Place(topic, one, OFFSET_END) for one in range(PARTITIONS)]
        self._consumer.assign(places)
        self._ending = threading.Event()

    def run(self) -> None:
        while not self._ending.is_set():
            self._note(self._consumer.poll(0.1))
        self._consumer.close()

    def end(self) -> None:
        """It has seen enough."""
        self._ending.set()

    def _note(self, message: Message | None) -> None:
        if message is not None and message.error() is None:
            read: Any = message
            self.times[read.partition()].append((time.monotonic(), read.offset()))


# -- the referee


@dataclass(slots=True, kw_only=True)
class Ownership:
    """One member's time with one partition; `how` it ended: revoked, lost, killed, or None."""

    member: str
    partition: int
    began: float
    ended: float = float("inf")
    how: str | None = None
    first: int | None = None
    next: int | None = None
    last_read: float = 0.0


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


class Referee:
    """Reads the reports once, from the first to the last."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.repeated = 0
        self._open: dict[tuple[str, int], Ownership] = {}
        self._ownerships: dict[int, list[Ownership]] = defaultdict(list)
        self._delivered: dict[int, dict[int, str]] = defaultdict(dict)
        self._times: dict[int, list[tuple[float, int]]] = defaultdict(list)
        self._commits: dict[int, list[tuple[float, int]]] = defaultdict(list)

    def judge(
        self,
        reports: Iterable[tuple[str, Report]],
        acknowledged: Mapping[int, Mapping[int, tuple[float, str]]],
    ) -> Verdict:
        """All that can be said about these reports."""
        for member, report in sorted(reports, key=lambda one: float(one[1]["at"])):
            self._hear(member, report)
        self._all_delivered(acknowledged)
        self._one_owner_at_a_time()
        longest = {
            one: longest_wait(self._times[one], written) for one, written in acknowledged.items()
        }
        waits = {one: wait for one, (wait, _) in longest.items()}
        return Verdict(
            faults=self.faults,
            delivered=sum(map(len, self._delivered.values())),
            repeated=self.repeated,
            resume=max(waits.values(), default=0.0),
            waits=waits,
            ended={one: at for one, (_, at) in longest.items()},
        )

    def _hear(self, member: str, report: Report) -> None:
        at = report["at"]
        match report["said"]:
            case "assigned":
                for one in report["partitions"]:
                    ownership = Ownership(member=member, partition=one, began=at)
                    self._open[member, one] = ownership
                    self._ownerships[one].append(ownership)
            case "released":
                self._end(member, report["partitions"], report["how"], at)
            case "killed":
                self._end(member, [p for m, p in self._open if m == member], "killed", at)
            case "read":
                self._read(member, report)
            case "committed":
                self._commit(member, report)
            case "stopping":
                self._position_is_consumed(member, report["positions"])
            case "failed":
                self.faults.append(f"member {member} failed: {report['because']}")

    def _end(self, member: str, partitions: Iterable[int], how: str, at: float) -> None:
        for one in partitions:
            ownership = self._open.pop((member, one), None)
            if ownership is None:
                self.faults.append(f"{member} gave up partition {one} without owning it")
            else:
                ownership.how, ownership.ended = how, at

    def _read(self, member: str, report: Report) -> None:
        partition, at = report["partition"], report["at"]
        ownership = self._open.get((member, partition))
        if ownership is None:
            self.faults.append(f"{member} read partition {partition} without owning it")
            return
        expected = ownership.next
        if expected is None:
            self._begins_rightly(ownership, report["offsets"][0])
            expected = ownership.first = report["offsets"][0]
        wanted = list(range(expected, expected + len(report["offsets"])))
        if report["offsets"] != wanted:
            self.faults.append(
                f"{member} read {report['offsets']} of partition {partition} instead of {wanted}"
            )
        ownership.next, ownership.last_read = report["offsets"][-1] + 1, at
        books = self._delivered[partition]
        new = [offset for offset in report["offsets"] if offset not in books]
        self.repeated += len(report["offsets"]) - len(new)
        if new:
            self._times[partition].append((at, new[0]))
        books.update(zip(report["offsets"], report["values"], strict=True))

    def _begins_rightly(self, ownership: Ownership, first: int) -> None:
        """Where the one before stopped; or, if it died or was thrown out, at its last commit."""
        partition = ownership.partition
        before = [one for one in self._ownerships[partition] if one.next is not None]
        reached = max((one.next or 0 for one in before), default=0)
        excused = bool(before) and any(one.how in ("lost", "killed", None) for one in before[-2:])
        earliest = self._committed(partition) if excused else reached
        if not earliest <= first <= reached:
            ends = [one.how for one in before]
            self.faults.append(
                f"{ownership.member} began partition {partition} at {first} instead of {reached}"
                f" (committed {self._committed(partition)}, earlier ownerships ended {ends})"
            )

    def _commit(self, member: str, report: Report) -> None:
        # One who was frozen may hear late that a commit succeeded before others made theirs.
        began = report["at"] - report["took"]
        for one in report["partitions"]:
            ownership = self._open.get((member, one))
            if ownership is None or ownership.next is None:
                continue
            before = max((n for at, n in self._commits[one] if at <= began), default=0)
            if ownership.next < before:
                self.faults.append(
                    f"{member} took the commit of partition {one} back from {before} to"
                    f" {ownership.next}"
                )
            self._commits[one].append((report["at"], ownership.next))

    def _committed(self, partition: int) -> int:
        return max((offset for _, offset in self._commits[partition]), default=0)

    def _position_is_consumed(self, member: str, positions: Mapping[Any, int]) -> None:
        for partition, position in positions.items():
            ownership = self._open.get((member, int(partition)))
            consumed = ownership.next if ownership is not None else None
            if consumed is not None and consumed != position:
                self.faults.append(
                    f"{member}'s position of partition {partition} is {position}, but it was given"
                    f" everything before {consumed}"
                )

    def _all_delivered(self, acknowledged: Mapping[int, Mapping[int, tuple[float, str]]]) -> None:
        for partition, written in acknowledged.items():
            books = self._delivered[partition]
            if lost := sorted(written.keys() - books.keys()):
                self.faults.append(
                    f"{len(lost)} records of partition {partition} were never delivered, the first"
                    f" at {lost[0]}"
                )
            false = [offset for offset, (_, value) in written.items() if books.get(offset) != value]
            if wrong := set(false) - set(lost):
                self.faults.append(f"values of partition {partition} are wrong at {sorted(wrong)}")

    def _one_owner_at_a_time(self) -> None:
        for partition, all_of_it in self._ownerships.items():
            times = sorted(all_of_it, key=lambda one: one.began)
            for i, before in enumerate(times):
                for after in times[i + 1 :]:
                    # One who was thrown out may learn of it late, but may hand out nothing more.
                    gone = before.how in ("lost", "killed", None)
                    until = before.last_read if gone else before.ended
                    if after.member != before.member and after.began < until:
                        self.faults.append(
                            f"{after.member} owned partition {partition} {until - after.began:.3f}"
                            f" s before {before.member} was done with it ({before.how})"
                        )


def longest_wait(
    times: Iterable[tuple[float, int]], written: Mapping[int, tuple[float, str]]
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
            since = max(previous, written[order[index]][0])
            longest = max(longest, (at - since, at))
        previous = at
    return longest


# -- all together

#: What events are worth telling of a test that failed, by how they begin.
TELLING: Final = (
    *("rebalance.", "member.", "coordinator.", "connection."),
    *("heartbeat.failed", "commit.retried", "commit.failed"),
)
TALE_LINES: Final = 60


def _is_telling(report: Report) -> bool:
    if report["said"] == "event":
        return str(report["event"]["event"]).startswith(TELLING)
    return report["said"] not in ("polled", "read", "committed")


def _in_short(member: str, report: Report) -> str:
    """One line of a tale."""
    told = dict(report.get("event", report))
    what = told.pop("event", None) or told.pop("said")
    words = ("because", "partitions", "how", "took", "ms", "node", "generation", "where")
    rest = " ".join(f"{one}={told[one]}" for one in words if one in told)
    return f"{member} {what} {rest}"[:200]


class Stage:
    """Owns the members, the writer and the history of one test."""

    def __init__(
        self,
        kafka: Cluster,
        topic: str,
        group: str,
        *,
        manner: Manner = "eager",
        **settings: Any,
    ) -> None:
        self.kafka, self.topic, self.group = kafka, topic, group
        self.ensemble = Ensemble()
        self.members: dict[str, Any] = {}
        self._manner = manner
        if manner == "consumer":
            settings["group_protocol"] = "consumer"
        own = {"bootstrap_servers": kafka.bootstrap_servers, **settings}
        self._settings = hurried(SETTINGS, own)
        self._writer = Writer(kafka.bootstrap_servers, topic)
        self._witness: Witness | None = None
        self._events = passing_on_events(self._hear_event)
        self._loaded_at = 0.0
        #: What disturbed the group between `load` and `finish`; a test says what may.
        self.unrest: list[str] = []
        topics.create_topic(kafka.bootstrap_servers, topic, partitions=PARTITIONS, replication=3)
        topics.coordinator_of(kafka.bootstrap_servers, group)

    def __enter__(self) -> Self:
        self._events.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            error.add_note(self.tale())
        self._writer.abandon()
        if self._witness is not None:
            self._witness.end()
        for member in self.members.values():
            member.abandon()
        self._events.__exit__(kind, error, traceback)

    def join(self, *names: str, process: bool = False, **settings: Any) -> None:
        """Start members; see `settled`."""
        for name in names:
            own = {
                **self._settings,
                "topic": self.topic,
                "group_id": self.group,
                "client_id": name,
                "manner": self._manner,
                **settings,
            }
            kind = ProcessMember if process else ThreadMember
            self.members[name] = kind(name, own, self.ensemble)

    def settled(
        self, *names: str, ignoring: str | None = None, within: float = 30.0
    ) -> dict[str, set[int]]:
        """Wait until just these members own all partitions; who owns which.

        What the member `ignoring` said does not count: it can't know what it lost.
        """

        def done() -> bool:
            owners = self.ensemble.owners(ignoring)
            return len(owners) == PARTITIONS and set(owners.values()) == set(names)

        wait_until(done, f"{names} share the partitions", within)
        return self.shares()

    def shares(self) -> dict[str, set[int]]:
        """Who owns which partitions now."""
        shares: dict[str, set[int]] = defaultdict(set)
        for partition, member in self.ensemble.owners().items():
            shares[member].add(partition)
        return shares

    def load(self, seconds: float = 1.5) -> None:
        """Begin to write, and let it run for some time."""
        self._writer.start()
        wait_until(lambda: len(self.written()) == PARTITIONS, "all partitions have records", 30)
        time.sleep(seconds)
        self._loaded_at = time.monotonic()

    def call_witness(self) -> None:
        """From now on somebody else reads the topic too, see `witnessed`."""
        self._witness = Witness(self.kafka.bootstrap_servers, self.topic)
        self._witness.start()

    def witnessed(self, partition: int) -> float:
        """How long the witness had to wait for records of this partition that were there."""
        assert self._witness is not None, "nobody was called"
        acknowledged = self._writer.acknowledged[partition]
        return longest_wait(self._witness.times[partition], acknowledged)[0]

    def coordinator(self) -> int:
        """The broker that coordinates the group."""
        return topics.coordinator_of(self.kafka.bootstrap_servers, self.group)

    def bystander(self) -> int:
        """A broker that leads partitions and does not coordinate the group."""
        return next(one for one in self.kafka.node_ids if one != self.coordinator())

    def led_by(self, node_id: int) -> set[int]:
        """The partitions that this broker leads."""
        partitions = self.kafka.view(node_id).of_topic(self.topic)
        return {one.index for one in partitions if one.leader == node_id}

    def written(self) -> dict[int, int]:
        """The offset after the last acknowledged record of each partition."""
        found = dict(self._writer.acknowledged)
        return {one: max(list(offsets), default=-1) + 1 for one, offsets in found.items()}

    def leave(self, name: str) -> None:
        """One member commits, leaves and closes."""
        self.members[name].ask_to_stop()
        self.members[name].join()

    def dawdle(self, name: str, seconds: float) -> float:
        """A member takes so long over its next batch; returns when it began."""
        control = self.members[name].control
        control.work_once_s = seconds
        wait_until(lambda: control.work_once_s == 0, f"{name} begins to work")
        return float(control.long_work_began)

    def kill(self, name: str) -> float:
        """SIGKILL a member that is a process; returns when."""
        at = time.monotonic()
        self.members[name].kill()
        return at

    def drain(self, within: float = 30.0) -> None:
        """Write no more, and wait until all that was written was delivered to somebody."""
        self._writer.end()

        def done() -> bool:
            reached: dict[int, int] = defaultdict(int)
            for report in self.ensemble.said("read"):
                one = report["partition"]
                reached[one] = max(reached[one], report["offsets"][-1] + 1)
                self._writer.place(one, report["offsets"], report["values"])
            placed = not any(self._writer.unplaced.values())
            return placed and all(reached[one] >= end for one, end in self.written().items())

        wait_until(done, "everything that was written is delivered", within)

    def finish(self, within: float = 30.0) -> Verdict:
        """Drain, let everybody leave, and judge."""
        self.drain(within)
        self.unrest = self._look_for_unrest()
        for member in self.members.values():
            if not member.killed:
                member.ask_to_stop()
        for member in self.members.values():
            member.join()
        return self.verdict()

    def story(self, partition: int, verdict: Verdict) -> str:
        """What was acknowledged, delivered and traced around this partition's longest wait."""
        ended, wait = verdict.ended[partition], verdict.waits[partition]
        began = ended - wait
        told = [
            (at, f"acknowledged {offset}")
            for offset, (at, _) in self._writer.acknowledged[partition].items()
        ]
        for member, report in self.ensemble.reports[:]:
            if report["said"] == "event":
                told.append((report["at"], f"{member}: {report['event']}"))
            elif report["said"] == "read" and report["partition"] == partition:
                told.append((report["at"], f"{member} read {report['offsets']}"))
        lines = [
            f"{at - began:8.3f} {what}"
            for at, what in sorted(told)
            if began - 0.3 <= at <= ended + 0.1
        ]
        return "\n".join(
            [f"partition {partition} waited {wait:.3f} s:", *lines[:20], *lines[20:][-20:]]
        )

    def tale(self) -> str:
        """What the group went through since it was loaded, and what disturbed it, last things last.

        Seconds since then; it stands below whatever fails.
        """
        lines = [
            f"{report['at'] - self._loaded_at:8.3f} {_in_short(member, report)}"
            for member, report in self.ensemble.reports[:]
            if report["at"] >= self._loaded_at > 0 and _is_telling(report)
        ]
        return "\n".join(["what the group went through:", *lines[-TALE_LINES:]])

    def verdict(self) -> Verdict:
        """What the referee says about everything so far."""
        return Referee().judge(self.ensemble.reports[:], self._writer.acknowledged)

    def _look_for_unrest(self) -> list[str]:
        since, found = self._loaded_at, []
        for event in self.ensemble.events("rebalance.triggered", since=since):
            found.append(f"{event['consumer']} rebalanced: {event['because']}")
        for event in self.ensemble.events("member.lost", since=since):
            found.append(f"{event['consumer']} lost {event['partitions']}: {event['because']}")
        for report in self.ensemble.said("refused", since=since):
            found.append(f"a commit ({report['where']}) was refused: {report['because']}")
        return found

    def _hear_event(self, event: Report) -> None:
        report = {"said": "event", "at": time.monotonic(), "event": event}
        self.ensemble.hear(str(event.get("consumer")), report)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
