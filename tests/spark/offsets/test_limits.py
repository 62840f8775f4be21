"""How much of a backlog goes into one micro-batch."""

from __future__ import annotations

from kafka.structs import TopicPartition

from aktor.spark.offsets.limits import Delay, limited

A, B, C = (TopicPartition("orders", partition) for partition in range(3))


def test_the_limit_is_shared_in_proportion_to_the_backlog() -> None:
    assert limited({A: 0, B: 10, C: 0}, {A: 300, B: 110, C: 0}, 40) == {A: 30, B: 20, C: 0}


def test_a_small_backlog_gets_one_offset_at_least() -> None:
    assert limited({A: 0, B: 0}, {A: 10_000, B: 1}, 100) == {A: 99, B: 1}


def test_what_is_below_the_limit_is_read_whole() -> None:
    assert limited({A: 0, B: 0}, {A: 5, B: 5}, 10) == {A: 5, B: 5}


def test_a_partition_that_ends_below_its_beginning_is_left_as_it_is() -> None:
    assert limited({A: 100, B: 0}, {A: 90, B: 50}, 10) == {A: 90, B: 10}


def test_bytes_are_shared_by_what_an_offset_weighs() -> None:
    weights = {A: 100.0, B: 1.0}

    found = limited({A: 0, B: 0}, {A: 100, B: 10_000}, 2_000, weights.__getitem__)

    assert found == {A: 10, B: 1000}


def test_a_batch_waits_for_enough_offsets_but_not_longer_than_the_delay() -> None:
    delay = Delay(minimum=10, longest=60.0)

    assert not delay.holds({A: 0}, {A: 1}, now=100.0), "the first batch does not wait"
    assert delay.holds({A: 1}, {A: 9}, now=159.0)
    assert not delay.holds({A: 1}, {A: 11}, now=159.5)
    assert delay.holds({A: 11}, {A: 12}, now=200.0)
    assert not delay.holds({A: 11}, {A: 12}, now=219.5)
