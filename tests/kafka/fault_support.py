"""A group under load while things break; what its members were given a referee judges.

with World(kafka, topic, group) as world:      # creates the topic
    world.join("a", "b", "c")                  # or join("a", process=True), to be shot at
    world.load()                               # 300 unique values a second from here on
    ...                                        # whatever shall go wrong
    verdict = world.finish()                   # all that was acknowledged has been delivered
    assert verdict.faults == []

A member polls, says what it was given, works for 20 ms, commits, and says what it committed: in
this order, so that a member that is killed has said all that it may have committed. All times are
those of the machine's monotonic clock, which processes share.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
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
from aktor.consumer.system import HOST
from aktor.simulation.history import Event, told_by
from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.real.metadata import coordinates
from tests.kafka.referee import Telling, Verdict, Written, judge, longest_wait
from tests.kafka.support import ROOT, hurried, wait_until

PARTITIONS: Final = 12
RECORDS_PER_SECOND: Final = 300
TICK_S: Final = 0.02
WORK_S: Final = 0.02
POLL_MS: Final = 100

#: When a member that is silent counts as gone, where a test waits for that. Elsewhere it is so long
#: that a machine that stands still for some seconds puts nobody out.
SHORT_SESSION_S: Final = 6.0
SESSION_S: Final = 30.0

#: A limit for what hangs, and no promise: a member may be a process, which takes long to start on a
#: busy machine. (How prompt a group is, other checks say.)
WITHIN_S: Final = 120.0

#: How often an outsider looks for a group's coordinator, and how long a broker may take to answer.
LOOK_S: Final = 0.2
LOOK_TIMEOUT_S: Final = 1.0

#: A group that notices things as soon as the issue's figures ask for; the rest are defaults.
SETTINGS: Final[Mapping[str, Any]] = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
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

    def __init__(
        self,
        settings: Mapping[str, Any],
        control: Control,
        say: Say,
        tell: Callable[[Event], None],
    ) -> None:
        self.say = say
        self._control = control
        own = dict(settings)
        self._host = Telling(own["client_id"], tell)
        HOST.set(self._host)
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
            for one in self.consumer.assignment():
                self.consumer.position(one)  # the referee compares it with what was given
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
            self._host.note("member.frozen")
            os.kill(os.getpid(), signal.SIGSTOP)
            self._host.note("member.thawed")
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


def numbers(partitions: Iterable[TopicPartition]) -> list[int]:
    """Their partition ids, in order."""
    return sorted(one.partition for one in partitions)


def main(settings: Mapping[str, Any]) -> None:
    """A member as a process: reports on stdout; SIGTERM ends it cleanly, SIGUSR1 freezes it."""
    control, lock = Control(), threading.Lock()

    def tell(what: Mapping[str, Any]) -> None:
        line = json.dumps(what, default=str)
        with lock:
            print(line, flush=True)

    def say(what: str, **values: Any) -> None:
        tell({"said": what, "at": time.monotonic(), **values})

    signal.signal(signal.SIGTERM, lambda *_: control.stop.set())
    signal.signal(signal.SIGUSR1, lambda *_: control.freeze.set())
    GroupMember(settings, control, say, tell).run()


# -- members as the test sees them


class Ensemble:
    """All that the members said, and what happened to their consumers, in the order in which it
    arrived."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, Report]] = []
        self.told: list[Event] = []
        self._lock = threading.Lock()

    def hear(self, member: str, report: Report) -> None:
        """One report of a member; those of one member come in its order."""
        with self._lock:
            self.reports.append((member, report))

    def tell(self, event: Event) -> None:
        """One event; those of one member come in its order."""
        with self._lock:
            self.told.append(event)

    def note(self, member: str, event: str, **values: Any) -> None:
        """What happens to a member that can't say it."""
        self.tell(told_by(member, time.monotonic(), {"event": event, **values}))

    def said(self, what: str, *, by: str | None = None, since: float = 0.0) -> list[Report]:
        """The reports of this kind."""
        return [
            report
            for member, report in self.reports[:]
            if report["said"] == what and report["at"] >= since and by in (None, member)
        ]

    def events(self, name: str, *, since: float = 0.0) -> list[Event]:
        """Those of this name."""
        return [one for one in self.told[:] if one["event"] == name and one["at"] >= since]

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
        self._thread.join(WITHIN_S)
        assert not self._thread.is_alive(), (
            f"member {self.name} did not close within {WITHIN_S:g} s"
        )

    def abandon(self) -> None:
        """Nobody waits for it any more."""
        self.control.stop.set()

    def _run(self) -> None:
        try:
            tell = self._ensemble.tell
            GroupMember(self._settings, self.control, self._say, tell).run()
        except BaseException as error:
            because = f"{type(error).__name__}: {error}"
            self._ensemble.note(self.name, "member.failed", because=because)

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
        self._ensemble.note(self.name, "member.killed")

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
            self._reader.join(WITHIN_S)
            assert not self._reader.is_alive(), (
                f"member {self.name} did not end within {WITHIN_S:g} s"
            )

    def abandon(self) -> None:
        """Make sure that it is gone."""
        self.killed = True
        self._process.kill()
        self._reader.join(10)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                continue  # it was killed over it
            told = json.loads(line)
            if "said" in told:
                self._ensemble.hear(self.name, told)
            else:
                self._ensemble.tell(told)
        errors = self._process.stderr.read()
        if self._process.wait() != 0 and not self.killed:
            self._ensemble.note(self.name, "member.failed", because=errors[-2000:])


# -- the writer


class Writer(threading.Thread):
    """Writes unique values, round robin, and notes when each was acknowledged, and where."""

    def __init__(self, bootstrap: list[str], topic: str) -> None:
        super().__init__(name="writer", daemon=True)
        self.acknowledged: dict[int, dict[int, Written]] = defaultdict(dict)
        #: Acknowledged without an offset: a broker had it from before a retry. Where it is, its
        #: first reader knows.
        self.unplaced: dict[int, set[str]] = defaultdict(set)
        self._records: dict[int, dict[str, Written]] = defaultdict(dict)
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
        missing = self.sent - sum(map(len, self._records.values()))
        assert missing == 0, f"the writer has no acknowledgement of {missing} of {self.sent} values"

    def place(self, partition: int, offsets: Iterable[int], values: Iterable[str]) -> None:
        """These were read there: what was acknowledged without an offset has one now.

        And what brokers had before all of them fell may be there twice, the copy acknowledged by
        nobody: they may forget by which sequence number they would know it again.
        """
        for offset, value in zip(offsets, values, strict=True):
            if value in self._records[partition]:
                self.acknowledged[partition].setdefault(offset, self._records[partition][value])
                self.unplaced[partition].discard(value)

    def abandon(self) -> None:
        """Nobody waits for it any more."""
        self._ending.set()

    def _catch_up(self, producer: Any, due: float) -> None:
        while self.sent < due:
            partition, value = self.sent % PARTITIONS, f"value-{self.sent}"
            timestamp = round(time.time() * 1000)
            producer.produce(
                self._topic,
                value.encode(),
                partition=partition,
                timestamp=timestamp,
                on_delivery=partial(self._note, timestamp=timestamp),
            )
            self.sent += 1

    def _note(self, error: KafkaError | None, message: Message, timestamp: int = 0) -> None:
        if error is not None:
            self.error = KafkaException(error)
            return
        written: Any = message
        partition, offset = written.partition(), written.offset()
        record = Written(time.monotonic(), written.value().decode(), timestamp)
        self._records[partition][record.value] = record
        if offset is None:
            self.unplaced[partition].add(record.value)
        else:
            self.acknowledged[partition].setdefault(offset, record)


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


class CoordinatorWatch(threading.Thread):
    """Asks for a group's commits, as anybody may: when Kafka had a coordinator for whoever asked.

    Metadata names another leader before it is at work: it has to hear of that itself, and to load
    the commits of its groups, which takes seconds on a busy machine.
    """

    def __init__(self, bootstrap: list[str], group: str) -> None:
        super().__init__(name="coordinator-watch", daemon=True)
        self._servers, self._group = bootstrap, group
        self._ending = threading.Event()
        self._answered_at = time.monotonic()
        self._longest = 0.0

    def run(self) -> None:
        while not self._ending.wait(LOOK_S):
            for address in self._servers:
                with contextlib.suppress(OSError):
                    if coordinates(address, self._group, LOOK_TIMEOUT_S):
                        self._note_answer()
                        break

    def end(self) -> None:
        """It has seen enough."""
        self._ending.set()

    @property
    def longest(self) -> float:
        """The longest time in which nobody was the coordinator, in seconds."""
        return max(self._longest, time.monotonic() - self._answered_at)

    def _note_answer(self) -> None:
        now = time.monotonic()
        self._longest = max(self._longest, now - self._answered_at)
        self._answered_at = now


# -- all together

#: What events are worth telling of a test that failed, by how they begin.
TELLING: Final = (
    *("rebalance.", "member.", "coordinator.", "connection."),
    *("heartbeat.failed", "commit.retried", "commit.failed"),
)
TALE_LINES: Final = 60


#: What members say too often to be told.
SAID_OFTEN: Final = ("polled", "read", "committed")


def _in_short(member: str, told: Report) -> str:
    """One line of a tale."""
    what = told.get("event") or told["said"]
    words = ("because", "partitions", "how", "took", "ms", "node", "generation", "where")
    rest = " ".join(f"{one}={told[one]}" for one in words if one in told)
    return f"{member} {what} {rest}"[:200]


class World:
    """Owns the members, the writer and the history of one test."""

    def __init__(
        self,
        kafka: Cluster,
        topic: str,
        group: str,
        *,
        manner: Manner = "eager",
        session_s: float = SESSION_S,
        **settings: Any,
    ) -> None:
        self.kafka, self.topic, self.group = kafka, topic, group
        self.ensemble = Ensemble()
        self.members: dict[str, Any] = {}
        self.manner = manner
        if manner == "consumer":
            settings["group_protocol"] = "consumer"
        own = {"bootstrap_servers": kafka.bootstrap_servers, **settings}
        usual = {**SETTINGS, "session_timeout_ms": round(session_s * 1000)}
        self._settings = hurried(usual, own)
        self._writer = Writer(kafka.bootstrap_servers, topic)
        self._witness: Witness | None = None
        self._watch: CoordinatorWatch | None = None
        self._loaded_at = 0.0
        #: What disturbed the group between `load` and `finish`; a test says what may.
        self.unrest: list[str] = []
        topics.create_topic(kafka.bootstrap_servers, topic, partitions=PARTITIONS, replication=3)
        topics.coordinator_of(kafka.bootstrap_servers, group)

    def __enter__(self) -> Self:
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
        if self._watch is not None:
            self._watch.end()
        for member in self.members.values():
            member.abandon()

    def join(self, *names: str, process: bool = False, **settings: Any) -> None:
        """Start members; see `settled`."""
        for name in names:
            own = {
                **self._settings,
                "topic": self.topic,
                "group_id": self.group,
                "client_id": name,
                "manner": self.manner,
                **settings,
            }
            kind = ProcessMember if process else ThreadMember
            self.members[name] = kind(name, own, self.ensemble)

    def settled(
        self, *names: str, ignoring: str | None = None, within: float = WITHIN_S
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
        wait_until(
            lambda: len(self.written()) == PARTITIONS, "all partitions have records", WITHIN_S
        )
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

    def watch_coordinator(self) -> None:
        """From now on somebody else looks whether the group has a coordinator, see `nobody_for`."""
        self._watch = CoordinatorWatch(self.kafka.bootstrap_servers, self.group)
        self._watch.start()

    def nobody_for(self) -> float:
        """The longest time in which Kafka had no coordinator for the group, whoever asked."""
        assert self._watch is not None, "nobody looked"
        return self._watch.longest

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
        wait_until(lambda: control.work_once_s == 0, f"{name} begins to work", WITHIN_S)
        return float(control.long_work_began)

    def kill(self, name: str) -> float:
        """SIGKILL a member that is a process; returns when."""
        at = time.monotonic()
        self.members[name].kill()
        return at

    def drain(self, within: float = WITHIN_S) -> None:
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

    def finish(self, within: float = WITHIN_S) -> Verdict:
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
            (written.at, f"acknowledged {offset}")
            for offset, written in self._writer.acknowledged[partition].items()
        ]
        elsewhere = {f"{self.topic}-{one}" for one in range(PARTITIONS) if one != partition}
        told += [
            (event["at"], f"{event['member']}: {event}")
            for event in self.ensemble.told[:]
            if event.get("partition") not in elsewhere
        ]
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
        reports, events = self.ensemble.reports[:], self.ensemble.told[:]
        told = [(member, one) for member, one in reports if one["said"] not in SAID_OFTEN]
        told += [(one["member"], one) for one in events if one["event"].startswith(TELLING)]
        lines = [
            f"{one['at'] - self._loaded_at:8.3f} {_in_short(member, one)}"
            for member, one in sorted(told, key=lambda each: float(each[1]["at"]))
            if one["at"] >= self._loaded_at > 0
        ]
        return "\n".join(["what the group went through:", *lines[-TALE_LINES:]])

    def verdict(self) -> Verdict:
        """What the referee says about everything so far."""
        told = self.ensemble.told[:]
        return judge(told, self._writer.acknowledged, self.topic, self.group)

    def _look_for_unrest(self) -> list[str]:
        since, found = self._loaded_at, []
        for event in self.ensemble.events("rebalance.triggered", since=since):
            found.append(f"{event['member']} rebalanced: {event['because']}")
        for event in self.ensemble.events("member.lost", since=since):
            found.append(f"{event['member']} lost {event['partitions']}: {event['because']}")
        for report in self.ensemble.said("refused", since=since):
            found.append(f"a commit ({report['where']}) was refused: {report['because']}")
        return found


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
