"""`commitOffsets=true`: the progress of a stream as committed offsets of a consumer group, for the
tools that show lag. The checkpoint remains what counts."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Final

from kafka.errors import CommitFailedError, KafkaError

from aktor.spark.offsets.bounds import Offsets

__all__ = ["GroupMirror"]

_LOG: Final = logging.getLogger("aktor.spark")

#: How long no commit is tried after one that failed, in seconds. The driver waits for a commit, and
#: Spark plans no batch meanwhile: while the coordinator is away, each trigger would wait.
_PAUSE_AFTER_FAILURE: Final = 30.0


class GroupMirror:
    """Owns the offsets that were committed last, and the time of the next attempt. A commit that
    fails is logged and never ends the query: a later one has newer offsets anyway."""

    def __init__(
        self,
        commit: Callable[[Offsets], None],
        group: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._commit = commit
        self._group = group
        self._clock = clock
        self._last: Offsets = {}
        self._not_before = -math.inf

    def show(self, offsets: Offsets) -> None:
        """Commit these offsets: the stream has finished the records below them."""
        if offsets == self._last or not offsets or self._clock() < self._not_before:
            return
        try:
            self._commit(offsets)
        except CommitFailedError:
            self._pause()
            _LOG.warning(
                "the offsets of the query were not committed: group %r has members. commitOffsets"
                " needs a group of its own: set kafka.group.id to a name that no consumer uses",
                self._group,
            )
        except KafkaError as error:
            self._pause()
            _LOG.warning(
                "the offsets of the query were not committed for %r: %s", self._group, error
            )
        else:
            self._last = offsets

    def _pause(self) -> None:
        self._not_before = self._clock() + _PAUSE_AFTER_FAILURE
