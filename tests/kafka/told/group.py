"""A group of processes on a real Kafka, under load, and what the product says of it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from aktor.trace.rebalances import read_files
from tests.kafka.real import KafkaCluster, topics
from tests.kafka.support import ROOT

#: The settings of members of classic groups, and those of all.
CLASSIC: Final = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 1000}
SETTINGS: Final[Mapping[str, Any]] = {
    "auto_offset_reset": "earliest",
    "metadata_max_age_ms": 3000,
    "allow_auto_create_topics": False,
}

#: Two times in traces that differ by less, in seconds, are the same.
MAY_DIFFER: Final = 0.1

#: Until members have what they are to have, in seconds: a limit for what hangs.
WITHIN: Final = 60.0


class Member:
    """A process with a consumer. Owns it."""

    def __init__(
        self, name: str, folder: Path, settings: Mapping[str, Any], topic: str, preload: str = ""
    ) -> None:
        self.name = name
        self.gone = False
        #: When it was given which records, a line for each poll and partition.
        self.given = folder / f"{name}.given"
        environment = {**os.environ, "AKTOR_TRACE": str(folder / f"{name}.jsonl")}
        if preload:
            environment |= {"LD_PRELOAD": preload, "WALL_CLOCK": str(folder / f"{name}.clock")}
        arguments = json.dumps([dict(settings), [topic], str(self.given)])
        self.errors = (folder / f"{name}.errors").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.kafka.told.member", arguments],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        self._asks = threading.Lock()

    def order(self, **what: Any) -> None:
        """Tell it what to do (see `member.Orders`)."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()

    def look(self) -> dict[str, Any]:
        """What it says of itself now."""
        assert self._process.stdout is not None
        with self._asks:
            self.order(why=True)
            line = self._process.stdout.readline()
        if not line:
            self.errors.seek(0)
            return {"why": f"(ended) {self.errors.read()[-300:]}", "owns": 0, "state": "ended"}
        told: dict[str, Any] = json.loads(line)
        return told

    def signal(self, number: signal.Signals) -> None:
        """SIGKILL, SIGSTOP, SIGCONT."""
        self._process.send_signal(number)
        self.gone = self.gone or number is signal.SIGKILL

    def leave(self) -> None:
        """Close its consumer, and end."""
        self.gone = True
        self.order(leave=True)

    def end(self) -> None:
        """It is gone when this returns."""
        self.signal(signal.SIGCONT)
        self.leave()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self.errors):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


class Load(threading.Thread):
    """Writes a record to each partition of a topic again and again, as long as it is there."""

    def __init__(
        self, servers: Sequence[str], topic: str, partitions: int, every: float, size: int
    ) -> None:
        super().__init__(name="load", daemon=True)
        self._topic, self._partitions, self._every = topic, partitions, every
        self._value = b"x" * size
        self._ending = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": ",".join(servers),
                "acks": "all",
                "linger.ms": 10,
                "socket.timeout.ms": 2000,
                "topic.metadata.refresh.interval.ms": 1000,
                "allow.auto.create.topics": False,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        due = time.monotonic()
        while not self._ending.is_set():
            for partition in range(self._partitions):
                with contextlib.suppress(BufferError):
                    self._producer.produce(
                        self._topic,
                        self._value,
                        partition=partition,
                        timestamp=round(time.time() * 1000),
                    )
            self._producer.poll(0)
            due += self._every
            time.sleep(max(0.0, due - time.monotonic()))

    def end(self) -> None:
        """Write no more."""
        self._ending.set()
        self.join(10)
        self._producer.purge()


class Group:
    """The members of one group that read one topic, and its load. Owns them."""

    def __init__(
        self,
        kafka: KafkaCluster,
        name: str,
        protocol: str,
        folder: Path,
        *,
        partitions: int = 6,
        replication: int = 3,
        configs: Mapping[str, str] | None = None,
        every: float = 0.02,
        size: int = 100,
        **settings: Any,
    ) -> None:
        self.kafka, self.name, self.protocol = kafka, name, protocol
        self.topic = f"orders-of-{name}"
        self.folder = folder / name
        self.folder.mkdir(parents=True)
        self.servers = kafka.bootstrap_servers
        topics.create_topic(self.servers, self.topic, partitions, replication, configs)
        self.partitions = partitions
        self.settings = {
            "bootstrap_servers": self.servers,
            "group_id": name,
            "group_protocol": protocol,
            **SETTINGS,
            **(CLASSIC if protocol == "classic" else {}),
            **settings,
        }
        self.members: dict[str, Member] = {}
        self.load = Load(self.servers, self.topic, partitions, every, size)

    def join(self, *names: str, preload: str = "", **settings: Any) -> None:
        """Start members with these names."""
        for name in names:
            own = {**self.settings, "client_id": name, **settings}
            self.members[name] = Member(name, self.folder, own, self.topic, preload)

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    def settled(self, *, all_of: int | None = None) -> None:
        """Wait until the members that are there have all partitions among them."""
        wanted = self.partitions if all_of is None else all_of
        deadline = time.monotonic() + WITHIN
        while True:
            looks = [one.look() for one in self.members.values() if not one.gone]
            stable = all(look["state"] in ("stable", None) for look in looks)
            spread = wanted < len(looks) or all(look["owns"] for look in looks)
            if stable and spread and sum(look["owns"] for look in looks) == wanted:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} did not settle: {looks}")
            time.sleep(0.2)

    def end(self) -> None:
        """All of it is gone."""
        if self.load.is_alive():
            self.load.end()
        for member in self.members.values():
            member.end()

    def told(self, since: float, until: float) -> tuple[list[str], str]:
        """What `aktor why` says of the traces: its lines of what began between these times, with
        those that have no time; and what it says on stderr."""
        files = sorted(map(str, self.folder.glob("*.jsonl*")))
        done = subprocess.run(
            [sys.executable, "-m", "aktor.cli", "why", *files],
            cwd=ROOT,
            env={**os.environ, "COLUMNS": "5000"},
            capture_output=True,
            text=True,
        )
        return list(_within(done.stdout.splitlines(), since, until)), done.stderr.strip()


_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)Z  (.*)")

#: The parts of what `aktor why` prints that name no cause.
_NO_CAUSES: Final = ("Longest pauses", "Members, by")


def _within(lines: Sequence[str], since: float, until: float) -> Iterator[str]:
    head = ""
    for line in lines:
        if line.endswith(":") and not line.startswith(" ") and not _TIME.match(line):
            head = line
        if head.startswith(_NO_CAUSES) or not line or line == head:
            continue
        timed = _TIME.match(line)
        if timed is None:
            yield line.strip()
            continue
        at = datetime.strptime(timed[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
        if int(since) <= at <= until:
            yield timed[2]


class Case:
    """One fault, and what was said of it. `said` has the verdicts: whether it is about now or
    afterwards, the sentence, and the words that are missing."""

    def __init__(self, kafka: KafkaCluster, name: str, protocol: str, folder: Path) -> None:
        self.kafka, self.name, self.protocol, self.folder = kafka, name, protocol, folder
        self.said: list[tuple[str, str, list[str]]] = []
        self.group: Group | None = None
        self.since = self.until = time.time()
        #: All that `aktor why` says of it.
        self.lines: list[str] = []
        self._later: list[Callable[[list[str], str], tuple[str, list[str]]]] = []

    def make(self, *names: str, **settings: Any) -> Group:
        """A group with these members, who have settled, and records that come."""
        short = re.sub(r"[^a-z0-9]+", "-", f"{self.name}-{self.protocol}")
        self.group = Group(self.kafka, short, self.protocol, self.folder, **settings)
        self.group.load.start()
        self.group.join(*names)
        self.group.settled()
        self.begin()
        return self.group

    def begin(self) -> None:
        """The fault is caused now. (What came just before is seen by the second.)"""
        time.sleep(1.5)
        self.since = self.until = time.time()

    def over(self) -> None:
        """What comes from now on has nothing to do with the fault."""
        self.until = time.time()

    def now(self, member: str, *words: str, within: float = 30.0) -> None:
        """The member's `why()` has these words (regular expressions) soon."""
        assert self.group is not None
        deadline = time.monotonic() + within
        best: tuple[str, list[str]] = ("", list(words))
        while True:
            sentence = self.group[member].look()["why"]
            lacks = missing(sentence, words)
            if not best[0] or len(lacks) <= len(best[1]):
                best = sentence, lacks
            if not lacks or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        self.said.append((f"now, {member}", *best))

    def afterwards(self, *words: str) -> None:
        """One line of `aktor why` has these words."""
        self._judge(lambda lines: _best(lines, words))

    def only(self, words: str) -> None:
        """Each rebalance that `aktor why` tells of has these words: nobody else is blamed."""

        def judge(lines: list[str]) -> tuple[str, list[str]]:
            others = [line for line in lines if "triggered" in line and not re.search(words, line)]
            if others:
                return others[0], [f"blames nobody but {words}"]
            return "(no other rebalance)", []

        self._judge(judge)

    def nothing(self) -> None:
        """`aktor why` has nothing to say, and need not."""
        self._judge(lambda lines: (lines[0], ["(nothing)"]) if lines else ("(nothing)", []))

    def warned(self, *words: str) -> None:
        """`aktor why` says on stderr what has these words."""
        self._later.append(lambda _, errors: _best(errors.splitlines(), words))

    def _judge(self, judge: Callable[[list[str]], tuple[str, list[str]]]) -> None:
        self._later.append(lambda lines, _: judge(lines))

    def close(self) -> None:
        """End the group, and judge what is said of it afterwards."""
        if self.until <= self.since:
            self.over()
        if self.group is None:
            return
        time.sleep(1.5)
        self.group.end()
        self.lines, errors = self.group.told(self.since, self.until)
        if false := false_silences(sorted(map(str, self.group.folder.glob("*.jsonl*")))):
            lacks = ["a silence without a record in it"]
            self.said.append(("afterwards", false[0], lacks))
        for judge in self._later:
            self.said.append(("afterwards", *judge(self.lines, errors)))


def false_silences(files: Sequence[str]) -> list[str]:
    """What `aktor why` tells of silences, where the same traces have a record that the consumer was
    given of that partition meanwhile."""
    given: dict[tuple[str, str], list[float]] = {}
    for file in files:
        for line in Path(file).read_text().splitlines():
            if '"records.delivered"' in line and line.endswith("}"):
                event = json.loads(line)
                times = given.setdefault((event["consumer"], event["partition"]), [])
                times += (event["t"] - event.get(key, 0.0) for key in ("first_ago", "last_ago"))
    false = []
    for row in read_files(files).silences:
        begin, end = row.began + MAY_DIFFER, (row.ended or math.inf) - MAY_DIFFER
        if any(begin < at < end for at in given.get((row.consumer or "", row.partition), ())):
            false.append(row.sentence)
    return false


def missing(sentence: str, words: Sequence[str]) -> list[str]:
    """The words that are not in it."""
    return [one for one in words if not re.search(one, sentence)]


def _best(lines: Sequence[str], words: Sequence[str]) -> tuple[str, list[str]]:
    found = [(line, missing(line, words)) for line in lines]
    return min(found, key=lambda one: len(one[1]), default=("(nothing)", list(words)))
