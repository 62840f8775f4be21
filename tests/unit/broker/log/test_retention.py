"""Which records go by time and size, and what the settings may be."""

from __future__ import annotations

import pytest

from aktor.broker.codes import Code, Refused
from aktor.broker.log.log import LogConfig
from tests.unit.broker.log.building import (
    HOUR_MS,
    NOW,
    NOW_MS,
    a_batch,
    a_log,
    offsets,
    values,
    write,
    write_each,
)

SIZE = len(a_batch(b"a"))
HOUR = 3600.0


def test_a_segment_goes_when_its_youngest_record_is_too_old() -> None:
    log = a_log(retention_ms=HOUR_MS, segment_bytes=2 * SIZE)
    for minute in range(4):
        write(log, a_batch(b"a", timestamp=NOW_MS + minute * 60_000), now=NOW + minute * 60)

    assert not log.retain(NOW + HOUR + 60)
    assert log.retain(NOW + HOUR + 61)
    assert offsets(log) == [2, 3]


def test_the_last_segment_goes_when_it_is_too_old_and_offsets_go_on() -> None:
    log = a_log(retention_ms=HOUR_MS)
    write_each(log, b"a", b"b")

    assert log.retain(NOW + HOUR + 1)

    assert (log.start_offset, log.end_offset, log.size_bytes) == (2, 2, 0)
    write(log, a_batch(b"c", timestamp=NOW_MS + 2 * HOUR_MS), now=NOW + 2 * HOUR)
    assert not log.retain(NOW + 2 * HOUR)
    assert (offsets(log), values(log)) == ([2], [b"c"])


def test_one_young_record_keeps_its_segment() -> None:
    log = a_log(retention_ms=HOUR_MS)
    write(log, a_batch(b"old", timestamp=1))
    write(log, a_batch(b"new", timestamp=NOW_MS))

    # The segment was rolled by time (segment.ms), so that only the old record goes.
    assert log.retain(NOW + 1)
    assert values(log) == [b"new"]

    write(log, a_batch(b"old", timestamp=1))
    assert not log.retain(NOW + 1)
    assert values(log) == [b"new", b"old"]


def test_records_without_time_are_as_old_as_their_writing() -> None:
    log = a_log(retention_ms=HOUR_MS)
    write(log, a_batch(timestamp=-1))

    assert not log.retain(NOW + HOUR)
    assert log.retain(NOW + HOUR + 1)


def test_no_more_segments_go_than_are_too_much() -> None:
    log = a_log(retention_bytes=3 * SIZE, segment_bytes=SIZE)
    write_each(log, b"a", b"b", b"c", b"d", b"e")

    assert log.retain(NOW)
    assert values(log) == [b"c", b"d", b"e"]
    assert not log.retain(NOW)


def test_the_last_segment_is_never_too_much() -> None:
    log = a_log(retention_bytes=SIZE)
    write_each(log, b"a", b"b", b"c")

    assert not log.retain(NOW)


def test_what_is_not_replicated_is_retained() -> None:
    log = a_log(retention_ms=HOUR_MS, segment_bytes=SIZE)
    write_each(log, b"a")
    log.append(a_batch(b"b"), leader_epoch=0, now=NOW)

    assert log.retain(NOW + 2 * HOUR)
    assert log.start_offset == 1
    log.advance(2)
    assert log.retain(NOW + 2 * HOUR)
    assert log.start_offset == 2


@pytest.mark.parametrize("settings", [{"retention_ms": -1}, {"cleanup_policy": {"compact"}}])
def test_nothing_goes_where_nothing_shall(settings: dict[str, object]) -> None:
    log = a_log(**settings)
    write(log, a_batch(b"a", keys=[b"key"]))

    assert not log.retain(NOW + 1000 * 24 * HOUR)


def test_settings_are_read_by_kafkas_names() -> None:
    config = LogConfig.of(
        {
            "max.message.bytes": "100",
            "retention.ms": "-1",
            "cleanup.policy": "compact, delete",
            "message.timestamp.type": "LogAppendTime",
            "compression.type": "producer",
        }
    )

    assert config == LogConfig(
        max_message_bytes=100,
        retention_ms=-1,
        cleanup_policy=frozenset({"compact", "delete"}),
        message_timestamp_type="LogAppendTime",
    )
    assert LogConfig.of({}) == LogConfig()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "soon"),
        ("retention.ms", "-2"),
        ("max.message.bytes", str(2**31)),
        ("cleanup.policy", "shred"),
        ("message.timestamp.type", "createtime"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("min.cleanable.dirty.ratio", "much"),
    ],
)
def test_settings_that_kafka_would_not_take_are_refused(name: str, value: str) -> None:
    with pytest.raises(Refused, match=name) as caught:
        LogConfig.of({name: value})

    assert caught.value.code == Code.INVALID_CONFIG
