"""The ordinary consumer loop: poll, do something with the records, poll again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import KafkaError

from aktor.consumer.facade import KafkaConsumer
from aktor.errors import ActorCrashedError
from aktor.simulation.member import Member

if TYPE_CHECKING:
    from aktor.simulation.simulation import Simulation

__all__ = ["Reader"]


class Reader:
    """A member's code. It goes on after errors, as a service that wants to live would."""

    def __init__(
        self, simulation: Simulation, group: str, topics: Sequence[str], configs: dict[str, Any]
    ) -> None:
        self._simulation = simulation
        self._group = group
        self._topics = [str(one) for one in topics]
        self._configs = configs

    def _begin(self) -> KafkaConsumer:
        configs: dict[str, Any] = {
            "client_id": self._simulation.me.name,
            "bootstrap_servers": self._simulation.bootstrap_servers,
            "group_id": self._group,
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 1000,
            "metadata_max_age_ms": 10_000,
            **self._configs,
        }
        consumer = KafkaConsumer(**configs)
        consumer.subscribe(self._topics, listener=_Listener(self._simulation))
        return consumer

    def run(self) -> None:
        """Until the end of the simulation."""
        consumer = self._begin()
        member, unsure = self._simulation.me, False
        while True:
            try:
                if member.seeks:
                    self._seek(consumer, member)
                if consumer.poll(timeout_ms=200):
                    unsure = self._commit(consumer)
                elif unsure:
                    consumer.commit(timeout_ms=5000)
                    unsure = False
            except ActorCrashedError:
                # This consumer is beyond help: a service would start anew.
                consumer.close()
                consumer = self._begin()
            except KafkaError as error:
                self._simulation.history.note("user.hears", member.name, error=repr(error))
                unsure = not consumer.config["enable_auto_commit"]
                self._simulation.sleep(0.1)
            if member.busy_for:
                busy, member.busy_for = member.busy_for, 0.0
                self._simulation.sleep(busy)

    def _commit(self, consumer: KafkaConsumer) -> bool:
        """Commit by hand if nobody else does; whether that may have failed unheard."""
        if consumer.config["enable_auto_commit"]:
            return False
        if self._simulation.random.random() < 0.5:
            consumer.commit(timeout_ms=5000)
            return False
        consumer.commit_async()
        return True

    def _seek(self, consumer: KafkaConsumer, member: Member) -> None:
        """Go back a little, as one does who wants to do something again."""
        member.seeks = False
        for one in sorted(consumer.assignment()):
            position = consumer.position(one, timeout_ms=1000)
            if position is not None:
                consumer.seek(one, max(0, position - 3))
                return


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python is untyped
    """Says nothing, for that it was called is in the trace; a fault may make it slow."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._take_time()

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._take_time()

    def on_partitions_lost(self, lost: Any) -> None:
        self._take_time()

    def _take_time(self) -> None:
        seconds = self._simulation.me.slow_listener
        if seconds:
            self._simulation.sleep(seconds)
