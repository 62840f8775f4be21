"""A Fetch request: what it asks for, and how it says so on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka.protocol.consumer.fetch import FetchRequest
from kafka.structs import TopicPartition

from aktor.managers.fetch.session import SessionRequest, Wanted
from aktor.protocol.fetch import MAX_BY_NAME, MAX_VERSION, MIN_VERSION
from aktor.settings import Settings
from aktor.values import Value

__all__ = ["CHUNK_OVERHEAD", "Asked", "fetch_request"]

#: The bytes that a chunk costs besides its records.
CHUNK_OVERHEAD: Final = 256


class Asked(Value):
    """Context of a Fetch: what it asked for, and how much of the room is set aside for it.

    `sessionless` says that it went beside the session's Fetch (see `SessionlessFetch`).
    """

    node: int
    max_bytes: int
    sent_at: float
    session: SessionRequest
    wanted: Mapping[TopicPartition, Wanted]
    sessionless: bool = False

    @property
    def reserved(self) -> int:
        """How much of the buffer its answer may take."""
        return self.max_bytes + CHUNK_OVERHEAD * len(self.wanted)


def fetch_request(asked: Asked, settings: Settings, *, wait: float) -> FetchRequest:
    """The body of the request. The broker may wait so many seconds for `fetch_min_bytes`."""
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=round(wait * 1000),
        min_bytes=settings.fetch_min_bytes,
        max_bytes=asked.max_bytes,
        isolation_level=int(settings.isolation_level == "read_committed"),
        session_id=asked.session.session_id,
        session_epoch=asked.session.epoch,
        topics=_topics(asked.session.partitions),
        forgotten_topics_data=_forgotten(asked.session.forgotten),
        rack_id=settings.client_rack,
        min_version=MIN_VERSION,
        max_version=MAX_VERSION if asked.session.by_id else MAX_BY_NAME,
    )


def _topics(partitions: Mapping[TopicPartition, Wanted]) -> list[Any]:
    """The partitions in the order given, because brokers fill the answer in this order. So a topic
    may occur twice."""
    topics: list[Any] = []
    for tp, wanted in partitions.items():
        if not topics or topics[-1].topic != tp.topic:
            topic_id = wanted.topic_id
            topics.append(FetchRequest.FetchTopic(topic=tp.topic, topic_id=topic_id, partitions=[]))
        topics[-1].partitions.append(
            FetchRequest.FetchTopic.FetchPartition(
                partition=tp.partition,
                current_leader_epoch=wanted.leader_epoch,
                fetch_offset=wanted.offset,
                last_fetched_epoch=wanted.last_epoch,
                log_start_offset=-1,
                partition_max_bytes=wanted.max_bytes,
            )
        )
    return topics


def _forgotten(partitions: Mapping[TopicPartition, Wanted]) -> list[Any]:
    topics: list[Any] = []
    for tp in sorted(partitions):
        if not topics or topics[-1].topic != tp.topic:
            topic_id = partitions[tp].topic_id
            topics.append(
                FetchRequest.ForgottenTopic(topic=tp.topic, topic_id=topic_id, partitions=[])
            )
        topics[-1].partitions.append(tp.partition)
    return topics
