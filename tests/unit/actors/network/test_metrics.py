"""What the network actor counts, for `metrics()`."""

from __future__ import annotations

import pytest
from kafka.protocol.consumer import HeartbeatRequest

from aktor.events.sockets import (
    ConnectionClosed,
)
from aktor.values import replace
from tests.unit.actors.network.builders import (
    NetworkHarness,
    a_request,
    connected,
    refused,
)


def measured(harness: NetworkHarness) -> dict[str, float]:
    """By name; those of single nodes are left out."""
    counters = harness.actor.measure(harness.time.now)
    return {metric.name: value for metric, value in counters.items() if "node" not in metric.group}


def test_connections_are_counted_as_they_open_and_close_from_either_side() -> None:
    harness = connected()
    before = measured(harness)
    harness.tell(ConnectionClosed(key=harness.last_key, error=refused(), now=harness.time.now))

    after = measured(harness)
    assert before["connection-count"] == 1
    assert before["connection-close-rate"] == 0
    assert after["connection-count"] == 0
    assert after["connection-close-rate"] > 0
    assert after["connection-creation-rate"] > 0


def test_answers_are_counted_and_their_times_metered() -> None:
    harness = connected()
    body = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    heartbeat = replace(a_request(1), body=body)
    harness.send(heartbeat)
    harness.time.now += 0.010
    harness.answer().send(heartbeat)
    harness.time.now += 0.030
    harness.answer()

    counters = measured(harness)
    assert counters["heartbeat-total"] == 2
    assert counters["last-heartbeat-seconds-ago"] == pytest.approx(0.030)
    assert counters["last-heartbeat-response-seconds-ago"] == 0.0
    assert counters["heartbeat-response-time-avg"] == pytest.approx(20.0)
    assert counters["heartbeat-response-time-max"] == pytest.approx(30.0)
    assert counters["request-total"] == counters["response-total"] == 3
