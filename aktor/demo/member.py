"""A member of the group: reads orders, reports them, commits. `python -m aktor.demo.member`.

It reports before it commits. So what is committed has been reported, even if SIGKILL comes between;
and what is read again after a kill is just what was reported and not yet committed.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError

from aktor import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from aktor.demo.reports import Reporter

COMMIT_EVERY_S = 0.1
STATUS_EVERY_S = 0.25
POLL_TIMEOUT_MS = 50

SESSION_TIMEOUT_MS = 6_000
HEARTBEAT_INTERVAL_MS = 500

#: Of what aktor logs, all warnings and these.
TOLD = frozenset({"rebalance.completed", "commit.retried", "coordinator.lost"})


class Member(ConsumerRebalanceListener):
    """Owns a consumer and what was read from it but not committed yet."""

    def __init__(self, settings: dict[str, Any], reporter: Reporter) -> None:
        assignor = CooperativeStickyAssignor if settings["cooperative"] else RangePartitionAssignor
        self._reporter = reporter
        self._processed: dict[TopicPartition, int] = {}
        self._commit_at = self._status_at = 0.0
        self.consumer = KafkaConsumer(
            bootstrap_servers=settings["bootstrap"],
            bootstrap_timeout_ms=0,  # brokers may be away when a member is started
            client_id=settings["name"],
            group_id=settings["group"],
            partition_assignment_strategy=[assignor],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        )
        self.consumer.subscribe([settings["topic"]], listener=self)

    def turn(self) -> None:
        """Read once; commit and report the status when it is time."""
        batches = self.consumer.poll(timeout_ms=POLL_TIMEOUT_MS)
        if batches:
            runs = [run for records in batches.values() for run in runs_of(records)]
            self._reporter.say("read", runs=runs)
            for partition, records in batches.items():
                self._processed[partition] = records[-1].offset + 1
        now = time.monotonic()
        if now >= self._commit_at:
            self._commit_at = now + COMMIT_EVERY_S
            self.commit()
        if now >= self._status_at:
            self._status_at = now + STATUS_EVERY_S
            status = self.consumer.status()
            state = status.member_state
            self._reporter.say("status", state=state, generation=status.generation)

    def commit(self) -> None:
        """Commit what was processed. If that is refused now, the next commit contains it too."""
        if not self._processed:
            return
        offsets = {
            partition: OffsetAndMetadata(offset, "", -1)
            for partition, offset in self._processed.items()
        }
        try:
            self.consumer.commit(offsets)
        except KafkaError as error:
            self._reporter.say("refused", because=str(error) or type(error).__name__)
            return
        self._processed.clear()
        committed = {partition.partition: offset.offset for partition, offset in offsets.items()}
        self._reporter.say("committed", offsets=committed)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Say that these are ours."""
        self._reporter.say("assigned", partitions=numbers(assigned))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Commit first, so that the next owner goes on where we stopped."""
        self.commit()
        self._let_go(revoked, "revoked")

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        """They are somebody else's: nothing may be committed any more."""
        self._let_go(lost, "lost")

    def _let_go(self, partitions: Iterable[TopicPartition], how: str) -> None:
        gone = set(partitions)
        for partition in gone:
            self._processed.pop(partition, None)
        self._reporter.say("released", partitions=numbers(gone), how=how)


class TraceHandler(logging.Handler):
    """Reports what aktor logs: each record of the logger "aktor" carries its event."""

    def __init__(self, reporter: Reporter) -> None:
        super().__init__()
        self._reporter = reporter

    def emit(self, record: logging.LogRecord) -> None:
        """Report it if it is worth it; runs on aktor's background thread."""
        event = getattr(record, "aktor", {"event": record.getMessage()})
        if record.levelno < logging.WARNING and event["event"] not in TOLD:
            return
        try:
            self._reporter.say("trace", event=event)
        except BrokenPipeError:
            return  # the main thread finds out too, and ends us


def numbers(partitions: Iterable[TopicPartition]) -> list[int]:
    """Their partition ids, in order."""
    return sorted(one.partition for one in partitions)


def runs_of(records: list[Any]) -> list[list[Any]]:
    """Records of one partition as runs without a hole: [partition, first offset, waited, orders].

    What was written is checked here: an order is its number and its partition.
    """
    now = time.time()
    runs: list[list[Any]] = []
    after = None
    for record in records:
        order, partition = map(int, record.value.split())
        if partition != record.partition:
            raise ValueError(f"order {order} of partition {partition} was read from another one")
        if record.offset != after:
            waited = max(0.0, now - record.timestamp / 1000)
            runs.append([partition, record.offset, waited, []])
        runs[-1][3].append(order)
        after = record.offset + 1
    return runs


def main(settings: dict[str, Any]) -> None:
    """Read until SIGTERM."""
    told_to_stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told_to_stop.set())
    reporter = Reporter()
    logger = logging.getLogger("aktor")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(TraceHandler(reporter))
    member = Member(settings, reporter)
    try:
        while not told_to_stop.is_set():
            member.turn()
    finally:
        member.consumer.close()
    reporter.say("closed")


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except BrokenPipeError:
        sys.exit(1)  # who started us is gone
