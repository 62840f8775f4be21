"""`commitOffsets=true`: the progress of a stream as committed offsets of a consumer group, for the
tools that show lag. The checkpoint remains what counts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from kafka.errors import CommitFailedError, KafkaError

from aktor.spark.bounds import Offsets

__all__ = ["GroupMirror"]

_LOG: Final = logging.getLogger("aktor.spark")


class GroupMirror:
    """Owns what was committed last. A commit that fails is logged and never ends the query: the
    next one has newer offsets anyway."""

    def __init__(self, commit: Callable[[Offsets], None], group: str) -> None:
        self._commit = commit
        self._group = group
        self._last: Offsets = {}

    def show(self, offsets: Offsets) -> None:
        """The stream has finished what is below these offsets."""
        if offsets == self._last or not offsets:
            return
        try:
            self._commit(offsets)
        except CommitFailedError:
            _LOG.warning(
                "the offsets of the query were not committed: group %r has members. commitOffsets"
                " needs a group of its own: set kafka.group.id to a name that no consumer uses",
                self._group,
            )
        except KafkaError as error:
            _LOG.warning(
                "the offsets of the query were not committed for %r: %s", self._group, error
            )
        else:
            self._last = offsets
