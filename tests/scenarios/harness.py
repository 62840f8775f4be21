"""One consumer that is asked everything, in a cluster that goes through everything."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from kafka.errors import (
    CommitFailedError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    IncompatibleBrokerVersion,
    KafkaStorageError,
    KafkaTimeoutError,
    RebalanceInProgressError,
    UnstableOffsetCommitError,
)
from kafka.structs import TopicPartition

from aktor.errors import ActorRestartedError, BootstrapError
from tests.scenarios.history import History, Reader
from tests.scenarios.world import World

T0: Final = TopicPartition("orders", 0)
PARTITIONS: Final = 4

#: What a caller may be told when an actor below it falls over, or is asked in a bad moment.
TYPED = (
    ActorRestartedError,
    BootstrapError,
    CommitFailedError,
    GroupAuthorizationFailedError,
    IncompatibleBrokerVersion,
    KafkaTimeoutError,
    RebalanceInProgressError,
)


class Harness:
    """One consumer that is asked everything, in a cluster that goes through everything."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.world.cluster.create_topic("orders", partitions=PARTITIONS)
        self.world.cluster.create_topic("bills")
        self.world.cluster.fill("orders", 30)
        self.world.cluster.names_leaders = True
        self.history = History(self.world)
        self.errors: list[Exception] = []
        self.reader = self._reader()
        self.consumer = self.reader.consumer
        self.host = self.world.host(self.consumer)
        self.history.drive(1.0)

    def _reader(self) -> Reader:
        return self.history.reader(
            "orders",
            group_id="g",
            auto_commit_interval_ms=300,
            heartbeat_interval_ms=500,
            session_timeout_ms=6_000,
            request_timeout_ms=5_000,
            default_api_timeout_ms=5_000,
            metadata_max_age_ms=3_000,
            max_poll_interval_ms=20_000,
            max_poll_records=10,
            fetch_max_wait_ms=1_500,
        )

    def attempt(self, call: Callable[[], Any]) -> None:
        """A call may end in a typed error; anything else is a bug."""
        try:
            call()
        except TYPED as error:
            self.errors.append(error)
            if isinstance(error, GroupAuthorizationFailedError):
                self._begin_again()
        assert len(self.errors) < 1000, self.errors[-1]

    def drive(self, seconds: float) -> None:
        """Poll, whatever the polls raise."""
        until = self.world.now + seconds
        while self.world.now < until:
            for reader in [one for one in self.history.readers if not one.gone]:
                began = self.world.now
                self.attempt(functools.partial(reader.poll, 0.2))
                if self.world.now == began:
                    self.world.sleep(0.05)

    def run(self, ends_after: Callable[[], bool] = lambda: False) -> None:
        """Everything, one part after the other. If `ends_after` has come true while nothing was
        wrong with the cluster, the part in which it has is the last one."""
        for part in (self._ask_everything, self._let_others_come_and_go):
            part()
            if ends_after():
                return
        self._shake_the_cluster()  # brokers still fail when this is over
        self._stop_and_begin_again()

    def _ask_everything(self) -> None:
        consumer = self.consumer
        self.world.cluster.fill("orders", 30)
        for call in (
            lambda: self.drive(0.5),
            consumer.commit,
            consumer.commit_async,
            lambda: consumer.committed(T0),
            lambda: consumer.end_offsets([T0]),
            consumer.topics,
            consumer.status,
            lambda: self._seek(7),
            lambda: T0 in consumer.assignment() and consumer.position(T0),
            lambda: self.drive(0.3),
            lambda: self._seek(None),
            lambda: self.drive(0.5),
            lambda: consumer.pause(*consumer.assignment()),
            lambda: self.drive(1.2),
            consumer.status,
            lambda: self.drive(1.2),
            consumer.status,
            lambda: consumer.resume(*consumer.paused()),
            lambda: self.drive(0.5),
        ):
            self.attempt(call)

    def _seek(self, offset: int | None) -> None:
        if T0 not in self.consumer.assignment():
            return
        if offset is None:
            self.consumer.seek_to_beginning(T0)
        else:
            self.consumer.seek(T0, offset)

    def _begin_again(self) -> None:
        """Who cannot know what is committed has to be told where to read."""
        if self.consumer.assignment():
            self.consumer.seek_to_beginning()

    def _let_others_come_and_go(self) -> None:
        other = self._reader()
        self.world.cluster.fill("orders", 10)
        self.drive(3.0)
        self.attempt(other.close)
        self.drive(2.0)

    def _shake_the_cluster(self) -> None:
        cluster = self.world.cluster
        cluster.move_leader("orders", 1)
        self.drive(1.0)
        self._cut_log(2)
        cluster.too_old_for.add("OffsetForLeaderEpoch")
        self._cut_log(2)
        cluster.too_old_for.remove("OffsetForLeaderEpoch")
        cluster.fail_next("FindCoordinator", GroupAuthorizationFailedError)
        cluster.move_coordinator("g")
        self.drive(3.0)
        cluster.fail_next("Fetch", KafkaStorageError)
        node = cluster.coordinator("g")
        cluster.fail_next("OffsetCommit", CoordinatorNotAvailableError)
        cluster.down(node)
        self.attempt(self.consumer.commit)
        self.drive(2.0)
        cluster.back(node)
        cluster.fill("orders", 10)
        self._lose_answers()

    def _cut_log(self, partition: int) -> None:
        """An unclean election loses the last batch; the same is written once more."""
        end = self.world.cluster.log("orders", partition).end
        again = [f"{partition}:{offset}".encode() for offset in range(end - 10, end)]
        self.world.cluster.elect_uncleanly("orders", partition, end - 10, *again)
        self.drive(1.0)

    def _lose_answers(self) -> None:
        """No broker is there for a moment, while everybody asks something."""
        cluster = self.world.cluster
        for api in ("Metadata", "FindCoordinator", "ListOffsets", "OffsetCommit", "Fetch"):
            cluster.drop_next(api)
        cluster.move_coordinator("g")
        self.attempt(lambda: self.consumer.end_offsets([T0], timeout_ms=2_000))
        self.attempt(lambda: self._seek(None))
        self.drive(2.0)
        cluster.down(*cluster.up)
        self.attempt(lambda: self.consumer.commit(timeout_ms=500))
        self.attempt(lambda: self.consumer.committed(T0, timeout_ms=500))
        self.attempt(lambda: self.consumer.end_offsets([T0], timeout_ms=500))
        self.drive(1.0)
        cluster.back(*cluster.up)
        self.drive(5.0)
        cluster.too_old_for.add("ListOffsets")
        self.attempt(lambda: self.consumer.end_offsets([T0]))
        cluster.too_old_for.clear()

    def _stop_and_begin_again(self) -> None:
        self.drive(15.0)  # until no Fetch is waited for that was lost
        self.world.cluster.fill("orders", 1)
        self.world.sleep(0.5)  # these are here when its session is over
        self.world.freeze(self.consumer)
        self.reader.gone = True
        self.world.sleep(8.0)
        self.world.thaw(self.consumer)
        self.reader.gone = False
        self.world.cluster.fill("orders", 10)
        self.world.stand_still = True  # the application is the first to go on
        self.attempt(lambda: self.consumer.poll(timeout_ms=0))
        self.world.stand_still = False
        self.drive(3.0)
        self.attempt(self.consumer.unsubscribe)
        self.world.cluster.fail_next("OffsetFetch", GroupAuthorizationFailedError)
        self.consumer.subscribe(["orders"], listener=self.reader)
        self.drive(3.0)
        self._wait_for_positions_in_vain()

    def _wait_for_positions_in_vain(self) -> None:
        """What is committed cannot be read for longer than a call may take."""
        self.attempt(self.consumer.unsubscribe)
        self.world.cluster.fail_next("OffsetFetch", UnstableOffsetCommitError, times=14)
        self.consumer.subscribe(["orders"], listener=self.reader)
        self.drive(3.0)
        self.attempt(lambda: T0 in self.consumer.assignment() and self.consumer.position(T0))
        self.drive(8.0)

    def must_have_recovered(self) -> None:
        """Within a minute it reads on, commits, and has lost nothing."""
        self.world.cluster.fill("orders", 10)
        deadline = self.world.now + 60.0
        while self.history.lost("orders") and self.world.now < deadline:
            self.drive(0.5)
        assert self.history.lost("orders") == {}
        assert self.history.broken == []
        self.drive(1.0)
        self.consumer.commit(timeout_ms=10_000)
        stored = {p: self.world.cluster.committed("g", "orders", p) for p in range(PARTITIONS)}
        assert stored == {p: log.end for p, log in self.world.cluster.topics["orders"].items()}

    def end(self) -> None:
        """Close within its time; nothing is left open."""
        began = self.world.now
        self.attempt(lambda: self.consumer.close(timeout_ms=5_000))
        assert self.world.now - began <= 5.01
        self.world.check()
        self.host.end()
