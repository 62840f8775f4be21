"""The tasks of a batch."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from aktor.spark.offsets.ranges import OffsetRange, RangeLimits, tasks


def a_range(start: int, end: int, partition: int = 0) -> OffsetRange:
    return OffsetRange("orders", partition, start, end)


def planned(ranges: list[OffsetRange], **limits: int) -> list[list[tuple[int, int, int]]]:
    """(partition, start, end) of each task."""
    found = tasks(ranges, RangeLimits(**limits))
    return [[(one.partition, one.start, one.end) for one in task] for task in found]


def test_each_partition_with_data_is_a_task() -> None:
    assert planned([a_range(0, 5), a_range(3, 3, 1), a_range(9, 4, 2)]) == [[(0, 0, 5)]]


def test_more_tasks_are_made_of_big_ranges_in_proportion() -> None:
    # What Spark's KafkaOffsetRangeCalculator makes of these.
    assert planned([a_range(0, 100), a_range(0, 1, 1)], min_partitions=3) == [
        [(0, 0, 50)],
        [(0, 50, 100)],
        [(1, 0, 1)],
    ]
    assert planned([a_range(0, 10)], min_partitions=4) == [
        [(0, 0, 2)],
        [(0, 2, 4)],
        [(0, 4, 7)],
        [(0, 7, 10)],
    ]


def test_ranges_above_the_most_records_are_split_evenly() -> None:
    assert planned([a_range(0, 10), a_range(0, 3, 1)], max_records=4) == [
        [(0, 0, 3)],
        [(0, 3, 6)],
        [(0, 6, 10)],
        [(1, 0, 3)],
    ]


def test_many_small_ranges_share_a_task() -> None:
    ranges = [a_range(0, size, partition) for partition, size in enumerate([9, 1, 1, 1, 8])]

    assert planned(ranges, max_partitions=2) == [
        [(0, 0, 9), (2, 0, 1)],
        [(1, 0, 1), (3, 0, 1), (4, 0, 8)],
    ]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 1000)), max_size=8),
    st.one_of(st.none(), st.integers(1, 20)),
    st.one_of(st.none(), st.integers(1, 300)),
    st.one_of(st.none(), st.integers(20, 30)),
)
def test_no_offset_is_left_out_and_none_is_twice(
    sizes: list[tuple[int, int]],
    min_partitions: int | None,
    max_records: int | None,
    max_partitions: int | None,
) -> None:
    ranges = [a_range(start, start + size, one) for one, (start, size) in enumerate(sizes)]
    limits = RangeLimits(
        min_partitions=min_partitions, max_records=max_records, max_partitions=max_partitions
    )

    found = tasks(ranges, limits)

    told = sorted(
        (one.partition, offset)
        for task in found
        for one in task
        for offset in range(one.start, one.end)
    )
    assert told == [
        (one.partition, offset) for one in ranges for offset in range(one.start, one.end)
    ]
    if max_partitions is not None:
        assert len(found) <= max_partitions


def test_no_range_is_split_into_more_parts_than_it_has_offsets() -> None:
    # A loop over the wanted parts would not end within the test.
    assert planned([a_range(0, 3)], min_partitions=10**12) == [
        [(0, 0, 1)],
        [(0, 1, 2)],
        [(0, 2, 3)],
    ]
