"""What `process` shows of its handlers, for `why()` and the trace."""

from __future__ import annotations

import math
from typing import NamedTuple

from kafka.structs import TopicPartition

__all__ = ["HandlersNow"]


class HandlersNow(NamedTuple):
    """How many delivered records the handlers have yet to finish, how many of these they were
    given, and when the oldest (inf: none was). `paused`: the partitions that `process` has paused
    until more of these are finished."""

    unfinished: int = 0
    given: int = 0
    since: float = math.inf
    paused: frozenset[TopicPartition] = frozenset()
