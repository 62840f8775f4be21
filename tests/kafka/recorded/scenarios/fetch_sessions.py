"""Fetch sessions (KIP-227): what is left out, what is forgotten, and what goes wrong."""

from __future__ import annotations

import uuid
from typing import Any

from tests.kafka.recorded.batches import batch
from tests.kafka.recorded.world import Topic, World


def _part(partition: int = 0, offset: int = 0, **fields: Any) -> dict[str, Any]:
    return {
        "partition": partition,
        "fetch_offset": offset,
        "partition_max_bytes": 100_000,
        **fields,
    }


def _session(
    world: World, session: int, epoch: int, *topics: Any, version: int = 12, **f: Any
) -> Any:
    asked = []
    for topic, partitions in topics:
        where = {"topic_id": topic.id} if version >= 13 else {"topic": topic.name}
        asked.append({**where, "partitions": partitions})
    return world.ask(
        "Fetch",
        version,
        **{"max_wait_ms": 0, "min_bytes": 1, **f},
        session_id=session,
        session_epoch=epoch,
        topics=asked,
    )


def a_full_fetch_opens_a_session_and_the_next_one_tells_what_is_new(world: World) -> None:
    topic = world.topic(2)
    opened = world.note("open", _session(world, 0, 0, (topic, [_part(0), _part(1)])))
    session = opened.session_id
    world.note("nothing new", _session(world, session, 1))
    world.produce(topic, batch("a"), partition=1)
    world.note("one has a record", _session(world, session, 2))
    world.note("it was not taken", _session(world, session, 3))
    world.note("now it was", _session(world, session, 4, (topic, [_part(1, 1)])))


def a_new_high_watermark_alone_is_news(world: World) -> None:
    topic = world.topic()
    session = _session(world, 0, 0, (topic, [_part(0, 0)])).session_id
    world.produce(topic, batch("a"))
    world.note("past the record", _session(world, session, 1, (topic, [_part(0, 1)])))
    world.note("no news", _session(world, session, 2))


def partitions_are_added_and_forgotten(world: World) -> None:
    topic, other = world.topic(2), world.topic()
    session = _session(world, 0, 0, (topic, [_part(0)])).session_id
    world.note("added", _session(world, session, 1, (topic, [_part(1)]), (other, [_part()])))
    for where in (topic, other):
        world.produce(where, batch("a"))
    forgotten = [{"topic": topic.name, "partitions": [0]}]
    world.note("forgotten", _session(world, session, 2, forgotten_topics_data=forgotten))
    world.note("forgotten twice", _session(world, session, 3, forgotten_topics_data=forgotten))


def partitions_added_by_id(world: World) -> None:
    topic = world.topic(2)
    session = _session(world, 0, 0, (topic, [_part(0)]), version=13).session_id
    world.note("added", _session(world, session, 1, (topic, [_part(1)]), version=13))
    forgotten = [{"topic_id": topic.id, "partitions": [0, 1]}]
    world.note(
        "forgotten", _session(world, session, 2, version=13, forgotten_topics_data=forgotten)
    )


def sessions_and_epochs_that_do_not_fit(world: World) -> None:
    topic = world.topic()
    world.note("no such session", _session(world, 12345, 1))
    session = _session(world, 0, 0, (topic, [_part()])).session_id
    world.note("epoch skipped", _session(world, session, 2))
    world.note("epoch as expected", _session(world, session, 1))
    world.note("epoch repeated", _session(world, session, 1))
    world.note("negative epoch", _session(world, session, -5))


def epoch_minus_1_closes_and_epoch_0_opens_anew(world: World) -> None:
    topic = world.topic()
    session = _session(world, 0, 0, (topic, [_part()])).session_id
    world.note("final", _session(world, session, -1, (topic, [_part()])))
    world.note("closed", _session(world, session, 1))
    session = _session(world, 0, 0, (topic, [_part()])).session_id
    again = world.note(
        "open with the id of an old one", _session(world, session, 0, (topic, [_part()]))
    )
    world.note("the old one", _session(world, session, 1))
    world.note("the new one", _session(world, again.session_id, 1))


def without_a_session_everything_is_told(world: World) -> None:
    topic = world.topic()
    world.note("sessionless", _session(world, 0, -1, (topic, [_part()])))
    world.note("empty full fetch", _session(world, 0, 0))


def an_error_is_told_every_time(world: World) -> None:
    topic = world.topic()
    opened = world.note("open", _session(world, 0, 0, (topic, [_part(0), _part(9)])))
    for epoch in (1, 2):
        world.note(f"epoch {epoch}", _session(world, opened.session_id, epoch))


def an_offset_out_of_range_in_a_session(world: World) -> None:
    topic = world.topic()
    session = _session(world, 0, 0, (topic, [_part(0, 5)])).session_id
    world.note("still", _session(world, session, 1))
    world.note("mended", _session(world, session, 2, (topic, [_part(0, 0)])))
    world.note("silent", _session(world, session, 3))


def an_unknown_topic_id_in_a_session_comes_with_the_partition(world: World) -> None:
    topic = world.topic()
    nowhere = Topic("", uuid.UUID(int=7), 1)
    opened = world.note(
        "open", _session(world, 0, 0, (topic, [_part()]), (nowhere, [_part()]), version=13)
    )
    world.note("again", _session(world, opened.session_id, 1, version=13))


def changing_between_names_and_ids_ends_the_session(world: World) -> None:
    topic = world.topic()
    session = _session(world, 0, 0, (topic, [_part()])).session_id
    world.note(
        "ids in a session of names", _session(world, session, 1, (topic, [_part()]), version=13)
    )
    session = _session(world, 0, 0, (topic, [_part()]), version=13).session_id
    world.note("names in a session of ids", _session(world, session, 1, (topic, [_part()])))


def a_deleted_topic_in_a_session(world: World) -> None:
    topic, by_id = world.topic(), world.topic()
    names = _session(world, 0, 0, (topic, [_part()])).session_id
    ids = _session(world, 0, 0, (by_id, [_part()]), version=13).session_id
    world.ask(
        "DeleteTopics", 6, timeout_ms=10_000, topics=[{"name": topic.name}, {"name": by_id.name}]
    )
    for each in (topic, by_id):
        while world.fetch(each).responses[0].partitions[0].error_code != 3:
            pass
    world.note("by name", _session(world, names, 1))
    world.note("by id", _session(world, ids, 1, version=13))


def a_session_waits_like_any_fetch(world: World) -> None:
    topic = world.topic()
    session = _session(world, 0, 0, (topic, [_part()])).session_id
    later = world.send(
        "Fetch",
        12,
        "b",
        max_wait_ms=10_000,
        min_bytes=1,
        session_id=session,
        session_epoch=1,
        topics=[],
    )
    world.note("waits", later.answer(0.2))
    world.produce(topic, batch("a"))
    world.note("comes", later.answer())
