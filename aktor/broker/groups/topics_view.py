"""What a group needs to know of the cluster's topics."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

__all__ = ["TopicsView"]


class TopicsView(Protocol):
    """The topics as they are now; `version` is raised by each change."""

    #: Names of topics that clients may not READ.
    forbidden: set[str]

    @property
    def version(self) -> int:
        """A number that changes when topics or their partitions do."""

    def names(self) -> tuple[str, ...]:
        """All topics, sorted."""

    def topic_id(self, name: str) -> UUID | None:
        """The id of the topic that has this name now."""

    def name(self, topic_id: UUID) -> str | None:
        """The name of the topic with this id, None if it is gone."""

    def partitions(self, name: str) -> int:
        """How many partitions it has; 0 if there is no such topic."""
