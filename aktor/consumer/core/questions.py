"""Asking an actor of the background, and waiting for its answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from kafka.errors import KafkaTimeoutError
from kafka.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

from aktor.consumer.core.core import Core
from aktor.consumer.core.port import Settle
from aktor.consumer.core.recovery import Recovery
from aktor.consumer.core.waiting import Patience, Waiting
from aktor.errors import ActorRestartedError, BootstrapError
from aktor.events.commits import FetchCommittedOffsets
from aktor.events.message import Message
from aktor.events.metadata import DescribeTopics, TopicInfo
from aktor.events.network import ReportBootstrap
from aktor.events.positions import ListOffsets, ResetStrategy
from aktor.events.routes import COMMITS, METADATA, NETWORK, POSITIONS

__all__ = ["ANSWER_GRACE", "REPORT_WAIT", "Questions"]

#: How long a call waits beyond a deadline for the actor's own error, in seconds.
#: The background thread has its answer at the deadline; it may need a moment to get to run.
ANSWER_GRACE: Final = 0.1

#: How long the network actor may take to say how its attempts ended, in seconds.
REPORT_WAIT: Final = 1.0


class Questions:
    """Owns nothing: the port has the open questions, the call has the tickets of its own."""

    __slots__ = ("_core", "_recovery")

    def __init__(self, core: Core, recovery: Recovery) -> None:
        self._core = core
        self._recovery = recovery

    def ask(
        self,
        actor: str,
        question: Callable[[int], Message],
        *,
        deadline: float,
        what: str,
        interruptible: bool = True,
        is_commit: bool = False,
    ) -> Waiting[Any]:
        """Ask `actor` and wait for the answer.

        The actor knows the deadline and why there is no answer: at the deadline it says so, in a
        `KafkaTimeoutError`. The wait goes on for `ANSWER_GRACE` so that this error is heard.

        Raises the answer's error; `KafkaTimeoutError` without a cause if the actor says nothing;
        and, if it is `interruptible`, `WakeupError` or an error of the connections (otherwise these
        are kept for a later call).

        If another thread waits to close the consumer, a commit is given a moment to be done.
        """
        core = self._core
        call = core.call
        call.check_alive()
        yield from self._recovery.restore_if_restarted()
        began = core.clock()
        patience = Patience(max(began, deadline) + ANSWER_GRACE, began)
        ticket, reply = core.port.ask(actor, asked=call.asked)
        try:
            core.publish(question(ticket))
            while not reply.done:
                look_at = math.inf
                if interruptible:
                    call.raise_interruptions()
                    if is_commit and core.clock() < call.commits_until:
                        look_at = call.commits_until
                    else:
                        call.end_for_close()
                else:
                    call.check_alive()
                now = core.clock()
                if patience.is_over(now):
                    raise call.own(
                        KafkaTimeoutError(
                            f"{what} was not done within {max(0.0, deadline - began):.3g} s, and"
                            f" the {actor} actor does not say why: the consumer's background"
                            " thread does not get to run. See whether the process is short of CPU"
                            " time."
                        )
                    )
                look_at = patience.until(now, look_at)
                yield call.until(look_at) if interruptible else look_at
            if reply.error is not None:
                raise call.own_told(reply.error)
            return reply.get()
        finally:
            core.port.forget(ticket)

    def ask_without_waiting(
        self, actor: str, question: Callable[[int], Message], settle: Settle
    ) -> Waiting[None]:
        """Ask `actor`; `settle` is called with the answer or error, on the background thread.

        It is a generator because a listener may have to run first, about a restarted actor.
        """
        core = self._core
        call = core.call
        call.check_alive()
        yield from self._recovery.restore_if_restarted()
        ticket = core.port.open(actor, settle, call.asked)
        core.publish(question(ticket))
        call.does_not_wait_for(ticket)

    # -- what users ask

    def committed(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> Waiting[dict[TopicPartition, OffsetAndMetadata | None]]:
        """The group's committed offset of each of these partitions; None: it has none."""
        if not partitions:
            return {}
        found: Mapping[TopicPartition, OffsetAndMetadata | None] = yield from self.ask(
            COMMITS,
            lambda ticket: FetchCommittedOffsets(
                ticket=ticket, partitions=frozenset(partitions), deadline=deadline
            ),
            deadline=deadline,
            what=f"looking up the committed offset of {_names(partitions)}",
        )
        return {partition: found.get(partition) for partition in partitions}

    def topics(
        self, topics: frozenset[str] | None, deadline: float
    ) -> Waiting[Mapping[str, TopicInfo]]:
        """These topics, as a broker knows them; None: all."""
        return self.ask(
            METADATA,
            lambda ticket: DescribeTopics(ticket=ticket, topics=topics, deadline=deadline),
            deadline=deadline,
            what="looking up topics",
        )

    def names_of_topics(self, deadline: float) -> Waiting[set[str]]:
        """The names of all topics, as a broker knows them; without Kafka's own, unless the settings
        say that these are shown."""
        found = yield from self.topics(None, deadline)
        hidden = self._core.settings.exclude_internal_topics
        return {name for name, topic in found.items() if not (hidden and topic.internal)}

    def offsets(
        self, timestamps: Mapping[TopicPartition, int], deadline: float
    ) -> Waiting[dict[TopicPartition, OffsetAndTimestamp | None]]:
        """The first offsets at or after these times; or the edges, by `ResetStrategy.value`.

        The metadata manager follows the topics until there is an answer.
        """
        if not timestamps:
            return {}
        track, asked = self._core.subscription.track_topics_of_question, list[int]()

        def question(ticket: int) -> ListOffsets:
            asked.append(ticket)
            track(ticket, frozenset(partition.topic for partition in timestamps))
            return ListOffsets(ticket=ticket, timestamps=dict(timestamps), deadline=deadline)

        try:
            found: dict[TopicPartition, OffsetAndTimestamp | None] = yield from self.ask(
                POSITIONS,
                question,
                deadline=deadline,
                what=f"looking up offsets of {_names(timestamps)}",
            )
        finally:
            for ticket in asked:
                track(ticket, frozenset())
        return found

    def edges(
        self, partitions: Iterable[TopicPartition], strategy: ResetStrategy, deadline: float
    ) -> Waiting[dict[TopicPartition, int]]:
        """The offsets where these partitions begin, or end."""
        found = yield from self.offsets(dict.fromkeys(partitions, strategy.value), deadline)
        return {partition: at.offset for partition, at in found.items() if at is not None}

    def reach_cluster(self, deadline: float, *, refresh: bool = False) -> Waiting[None]:
        """Wait until a broker has described the cluster; `refresh`: ask one in any case.

        An attempt that fails does not end the wait: the broker may be starting. A refusal does (of
        the login, or of our certificate). At the deadline BootstrapError is raised, or
        KafkaTimeoutError if a broker answers and does not describe the cluster.
        """
        core = self._core
        call, port = core.call, core.port
        began = core.clock()
        patience = Patience(deadline, began)
        while port.cluster.version <= 0:
            call.check_alive()
            call.raise_wakeup()
            call.end_for_close()
            error = port.connections.take_error()
            if error is not None and not isinstance(error, BootstrapError):
                raise call.own_told(error)
            if core.events.restarts():
                # A restarted metadata manager asks for no brokers by itself.
                yield from self.topics(frozenset(), deadline)
                return
            now = core.clock()
            if patience.is_over(now):
                yield from self.raise_if_unreached()
                raise call.own(
                    KafkaTimeoutError(
                        f"no broker has described the cluster within {deadline - began:.3g} s. See"
                        " the warnings of the logger aktor for what it answers."
                    )
                )
            yield patience.until(now)
        if refresh:
            yield from self.topics(frozenset(), deadline)

    def raise_if_unreached(self) -> Waiting[None]:
        """Raise BootstrapError if no broker has ever answered: then it is unknown whether the
        topics are empty."""
        core = self._core
        if core.port.cluster.version > 0:
            return
        try:
            error = yield from self.ask(
                NETWORK,
                lambda ticket: ReportBootstrap(ticket=ticket),
                deadline=core.clock() + REPORT_WAIT,
                what="asking whether any broker was reached",
            )
        except BootstrapError:
            raise
        except (KafkaTimeoutError, ActorRestartedError):
            return  # the background has a worse problem, and tells it by itself
        if error is not None:
            raise core.call.own_told(error)


def _names(partitions: Iterable[TopicPartition]) -> str:
    """The first ten of the partitions, as an error names them."""
    return ", ".join(
        sorted(f"{partition.topic}-{partition.partition}" for partition in partitions)[:10]
    )
