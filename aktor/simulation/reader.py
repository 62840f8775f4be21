"""The ordinary consumer loops: poll, do something with the records, poll again.

What a group's readers do beyond that is drawn from the seed: who stores the offsets, what their
rebalance listener does, and now and then a call that an application might make.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    KafkaError,
    UnknownError,
    UnreleasedInstanceIdError,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.consumer.facade import KafkaConsumer
from aktor.consumer.pattern import SubscriptionPattern
from aktor.errors import ActorCrashedError, CorruptBatchError, UserCallbackError
from aktor.simulation.member import Member

if TYPE_CHECKING:
    from aktor.simulation.simulation import Simulation

__all__ = ["KINDS", "Reader"]

#: How often the loop does something besides, per poll.
HABIT_SHARE: Final = 0.04

#: A static member's name is taken by who was here before, until its session is over. A group became
#: a classic one when its only member that spoke the consumer protocol was expelled. A member that
#: may not read the group is out of it. And Kafka trips over who wants to upgrade a group whose
#: first members are still joining.
ONLY_A_NEW_ONE_HELPS: Final = (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    UnknownError,
    UnreleasedInstanceIdError,
)

#: For how many polls partitions stay paused.
PAUSED_FOR: Final = 10


class Reader:
    """A member's code. It goes on after errors, as a service that wants to live would.

    Owns what the members share that run it: the database in which they may keep their offsets, by
    topic id and partition.
    """

    def __init__(
        self,
        simulation: Simulation,
        group: str,
        topics: Sequence[str] | SubscriptionPattern,
        configs: dict[str, Any],
        *,
        kind: str = "quiet",
        each: Callable[[dict[str, Any], int], dict[str, Any]] = lambda configs, _: configs,
    ) -> None:
        self._simulation = simulation
        self._group = group
        self._topics = topics
        self._configs = configs
        self._kind = kind
        self._each = each
        self._elsewhere: dict[Any, int] = {}

    def run(self, number: int = 0) -> None:
        """The code of the member with this number, until the end of the simulation."""

        def config() -> dict[str, Any]:
            return self._config(number)

        _Loop(self._simulation, self._topics, config, self._kind, self._elsewhere).run()

    def _config(self, number: int) -> dict[str, Any]:
        return {
            "bootstrap_servers": self._simulation.bootstrap_servers,
            "group_id": self._group,
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 1000,
            "metadata_max_age_ms": 10_000,
            **self._each(self._configs, number),
        }


class _Loop:
    """One process that reads: its consumer, and what it remembers."""

    def __init__(
        self,
        simulation: Simulation,
        topics: Sequence[str] | SubscriptionPattern,
        config: Callable[[], dict[str, Any]],
        kind: str,
        elsewhere: dict[Any, int],
    ) -> None:
        self._simulation = simulation
        self._topics = topics
        self._config = config
        self._kind = kind
        self._elsewhere = elsewhere
        self._member: Member = simulation.me
        self._draw = random.Random(f"{simulation.seed} reader {self._member.name}")
        #: Given out, and to be written elsewhere when it is done.
        self._in_hand: dict[TopicPartition, int] = {}
        self._resume_in = 0
        #: Something may not be committed, and nobody would hear of it.
        self.unsure = False

    def run(self) -> None:
        """Poll, finish, poll again."""
        consumer = self._begin()
        member = self._member
        while True:
            try:
                if member.seeks:
                    member.seeks = False
                    self._go_back(consumer)
                consumer = self._besides(consumer)
                self._poll(consumer)
            except ActorCrashedError:
                # This consumer is beyond help: a service would start anew.
                consumer.close()
                consumer = self._begin()
            except ONLY_A_NEW_ONE_HELPS as error:
                self._hear(error)
                self._close(consumer)
                self._simulation.sleep(1.0)
                consumer = self._begin()
            except KafkaError as error:
                self._hear(error)
                if isinstance(error, CorruptBatchError):
                    self._read_again(consumer, error)
                self._simulation.sleep(0.1)
            if member.busy_for:
                busy, member.busy_for = member.busy_for, 0.0
                self._simulation.sleep(busy)

    def _read_again(self, consumer: KafkaConsumer, error: CorruptBatchError) -> None:
        """Only a seek helps; the next time the bytes may be sound."""
        one = TopicPartition(error.topic, error.partition)
        if one in consumer.assignment():
            consumer.seek(one, error.offset)

    def _hear(self, error: KafkaError) -> None:
        self._simulation.history.note("user.hears", self._member.name, error=repr(error))
        if not self._config().get("enable_auto_commit", True):
            self.unsure = True  # what failed may have been a commit

    def _begin(self) -> KafkaConsumer:
        config = self._config()
        number = len(self._member.sites) + 1
        name = self._member.name
        # Each consumer is told from the one before it.
        config.setdefault("client_id", name if number == 1 else f"{name}/{number}")
        consumer = KafkaConsumer(**config)
        self._subscribe(consumer)
        return consumer

    def _subscribe(self, consumer: KafkaConsumer) -> None:
        listener = _LISTENERS[self._kind](self, consumer)
        if isinstance(self._topics, SubscriptionPattern):
            consumer.subscribe(pattern=self._topics, listener=listener)
        else:
            consumer.subscribe([str(one) for one in self._topics], listener=listener)

    def _poll(self, consumer: KafkaConsumer) -> None:
        self._write_elsewhere()
        records = consumer.poll(timeout_ms=200)
        for one, some in records.items():
            self._in_hand[one] = some[-1].offset + 1
        if records:
            self._commit(consumer)
        elif self.unsure:
            consumer.commit(timeout_ms=5000)
            self.unsure = False

    def _commit(self, consumer: KafkaConsumer) -> None:
        """Commit by hand if nobody else does, and note whether that may have failed unheard."""
        if consumer.config["enable_auto_commit"]:
            return
        self.unsure = True
        if self._simulation.random.random() < 0.5:
            consumer.commit(timeout_ms=5000)
            self.unsure = False
        else:
            consumer.commit_async()

    # -- offsets that are kept elsewhere

    def _write_elsewhere(self) -> None:
        """What was in hand is done."""
        for one, offset in self._in_hand.items():
            self._elsewhere[self._key(one)] = offset
        self._in_hand.clear()

    def find_elsewhere(self, partition: TopicPartition) -> int | None:
        """Where the group goes on with this partition, as far as is known."""
        return self._elsewhere.get(self._key(partition))

    def _key(self, partition: TopicPartition) -> Any:
        topic = self._simulation.brokers.model.topics.get(partition.topic)
        return None if topic is None else topic.topic_id, partition

    def takes_time(self) -> None:
        """A listener that a fault has made slow."""
        seconds = self._member.slow_listener
        if seconds:
            self._simulation.sleep(seconds)

    def draws(self, share: float) -> bool:
        """Whether something happens that happens so often, while there are faults."""
        return self._simulation.faults.raging and self._draw.random() < share

    # -- what it does besides

    def _besides(self, consumer: KafkaConsumer) -> KafkaConsumer:
        """Now and then, while there are faults, something that applications do."""
        if self._resume_in:
            self._resume_in -= 1
            if not self._resume_in:
                consumer.resume(*consumer.paused())
        if not self.draws(HABIT_SHARE):
            return consumer
        habit = self._draw.choice(_HABITS)
        return habit(self, consumer) or consumer

    def _some(self, consumer: KafkaConsumer) -> list[TopicPartition]:
        """One of its partitions, or none."""
        owned = sorted(consumer.assignment())
        return [self._draw.choice(owned)] if owned else []

    def _look(self, consumer: KafkaConsumer) -> None:
        for one in self._some(consumer):
            consumer.position(one, timeout_ms=1000)
            consumer.committed(one, timeout_ms=1000)
            consumer.end_offsets([one], timeout_ms=1000)

    def _pause(self, consumer: KafkaConsumer) -> None:
        consumer.pause(*self._some(consumer))
        self._resume_in = PAUSED_FOR

    def _go_back(self, consumer: KafkaConsumer) -> None:
        """A little, as one does who wants to do something again."""
        for one in self._some(consumer):
            position = consumer.position(one, timeout_ms=1000)
            if position is not None:
                consumer.seek(one, max(0, position - 3))

    def _change_its_mind(self, consumer: KafkaConsumer) -> None:
        """To the beginning; no, only a little back."""
        for one in self._some(consumer):
            position = consumer.position(one, timeout_ms=1000)
            if position is None:
                continue
            consumer.seek_to_beginning(one)
            if self._draw.random() < 0.5:
                consumer.poll(timeout_ms=0)
            if one in consumer.assignment():
                consumer.seek(one, max(0, position - 3))

    def _commit_some(self, consumer: KafkaConsumer) -> None:
        for one in self._some(consumer):
            position = consumer.position(one, timeout_ms=1000)
            if position is not None:
                consumer.commit({one: OffsetAndMetadata(position, "", -1)}, timeout_ms=2000)

    def _resubscribe(self, consumer: KafkaConsumer) -> None:
        consumer.unsubscribe()
        self._subscribe(consumer)
        if self._draw.random() < 0.7:
            # And once more, while the group is on its way to let it in.
            consumer.poll(timeout_ms=0)
            self._simulation.sleep(self._draw.uniform(0.0, 2.0))
            consumer.unsubscribe()
            self._subscribe(consumer)

    def _reopen(self, consumer: KafkaConsumer) -> KafkaConsumer:
        self._write_elsewhere()
        if self._draw.random() < 0.5:
            consumer.commit_async()
        self._close(consumer, timeout_ms=self._draw.choice([1000, 5000]))
        return self._begin()

    def _close(self, consumer: KafkaConsumer, **options: Any) -> None:
        try:
            consumer.close(**options)
        except UserCallbackError as error:
            self._hear(error)


_HABITS: Final[tuple[Callable[[_Loop, KafkaConsumer], KafkaConsumer | None], ...]] = (
    _Loop._look,
    _Loop._look,
    _Loop._pause,
    _Loop._pause,
    _Loop._change_its_mind,
    _Loop._change_its_mind,
    _Loop._commit_some,
    _Loop._commit_some,
    _Loop._resubscribe,
    _Loop._reopen,
    _Loop._reopen,
)


class _Quiet(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python is untyped
    """Says nothing, for that it was called is in the trace; a fault may make it slow."""

    def __init__(self, loop: _Loop, consumer: KafkaConsumer) -> None:
        self.loop = loop
        self.consumer = consumer

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self.loop.takes_time()

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self.loop.takes_time()

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        self.loop.takes_time()


class _KeepsOffsetsElsewhere(_Quiet):
    """Goes to where the group's own database says."""

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        super().on_partitions_assigned(assigned)
        for one in sorted(assigned):
            offset = self.loop.find_elsewhere(one)
            if offset is not None:
                self.consumer.seek(one, offset)
                self.loop.unsure = True


class _CommitsItself(_Quiet):
    """Commits when partitions go; on the way it hears what may go wrong."""

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        super().on_partitions_revoked(revoked)
        self.consumer.commit(timeout_ms=2000)


class _Stumbles(_Quiet):
    """Raises now and then, as user code does."""

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        super().on_partitions_assigned(assigned)
        if assigned and self.loop.draws(0.3):
            raise RuntimeError("the user's listener stumbled")


_LISTENERS: Final[Mapping[str, type[_Quiet]]] = {
    "quiet": _Quiet,
    "keeps offsets elsewhere": _KeepsOffsetsElsewhere,
    "commits itself": _CommitsItself,
    "stumbles": _Stumbles,
}

#: What the readers of a group may be like.
KINDS: Final = tuple(_LISTENERS)
