"""Filters of a batch query that Spark hands over: what is read, and what stays with Spark."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka import KafkaProducer
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from aktor.broker import EmbeddedKafka
from aktor.spark.driver.cluster import DriverCluster
from aktor.spark.tasks import worker
from tests.spark.harness import a_source, run_task, sent, the_schema

#: Records of each partition: their times in ms, out of order.
TIMES = [1000, 5000, 2000, 2001, 9000, 3000, 9000, 4000]
TOPICS = {"lines": 3, "other": 1}


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
        for topic, partitions in TOPICS.items():
            kafka.create_topic(topic, partitions)
            for number, time in enumerate(TIMES):
                for partition in range(partitions):
                    # Each in a batch of its own: a broker finds times by batches.
                    producer.send(
                        topic, b"%d" % number, partition=partition, timestamp_ms=time + partition
                    ).get()
        producer.close()
        yield kafka
        worker._drop()


def a_reader(kafka: EmbeddedKafka, **more: str) -> tuple[Any, Any]:
    servers = kafka.bootstrap_servers
    given = {"kafka.bootstrap.servers": servers, "subscribe": "lines,other"}
    given |= {"pushFilters": "true"} | more
    schema = the_schema(given)
    return sent(a_source(given)).reader(schema=schema), schema


def at(ms: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def spans(reader: Any) -> dict[tuple[str, int], tuple[int, int]]:
    return {
        (span.topic, span.partition): (span.start, span.end)
        for task in reader.partitions()
        for span in task.ranges
    }


Span = tuple[str, int, int, int]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(("topic",), "other")], {("other", 0): (0, 8)}),
        ([StringStartsWith(("topic",), "oth")], {("other", 0): (0, 8)}),
        ([EqualTo(("partition",), 2)], {("lines", 2): (0, 8)}),
        (
            [In(("partition",), (1, 2)), Not(EqualTo(("partition",), 2))],
            {("lines", 1): (0, 8)},
        ),
        (
            [EqualTo(("partition",), 1), GreaterThan(("offset",), 2), LessThan(("offset",), 5)],
            {("lines", 1): (3, 5)},
        ),
        ([EqualTo(("offset",), 7), EqualTo(("partition",), 2)], {("lines", 2): (7, 8)}),
        ([In(("offset",), (2, 4)), LessThanOrEqual(("partition",), 0)], dict.fromkeys(
            [("lines", 0), ("other", 0)], (2, 5))),
        ([EqualTo(("offset",), 8)], {}),
        ([GreaterThan(("offset",), 2**62)], {}),
        # The first record from 2001 ms on is that of 5000 ms; those after it may be older.
        (
            [GreaterThanOrEqual(("timestamp",), at(2001)), EqualTo(("topic",), "other")],
            {("other", 0): (1, 8)},
        ),
        (
            [GreaterThan(("timestamp",), at(5000)), EqualTo(("topic",), "other")],
            {("other", 0): (4, 8)},
        ),
        # Microseconds: the record of 9000 ms is before 9000.001 ms.
        ([GreaterThanOrEqual(("timestamp",), at(9002.001))], {}),
        ([GreaterThan(("timestamp",), at(9001.999))], {("lines", 2): (4, 8)}),
        ([EqualTo(("timestamp",), at(9002))], {("lines", 2): (4, 8)}),
        # An upper end cuts nothing: a later record may be older.
        (
            [LessThan(("timestamp",), at(1500)), EqualTo(("topic",), "other")],
            {("other", 0): (0, 8)},
        ),
    ],
)  # fmt: skip
def test_filters_on_where_a_record_is_and_when_it_was_written_become_ranges(
    kafka: EmbeddedKafka, filters: list[Filter], expected: Any
) -> None:
    reader, _ = a_reader(kafka)

    reader.pushFilters(filters)

    assert spans(reader) == expected


def test_spark_filters_again_what_may_be_null_and_gets_back_what_is_not_known(
    kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    reader, _ = a_reader(kafka)
    exact = [
        IsNotNull(("offset",)),
        GreaterThan(("offset",), 1),
        In(("partition",), (0, 1)),
        Not(StringContains(("topic",), "x")),
        EqualNullSafe(("partition",), 1),
    ]
    again = [GreaterThan(("timestamp",), at(5)), EqualTo(("value",), b"1"), IsNull(("key",))]
    unknown = [EqualTo(("headers",), []), EqualTo(("value", "x"), 1), In(("offset",), (1, None))]
    before_year_1 = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    unknown.append(GreaterThan(("timestamp",), before_year_1))

    with caplog.at_level(logging.INFO, logger="aktor.spark"):
        left = reader.pushFilters([*exact, *again, *unknown])

    assert list(left) == [*again, *unknown]
    assert all(any(one is given for given in [*again, *unknown]) for one in left)
    assert "GreaterThan(attribute=('offset',), value=1)" in caplog.text


def test_filters_are_taken_only_from_a_query_that_says_it_is_alone(
    kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark uses what one filter of a DataFrame left for its other queries, too."""
    reader, _ = a_reader(kafka, pushFilters="false")
    filters = [EqualTo(("partition",), 1)]

    with caplog.at_level(logging.INFO, logger="aktor.spark"):
        left = reader.pushFilters(filters)

    assert left is filters
    assert len(spans(reader)) == sum(TOPICS.values())
    assert "pushFilters=true" in caplog.text


def test_a_source_that_takes_filters_is_not_refused_where_the_setting_is_off(
    kafka: EmbeddedKafka,
) -> None:
    """`plan_data_source_read` of PySpark looks at this, and refuses each query of the reader."""
    reader, _ = a_reader(kafka, pushFilters="false")

    assert reader.pushFilters.__func__ is DataSourceReader.pushFilters


def test_filters_that_shall_be_taken_where_the_setting_is_off_are_refused_by_pyspark(
    kafka: EmbeddedKafka,
) -> None:
    """It alone knows the setting. Else nothing would be handed over, without a word."""
    reader, _ = a_reader(kafka, pushFilters="true")

    assert reader.pushFilters.__func__ is not DataSourceReader.pushFilters


a_filter = st.one_of(
    st.builds(lambda make, number: make(("offset",), number), st.sampled_from(
        [EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]), st.integers(-1, 9)),
    st.builds(lambda make, number: make(("partition",), number), st.sampled_from(
        [EqualTo, GreaterThan, LessThanOrEqual]), st.integers(0, 2)),
    st.builds(lambda make, ms: make(("timestamp",), at(ms)), st.sampled_from(
        [EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]),
        st.sampled_from([*TIMES, 2000.5, 9000.001, 8999.999, 0, 9100])),
    st.builds(lambda numbers: In(("offset",), tuple(numbers)), st.lists(st.integers(0, 8))),
    st.sampled_from([EqualTo(("topic",), "lines"), StringContains(("topic",), "e")]),
)  # fmt: skip


def _is_true(one: Any, row: dict[str, Any]) -> bool:
    """Python's own word on the filters of this test; no column is null."""
    if isinstance(one, Not):
        return not _is_true(one.child, row)
    here, value = row[one.attribute[0]], one.value
    match one:
        case EqualTo():
            return bool(here == value)
        case GreaterThan():
            return bool(here > value)
        case GreaterThanOrEqual():
            return bool(here >= value)
        case LessThan():
            return bool(here < value)
        case LessThanOrEqual():
            return bool(here <= value)
        case In():
            return here in value
    assert isinstance(one, StringContains)
    return value in here


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(filters=st.lists(st.one_of(a_filter, a_filter.map(Not)), min_size=1, max_size=3))
def test_no_row_is_lost_and_none_comes_that_spark_would_not_drop(
    kafka: EmbeddedKafka, filters: list[Filter]
) -> None:
    reader, schema = a_reader(kafka, columns="topic,partition,offset,timestamp")
    left = reader.pushFilters(filters)
    assert all(one.attribute == ("timestamp",) for one in map(_bare, left))

    rows = [
        row
        for task in reader.partitions()
        for batch in run_task(reader, task, schema)
        for row in batch.to_pylist()
    ]

    every = [
        {"topic": topic, "partition": one, "offset": place, "timestamp": at(time + one)}
        for topic, partitions in TOPICS.items()
        for one in range(partitions)
        for place, time in enumerate(TIMES)
    ]
    expected = [row for row in every if all(_is_true(one, row) for one in filters)]
    key = ("topic", "partition", "offset")
    assert sorted(tuple(row[k] for k in key) for row in rows) == [
        tuple(row[k] for k in key) for row in expected
    ]


def _bare(one: Any) -> Any:
    return one.child if isinstance(one, Not) else one


def test_times_are_looked_up_after_the_ends_so_that_a_record_in_between_is_not_left_out(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No record is young enough, one is written, and the end is looked up behind it: it would be
    in the range, and young enough, and not be read."""
    asked = []
    for name in ("end_offsets", "offsets_for_times"):
        ask = getattr(DriverCluster, name)
        monkeypatch.setattr(
            DriverCluster, name, lambda *a, n=name, f=ask, **k: (asked.append(n), f(*a, **k))[1]
        )
    reader, _ = a_reader(kafka)
    reader.pushFilters([GreaterThan(("timestamp",), at(5))])

    reader.partitions()

    assert asked[-1] == "offsets_for_times"
    assert ("offsets_for_times", "end_offsets") not in pairwise(asked)
