"""Errors of partitions: which one a poll raises, and when; when positions are looked up again.

An error that only a seek ends (a record that is not deserialized, no position and no policy) stays,
and is raised again and again. An error that may pass (a refused topic) is raised once for each
attempt. The error of a corrupt batch stays, too, while the batch is fetched again (see
`corrupt_batches`).
"""

from __future__ import annotations

import math
from typing import Final

from kafka.structs import TopicPartition

from aktor.consumer.core.assignment import Assignment
from aktor.consumer.core.call import Call
from aktor.consumer.core.delivery import Delivery
from aktor.consumer.core.link import Link
from aktor.consumer.core.partition import Partition
from aktor.protocol.error_codes import only_a_seek_helps

__all__ = ["POSITION_RETRY", "PositionErrors"]

#: How soon a position is looked up again after an error that may pass, in seconds.
POSITION_RETRY: Final = 1.0


class PositionErrors:
    """Owns which errors of partitions were raised, and when they are raised again."""

    def __init__(
        self,
        link: Link,
        call: Call,
        delivery: Delivery,
        assignment: Assignment,
        *,
        retry_backoff: float,
    ) -> None:
        self._call = call
        self._delivery = delivery
        self._assignment = assignment
        self._clock = link.clock
        self._retry_backoff = retry_backoff
        #: Partitions whose position could not be found in this attempt, and the errors of this
        #: attempt that were raised.
        self._unresolved: set[TopicPartition] = set()
        self._raised: set[str] = set()
        #: When these positions are looked up again.
        self.look_up_at = math.inf
        #: The last poll raised an error of a partition: records of the others come before the next
        #: error.
        self._was_last = False
        #: From this time on an error that stands until a seek may be raised again, even if the
        #: deadline of the poll has not come.
        self._again_at = -math.inf

    def raise_before_records(self) -> None:
        """Raise an error that is due before records of other partitions are given out."""
        self._raise_next(again=not self._was_last)

    def raise_in_place_of_records(self, now: float, deadline: float) -> None:
        """Raise an error that is due because there are no records."""
        self._raise_next(again=now >= min(self._again_at, deadline))

    def give_way(self) -> None:
        """Records were given out, or there is no error left."""
        self._was_last = False

    def due_after(self, now: float) -> float:
        """When a poll that waits has an error to raise again, or positions to look up again."""
        return min(self.look_up_at, self._again_at if self._again_at > now else math.inf)

    def _raise_next(self, *, again: bool) -> None:
        """Raise an error of a partition, if there is one to be raised now.

        An error that was raised before and still stands takes turns with the records of the other
        partitions (`again`): an application that catches it and polls on gets both. If the others
        have no records, the error is raised again at the poll's deadline, or after
        `retry_backoff_ms`: a loop that catches it without a seek does not keep the processor busy.
        """
        if self._call.follows_policy:
            self._assignment.reset_out_of_range()
        while (due := self._delivery.next_error(again=again)) is not None:
            self.raise_error_of(*due)

    def raise_error_of(self, state: Partition, error: Exception) -> None:
        """Raise the error of a partition: each time if only a seek helps, otherwise once.

        Positions that could not be found are looked up again, all of them together. Each error of
        one attempt is raised once, however many partitions have it. `_forget` does the same for
        refusals.
        """
        if not only_a_seek_helps(error):
            if state.offset is not None:
                self._forget(error)
            elif self._is_told(state, error):
                return
        else:
            self._again_at = self._clock() + self._retry_backoff
        self._was_last = True
        raise self._call.own_told(error, owed=True)

    def _forget(self, error: Exception) -> None:
        """Forget this error, which is raised now, for all partitions that have the same one.

        When we are no longer authorized for a topic, each of its partitions gets the same error. A
        poll raises one error; without this method one poll per partition would fail.
        """
        for state in self._delivery.failed():
            if state.offset is not None and repr(state.error) == repr(error):
                self._delivery.forget_error(state)

    def _is_told(self, state: Partition, error: Exception) -> bool:
        """Look the position up again later; True if this attempt's error was raised already."""
        raised = repr(error) in self._raised and state.topic_partition not in self._unresolved
        self._raised.add(repr(error))
        self._note_unresolved()
        if not raised:
            self.look_up_at = self._clock() + POSITION_RETRY
        return raised

    def _note_unresolved(self) -> None:
        for state in self._delivery.failed():
            if state.offset is not None or state.error is None:
                continue
            if repr(state.error) in self._raised and not only_a_seek_helps(state.error):
                state.forget_error()
                self._unresolved.add(state.topic_partition)

    def look_up_anew(self, now: float) -> None:
        """Look up again the positions that were not found: we may have been authorized since."""
        if now < self.look_up_at:
            return
        self.look_up_at = math.inf
        self._assignment.apply_positions()
        self._note_unresolved()
        for partition in sorted(self._unresolved & self._delivery.partitions.keys()):
            state = self._delivery.partitions[partition]
            if state.offset is None:
                self._assignment.renew(state)
        self._unresolved.clear()
        self._raised.clear()
        self._assignment.say()
        self._assignment.say_resets("the last attempt failed")

    def forget(self) -> None:
        """The managers are told the whole assignment again: forget the errors of the attempt."""
        self._unresolved.clear()
        self._raised.clear()
        self.look_up_at = math.inf
