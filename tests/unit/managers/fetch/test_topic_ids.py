"""Topics by their ids (KIP-516), and the leaders that a broker names (KIP-951), in the fetch
manager."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from kafka.errors import (
    FencedLeaderEpochError,
    FetchSessionTopicIdError,
    InconsistentTopicIdError,
    NotLeaderForPartitionError,
    UnknownTopicIdError,
)
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.structs import TopicPartition

from aktor.events.metadata import Broker, LeadersMoved, PartitionInfo, RefreshMetadata
from aktor.events.network import Request
from aktor.managers.fetch.node import EMPTY_PACE
from aktor.protocol.fetch import MAX_BY_NAME, MAX_VERSION, NodeEndpoint
from tests.unit.managers.fetch.builders import FetchHarness, a_batch, chunks, of, offsets, tp

ID, NEW_ID, OTHER_ID = (UUID(int=number) for number in (1, 2, 3))
OTHER = TopicPartition("payments", 0)
MOVED = NotLeaderForPartitionError.errno


def refreshes(said: list[object]) -> list[object]:
    return [one for one in said if isinstance(one, RefreshMetadata)]


def ids(request: Request) -> dict[str, UUID | None]:
    """The id of each topic that the request names."""
    return {topic.topic: topic.topic_id for topic in request.body.topics}


# -- how topics are named


def test_topics_are_asked_for_by_their_ids_in_the_newest_version() -> None:
    harness = FetchHarness.reading({0: 1}, ids={"orders": ID})

    body = harness.the_request().body

    read = FetchRequest.decode(body.encode(version=MAX_VERSION), version=MAX_VERSION)
    assert body._max_version == MAX_VERSION
    assert [topic.topic_id for topic in read.topics] == [ID]
    assert body.topics[0].topic == "orders"  # an older broker is asked by name


def test_if_the_id_of_one_topic_is_not_known_all_are_asked_for_by_name() -> None:
    harness = FetchHarness.reading({0: 1, OTHER: 1}, ids={"orders": ID})

    by_name = harness.the_request()
    harness.answer(by_name, of(0), of(OTHER))
    harness.cluster({0: 1, OTHER: 1}, ids={"orders": ID, "payments": OTHER_ID})
    by_id = harness.the_request(1.0)

    assert by_name.body._max_version == MAX_BY_NAME
    assert by_id.body._max_version == MAX_VERSION
    assert ids(by_id) == {"orders": ID, "payments": OTHER_ID}
    assert by_id.body.session_epoch == 0


def test_records_that_come_by_id_belong_to_the_topic_that_was_asked_for_by_it() -> None:
    harness = FetchHarness.reading({0: 1, OTHER: 1}, ids={"orders": ID, "payments": OTHER_ID})

    said = harness.answer(
        harness.the_request(),
        of(0, a_batch(0, 10), topic_id=ID),
        of(0, a_batch(0, 5), topic_id=OTHER_ID),
        of(0, a_batch(0, 3), topic_id=NEW_ID),
    )

    assert [(chunk.partition, chunk.end) for chunk in chunks(said)] == [(tp(0), 10), (OTHER, 5)]


def test_the_size_of_a_fetch_is_measured_under_the_name_of_the_topic() -> None:
    harness = FetchHarness.reading({0: 1, OTHER: 1}, ids={"orders": ID, "payments": OTHER_ID})

    harness.answer(
        harness.the_request(),
        of(0, a_batch(0, 10, size=100), topic_id=ID),
        of(0, a_batch(0, 5, size=200), topic_id=OTHER_ID),
        of(0, a_batch(0, 3), topic_id=NEW_ID),
    )

    measured = harness.manager.measure(harness.now)
    tagged = {one.tags: value for one, value in measured.items() if one.name == "fetch-size-max"}
    assert tagged == {(): 400, (("topic", "orders"),): 100, (("topic", "payments"),): 200}


def test_what_an_incremental_answer_brings_by_id_is_known_from_earlier_requests() -> None:
    harness = FetchHarness.reading({0: 1, 1: 1}, ids={"orders": ID})
    harness.answer(harness.the_request(), of(0, topic_id=ID), of(1, topic_id=ID))

    second = harness.the_request(1.0)
    said = harness.answer(second, of(1, a_batch(0, 10), topic_id=ID))

    assert second.body.topics == []
    assert [chunk.partition for chunk in chunks(said)] == [tp(1)]


def test_a_partition_is_forgotten_by_the_id_of_its_topic() -> None:
    harness = FetchHarness.reading({0: 1, OTHER: 1}, ids={"orders": ID, "payments": OTHER_ID})
    harness.answer(harness.the_request(), of(0, topic_id=ID), of(0, topic_id=OTHER_ID))
    harness.pause(OTHER)

    (topic,) = harness.the_request(1.0).body.forgotten_topics_data

    assert (topic.topic, topic.topic_id, topic.partitions) == ("payments", OTHER_ID, [0])


# -- topics that are deleted and created again


def test_records_of_the_old_topic_are_dropped_when_the_new_one_is_known() -> None:
    harness = FetchHarness.reading({0: 1}, ids={"orders": ID})
    old = harness.the_request()
    harness.cluster({0: 1}, ids={"orders": NEW_ID})

    said = harness.answer(old, of(0, a_batch(0, 10), topic_id=ID))

    assert chunks(said) == []
    assert ids(harness.the_request()) == {"orders": NEW_ID}


def test_a_topic_created_anew_is_fetched_by_its_new_id_in_a_new_session() -> None:
    harness = FetchHarness.reading({0: 1, OTHER: 1}, ids={"orders": ID, "payments": OTHER_ID})
    harness.answer(harness.the_request(), of(0, topic_id=ID), of(0, topic_id=OTHER_ID))
    harness.cluster({0: 1, OTHER: 1}, ids={"orders": NEW_ID, "payments": OTHER_ID})

    request = harness.the_request(1.0)

    assert ids(request) == {"orders": NEW_ID, "payments": OTHER_ID}
    assert (request.body.session_epoch, request.body.session_id) == (0, 77)


def test_a_leader_named_before_the_topic_was_created_anew_does_not_lead_the_new_one() -> None:
    """The new topic's leader epochs begin again, below those of the old one."""
    harness = FetchHarness.reading({0: (1, 0)}, ids={"orders": ID})
    refused = of(0, error_code=MOVED, current_leader=(3, 8), topic_id=ID)
    harness.answer(harness.the_request(), refused)

    harness.cluster({0: (1, 0)}, ids={"orders": NEW_ID})

    assert harness.the_request(EMPTY_PACE).to == 1


# -- what a broker refuses


@pytest.mark.parametrize("error", [UnknownTopicIdError, InconsistentTopicIdError])
def test_an_id_that_the_broker_does_not_know_leads_to_new_metadata(error: Any) -> None:
    harness = FetchHarness.reading({0: 1}, ids={"orders": ID})

    said = harness.answer(harness.the_request(), of(0, error_code=error.errno, topic_id=ID))

    assert len(refreshes(said)) == 1
    assert chunks(said) == []
    assert harness.tick() == []
    assert harness.the_request(0.1).body.topics == []  # the session has it still


@pytest.mark.parametrize("error", [UnknownTopicIdError, InconsistentTopicIdError])
def test_a_new_id_is_asked_for_at_once_after_the_old_one_was_refused(error: Any) -> None:
    harness = FetchHarness.reading({0: 1}, ids={"orders": ID})
    harness.answer(harness.the_request(), of(0, error_code=error.errno, topic_id=ID))

    harness.cluster({0: 1}, ids={"orders": NEW_ID})

    assert ids(harness.the_request(EMPTY_PACE)) == {"orders": NEW_ID}


def test_a_session_of_names_that_goes_on_with_ids_is_begun_anew_and_metadata_asked_for() -> None:
    """As Java's AbstractFetch: FETCH_SESSION_TOPIC_ID_ERROR."""
    harness = FetchHarness.reading({0: 1}, ids={"orders": ID})
    harness.answer(harness.the_request(), of(0, topic_id=ID))

    said = harness.answer(harness.the_request(1.0), error_code=FetchSessionTopicIdError.errno)

    request = harness.the_request()
    assert len(refreshes(said)) == 1
    assert (request.body.session_epoch, request.body.session_id) == (0, 77)
    assert offsets(request) == {0: 0}


# -- the new leader (KIP-951)


@pytest.mark.parametrize("error", [NotLeaderForPartitionError, FencedLeaderEpochError])
def test_a_leader_that_the_metadata_does_not_have_is_asked_when_its_address_is_known(
    error: Any,
) -> None:
    harness = FetchHarness.reading({0: (1, 5)}, ids={"orders": ID})
    refused = of(0, error_code=error.errno, current_leader=(9, 8), topic_id=ID)
    others = NodeEndpoint(node_id=8, host="b8", port=9092)
    new = NodeEndpoint(node_id=9, host="b9", port=9092, rack="east")

    said = harness.answer(harness.the_request(), refused, endpoints=[others, new])
    while_unknown = harness.tick()
    harness.cluster({0: (9, 8)}, brokers=(1, 2, 3, 9), ids={"orders": ID})
    request = harness.the_request()

    assert said == [
        LeadersMoved(
            leaders={tp(0): PartitionInfo(leader=9, leader_epoch=8)},
            topic_ids={"orders": ID},
            brokers={9: Broker(node_id=9, host="b9", port=9092, rack="east")},
        )
    ]
    assert while_unknown == []
    assert (request.to, request.body.topics[0].partitions[0].current_leader_epoch) == (9, 8)


def test_a_new_address_of_a_known_leader_is_told() -> None:
    harness = FetchHarness.reading({0: (1, 5)})
    moved = NodeEndpoint(node_id=2, host="elsewhere", port=19092)

    (told,) = harness.answer(
        harness.the_request(),
        of(0, error_code=MOVED, current_leader=(2, 6)),
        endpoints=[moved],
    )

    assert isinstance(told, LeadersMoved)
    assert told.brokers == {2: Broker(node_id=2, host="elsewhere", port=19092)}
    assert harness.the_request().to == 2


def test_the_leader_of_before_in_a_newer_epoch_is_asked_at_once() -> None:
    harness = FetchHarness.reading({0: (1, 5)})
    fenced = of(0, error_code=FencedLeaderEpochError.errno, current_leader=(1, 6))

    said = harness.answer(harness.the_request(), fenced)

    request = harness.the_request(EMPTY_PACE)
    assert refreshes(said) == []
    assert (request.to, request.body.topics[0].partitions[0].current_leader_epoch) == (1, 6)
