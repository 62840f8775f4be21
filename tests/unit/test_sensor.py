"""A sensor against kafka-python's own statistics: the same values at the same times."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.metrics import MetricConfig
from kafka.metrics.stats import Avg, Count, Max, Rate

from aktor.sensor import Sensor


@settings(deadline=None)
@given(
    values=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 1000)), max_size=30),
    samples=st.integers(1, 4),
    window=st.sampled_from([1, 5, 30]),
    rest=st.integers(0, 100),
)
def test_average_maximum_and_rates_are_those_of_kafka_python(
    values: list[tuple[int, int]], samples: int, window: int, rest: int
) -> None:
    config = MetricConfig(samples=samples, time_window_ms=window * 1000)
    stats = Avg(), Max(), Rate(), Rate(sampled_stat=Count())
    sensor, now = Sensor(samples, float(window)), 1000

    for pause, value in values:
        now += pause
        sensor.record(value, float(now))
        for stat in stats:
            stat.record(config, value, now * 1000)
    now += rest

    found = sensor.average(now), sensor.maximum(now), sensor.rate(now), sensor.frequency(now)
    for stat, mine in zip(stats, found, strict=True):
        try:
            theirs = stat.measure(config, now * 1000)
        except ZeroDivisionError:  # one window, in its first millisecond
            theirs = 0.0
        assert mine == pytest.approx(theirs)
    assert sensor.count == len(values)


def test_what_was_recorded_before_the_last_windows_does_not_count() -> None:
    sensor = Sensor(2, 30.0)
    sensor.record(7.0, 100.0)

    assert sensor.maximum(159.9) == 7.0
    assert sensor.maximum(160.0) == -math.inf
    assert sensor.average(160.0) == sensor.frequency(160.0) == 0.0
    assert sensor.count == 1


def test_to_read_changes_nothing() -> None:
    sensor = Sensor(2, 30.0)
    sensor.record(7.0, 100.0)

    assert sensor.frequency(1000.0) == 0.0
    assert sensor.frequency(110.0) == sensor.frequency(110.0) > 0.0
