"""Writes transactions into a topic: most are committed, some aborted, some left open by a death."""

from __future__ import annotations

import random
from typing import Final

from kafka.protocol.producer import EndTxnRequest, InitProducerIdRequest

from aktor.broker.codes import Code, Refused
from aktor.broker.topics import TRANSACTION_STATE
from aktor.simulation.world.topic import Topic
from aktor.simulation.world.world import World

__all__ = ["TransactionalWriter"]

#: Seconds between the steps of a transaction, and before one is tried again.
STEP: Final = 0.5
AGAIN: Final = 0.3

#: What a writer may come to, and how often.
ENDS: Final = {"commit": 6, "abort": 2, "die": 1}

_INIT_VERSION: Final = 4
_END_VERSION: Final = 5


class TransactionalWriter:
    """Owns one transactional id, under which one process after the other writes.

    A process that dies leaves its transaction open, until it times out or the next one fences it.
    """

    def __init__(self, simulation: World, topic: Topic, name: str, timeout: float) -> None:
        self._simulation = simulation
        self._topic = topic
        self._name = name
        self._timeout = timeout
        self._random = random.Random(f"{simulation.seed} {name}")
        self._until = 0.0
        self._producer = (-1, -1)
        #: Batches that are still to be written, and how many records of it each partition has.
        self._steps = 0
        self._sequences: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def run(self, seconds: float) -> None:
        """One transaction after the other, for so long; one that has begun is brought to an end."""
        self._until = self._simulation.now + seconds
        self._simulation.scheduler.after(self._random.uniform(0.0, 2.0), self._begin)

    def _later(self, seconds: float, act: object) -> None:
        assert callable(act)
        self._simulation.scheduler.after(self._random.uniform(0.0, seconds), act)

    def _coordinator(self) -> int:
        node = self._simulation.brokers.model.coordinator(TRANSACTION_STATE, self._name)
        return -1 if node is None else node.node_id

    def _begin(self) -> None:
        """A new process: what an earlier one has left open is aborted."""
        if self._simulation.now > self._until:
            return
        request = InitProducerIdRequest(
            transactional_id=self._name,
            transaction_timeout_ms=int(self._timeout * 1000),
            producer_id=-1,
            producer_epoch=-1,
        )
        answer = self._simulation.brokers.ask(
            self._coordinator(), request, "InitProducerId", _INIT_VERSION
        )
        if answer is None or answer.error_code:
            self._later(AGAIN, self._begin)
            return
        self._producer = answer.producer_id, answer.producer_epoch
        self._steps = self._random.randint(1, 4)
        self._sequences, self._ends = {}, {}
        self._later(STEP, self._write)

    def _write(self) -> None:
        if not self._topic.partitions:
            self._finish(commit=False)
            return
        partition = self._random.randrange(self._topic.partitions)
        count = self._random.randint(1, 4)
        if not self._write_to(partition, count):
            self._finish(commit=False)
            return
        self._steps -= 1
        self._later(STEP, self._write if self._steps else self._end)

    def _write_to(self, partition: int, count: int) -> bool:
        brokers, model = self._simulation.brokers, self._simulation.brokers.model
        producer_id, epoch = self._producer
        sequence = self._sequences.get(partition, 0)
        if self._coordinator() not in brokers.running:
            return False
        try:
            model.transactions.add_partition_implicitly(
                self._name,
                producer_id,
                epoch,
                self._topic,
                partition,
                self._simulation.scheduler.now,
            )
            end = self._topic.append(partition, count, transaction=(producer_id, epoch, sequence))
        except Refused:
            return False  # fenced by its timeout, or records before these are lost
        if end is None:
            return False
        self._sequences[partition] = sequence + count
        self._ends[partition] = end
        return True

    def _end(self) -> None:
        fate = self._random.choices(list(ENDS), list(ENDS.values()))[0]
        if fate == "die":
            self._later(4.0 * self._timeout * self._random.random(), self._begin)
        else:
            self._finish(commit=fate == "commit")

    def _finish(self, *, commit: bool) -> None:
        """Commit what all replicas have, as a producer that flushes first; else abort."""
        brokers = self._simulation.brokers
        safe = all(brokers.is_replicated(self._topic, *end) for end in self._ends.items())
        request = EndTxnRequest(
            transactional_id=self._name,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            committed=commit and safe,
        )
        answer = brokers.ask(self._coordinator(), request, "EndTxn", _END_VERSION)
        if answer is None or answer.error_code == Code.CONCURRENT_TRANSACTIONS:
            self._later(AGAIN, lambda: self._finish(commit=commit))
        else:
            # Ended, refused or fenced: the next process begins with an epoch of its own.
            self._later(STEP, self._begin)
