"""Topic ids without a known name: a KIP-848 coordinator sends topic ids, not names."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from kafka.protocol.metadata import MetadataRequest

from aktor.actors.runtime.exchange import Exchange
from aktor.actors.runtime.manager import NEVER
from aktor.settings import Settings

__all__ = ["UnnamedTopics"]

#: From Metadata v12 on topics may be asked for by their ids (KIP-516).
BY_ID: Final = 12


class UnnamedTopics:
    """Owns the topic ids whose names are wanted and not known, and the request for the names, of
    which one is in flight at a time."""

    def __init__(self, settings: Settings) -> None:
        self._ids: frozenset[Any] = frozenset()
        self._exchange = Exchange(settings)

    @property
    def due(self) -> float:
        """When the names may be asked for."""
        return self._exchange.due if self._ids else NEVER

    def ask_for(self, ids: frozenset[Any]) -> None:
        """The names of these ids are wanted, in place of those that were wanted before."""
        self._ids = ids
        self._exchange.hurry()

    def patience(self, first: float) -> float:
        """How long the next attempt may take."""
        return self._exchange.patience(first)

    def request(self) -> Any:
        """A request for the names. It creates no topic."""
        topic = MetadataRequest.MetadataRequestTopic
        return MetadataRequest(
            topics=[topic(name=None, topic_id=topic_id) for topic_id in sorted(self._ids)],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
            min_version=BY_ID,
        )

    def sent(self) -> None:
        """The request is on its way."""
        self._exchange.sent()

    def answered(self, named: Collection[Any], now: float, jitter: float) -> None:
        """An answer names these topics; the others are asked for again after the backoff."""
        self._exchange.ended()
        self._ids = self._ids.difference(named)
        if self._ids:
            self._exchange.failed(now, jitter)

    def failed(self, now: float, jitter: float) -> None:
        """There is no answer: ask again after the backoff."""
        self._exchange.failed(now, jitter)
