"""The application's part in a rebalance: revoke partitions, assign them, run the listener.

Runs on the application thread, inside `poll`, `unsubscribe` and `close`; and, after the membership
manager was restarted, inside the next call that asks an actor (the lost callback, see `Recovery`).
The membership manager asks for each step and is answered (see `events/membership.py`), so this code
is the same for both group protocols.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias
from uuid import UUID

from kafka.structs import TopicPartition

from aktor.consumer.core.caller import CallerRef, this_caller
from aktor.consumer.core.delivery import Delivery
from aktor.consumer.core.subscription import TopicIds
from aktor.consumer.core.waiting import Waiting
from aktor.errors import UserCallbackError, WakeupError
from aktor.events.fetching import PausePartitions
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.membership import (
    AssignPartitions,
    CallbackFinished,
    Loss,
    PartitionsReleased,
    RevokePartitions,
    RunRevokedCallback,
    Step,
)
from aktor.events.message import Message
from aktor.events.positions import AssignmentChanged, Position
from aktor.events.routes import APPLICATION
from aktor.trace import Trace

__all__ = ["Occasion", "Rebalancing"]


class Occasion:
    """Why partitions are taken away when no message asks for it: the application leaves the group,
    or the background has failed."""

    __slots__ = ()


#: Why partitions are taken away or assigned. Compared by identity: the listener is called once for
#: each.
TakenFor: TypeAlias = Step | ActorsRestarted | Occasion


class UserCode:
    """Owns the name of the user's callback that the application thread is in, "" if in none."""

    __slots__ = ("name", "running")

    def __init__(self) -> None:
        self.name = ""
        #: The listener's method that runs, since when, and in which thread; None: none runs. It
        #: stays while the method calls the consumer.
        self.running: tuple[str, float, CallerRef] | None = None

    def enter(self, name: str) -> None:
        """The thread goes on in this callback, or in none ("")."""
        self.name = name

    def begin(self, method: str, now: float) -> None:
        """This method of the listener is called now."""
        self.running = method, now, this_caller()

    def back_to(self, outer: tuple[str, float, CallerRef] | None) -> None:
        """The method has returned, or raised; it was called inside of the `outer` one, if any."""
        self.running = outer

    def leave(self) -> None:
        """No callback runs any more: the call was interrupted."""
        self.name = ""
        self.running = None


class _Outcome:
    """How the call of the listener for a step ended. The listener is called once for a step, also
    if an interrupt ends the call."""

    __slots__ = ("begun", "error", "seconds", "step")

    def __init__(self, step: TakenFor | None) -> None:
        self.step = step
        self.begun = False
        self.error: BaseException | None = None
        self.seconds = 0.0

    def begin(self) -> None:
        """The listener is called now: errors from here on are errors of the listener."""
        self.begun = True

    def end(self, error: BaseException) -> None:
        """The listener raised this."""
        self.error = error

    def took(self, seconds: float) -> None:
        """The listener ran for so long."""
        self.seconds = seconds


class Rebalancing:
    """Owns the rebalance listener, and where we stood in the partitions that were taken away."""

    def __init__(
        self,
        delivery: Delivery,
        publish: Callable[[Message], None],
        trace: Trace,
        clock: Callable[[], float],
        topic_ids: TopicIds,
    ) -> None:
        #: The user's listener, None without one.
        self.listener: Any = None
        self.user_code = UserCode()
        #: Whether the group has ever assigned partitions, or told that there are none.
        self.has_assigned = False
        self._outcome = _Outcome(None)
        #: For how long the listener ran for the last step, in seconds.
        self._ran = 0.0
        #: Where we stood in what the group has taken away, until it assigns partitions again; and
        #: the ids of these topics.
        self._left: dict[TopicPartition, tuple[Position, UUID | None]] = {}
        #: The partitions for which a revoked or lost callback is running. If that callback calls
        #: the consumer, and the membership manager was restarted meanwhile, all partitions are
        #: lost: the lost callback is then run for the others only.
        self._in_callback: frozenset[TopicPartition] = frozenset()
        self.log = trace.bind(actor=APPLICATION)
        self._delivery = delivery
        self._publish = publish
        self._clock = clock
        self._topic_ids = topic_ids

    def set_listener(self, listener: Any) -> None:
        """Call this listener of the user's from now on; None: there is none."""
        if listener is not None:
            # Its methods may be asynchronous. asyncio takes a tenth as long as kafka-python to
            # import, so only a consumer with a listener pays for it; and it pays now, because a
            # callback may run in a signal handler or while Python exits, where an import may fail.
            import asyncio  # noqa: F401
        self.listener = listener

    def repair(self) -> None:
        """The last call was interrupted, perhaps in a callback: no callback runs now."""
        self.user_code.leave()
        self._in_callback = frozenset()

    def run(self, step: Step, event: Step | None = None) -> Waiting[BaseException | None]:
        """Take one step and answer it. Returns the listener's error, for `poll` to raise.

        After an interrupt the same `event` (the step as the membership manager sent it) is run
        again: the step is done and answered again, which does no harm, but the listener is not
        called twice.
        """
        event = event or step
        self._ran = 0.0
        match step:
            case RevokePartitions():
                self._release(step)
                return None
            case RunRevokedCallback():
                error = yield from self.revoke(step.partitions, step.loss, event)
            case AssignPartitions():
                error = yield from self._assign(step, event)
        assigned = isinstance(step, AssignPartitions)
        finished = CallbackFinished(
            rebalance=step.rebalance, error=error, assigned=assigned, seconds=self._ran
        )
        self._publish(finished)
        return error

    def has_begun(self, step: Step) -> bool:
        """Whether the listener was called for this step."""
        return self._outcome.step is step and self._outcome.begun

    def _release(self, step: RevokePartitions) -> None:
        self._delivery.hold_back(step.partitions)
        positions = self._delivery.consumed(step.partitions) if step.loss is Loss.REVOKED else {}
        released = PartitionsReleased(
            rebalance=step.rebalance, positions=positions, topic_ids=self._topic_ids.ids
        )
        self._publish(released)
        self._publish(PausePartitions(partitions=step.partitions))
        revoked = self._delivery.offsets(step.partitions)
        self.log.debug("partitions.held_back", partitions=revoked, loss=step.loss)

    def revoke(
        self, partitions: frozenset[TopicPartition], loss: Loss, event: TakenFor | None = None
    ) -> Waiting[BaseException | None]:
        """Run the callback for revoked or lost partitions, then remove them.

        `event` is what the partitions are taken for. For the same object the listener is called
        once.
        """
        self._delivery.hold_back(partitions)
        owned = set(partitions) & self._delivery.partitions.keys()
        callback = "on_partitions_revoked" if loss is Loss.REVOKED else "on_partitions_lost"
        revoked = self._delivery.offsets(owned)
        self.log.debug("partitions.revoking", partitions=revoked, loss=loss)
        error, before = None, self._in_callback
        new = owned - before
        try:
            self._in_callback |= new
            if new or self._outcome.step is event:
                error = yield from self._call(callback, new, event or Occasion())
        finally:
            self._in_callback = before
        let_go = isinstance(event, Occasion)
        if not let_go:
            self._note_left(owned)
        self._delivery.remove(owned)
        kept = self._delivery.as_assigned()
        self._publish(AssignmentChanged(partitions=kept, by_group=True, let_go=let_go))
        return error

    def forget_left(self) -> None:
        """All partitions are given up: the next assignment begins anew."""
        self._left = {}

    def _note_left(self, taken: Iterable[TopicPartition]) -> None:
        """The group takes these away, and perhaps gives some back in its next assignment (an eager
        rebalance, or the member was expelled)."""
        partitions, ids = self._delivery.partitions, self._topic_ids.ids
        stood = {
            one: state.position or state.left
            for one in taken
            if (state := partitions.get(one)) is not None  # a call in the callback may have lost it
        }
        self._left |= {
            one: (position, ids.get(one.topic))
            for one, position in stood.items()
            if position is not None
        }

    def _still_there(self) -> dict[TopicPartition, Position]:
        """Where we stood, but in topics that were created anew since."""
        return {
            one: position
            for one, (position, topic_id) in self._left.items()
            if self._topic_ids.is_known_as(one.topic, topic_id)
        }

    def _assign(self, step: AssignPartitions, event: Step) -> Waiting[BaseException | None]:
        # Positions are looked up and data is fetched while the callback runs; a seek in the
        # callback raises the epoch, so that it wins over both.
        self.has_assigned = True
        self._delivery.assign(sorted(step.assigned), by_group=True, left=self._still_there())
        self._left = {}
        self._publish(AssignmentChanged(partitions=self._delivery.as_assigned(), by_group=True))
        error = yield from self._call("on_partitions_assigned", set(step.added), event)
        withheld = step.added if error is not None and step.must_succeed else frozenset()
        # All partitions may be lost by now: a call in the callback may have found that the
        # membership manager was restarted.
        left = (step.assigned - withheld) & self._delivery.partitions.keys()
        self._delivery.deliver(sorted(left))
        return error

    def _call(
        self, name: str, partitions: set[TopicPartition], event: TakenFor
    ) -> Waiting[BaseException | None]:
        """Call the listener, once for each event; returns the error that it raised."""
        if self._outcome.step is not event:
            self._outcome = _Outcome(event)
        outcome = self._outcome  # a callback inside this callback has its own
        if not outcome.begun and self.listener is not None:
            yield from self._begin(outcome, name, partitions)
        self._ran = outcome.seconds
        return outcome.error

    def _begin(
        self, outcome: _Outcome, name: str, partitions: set[TopicPartition]
    ) -> Waiting[None]:
        # aiokafka's listeners have no `on_partitions_lost`: they are told of a revocation.
        callback = getattr(self.listener, name, None) or self.listener.on_partitions_revoked
        began = self._clock()
        before, outer = self.user_code.name, self.user_code.running
        try:
            self.user_code.enter("a rebalance listener")
            self.user_code.begin(name, began)
            outcome.begin()
            result = callback(partitions)
            if inspect.isawaitable(result):
                yield result
        except GeneratorExit:  # an interrupt came when the coroutine was about to be awaited
            raise
        except WakeupError as error:
            outcome.end(error)
        except Exception as error:
            if not outcome.begun:
                raise
            failed = UserCallbackError(callback=name)
            failed.__cause__ = error
            outcome.end(failed)
            self.log.warning("callback.failed", callback=name, partitions=partitions, because=error)
        except BaseException as error:  # Ctrl-C: raised by `poll` once the step is answered
            if not outcome.begun:
                raise
            outcome.end(error)
        finally:
            outcome.took(self._clock() - began)
            self.user_code.back_to(outer)
            self.user_code.enter(before)
        if outcome.error is None:
            self.log.info(
                "callback.finished",
                callback=name,
                partitions=partitions,
                ms=round(outcome.seconds * 1000, 1),
            )
