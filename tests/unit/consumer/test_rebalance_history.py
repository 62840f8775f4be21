"""`consumer.rebalances` and `consumer.on_event`, of consumers in virtual time."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from aktor import KafkaConsumer
from aktor.consumer.rebalance_history import REBALANCES_KEPT, RebalanceHistory
from aktor.simulation import Simulation
from aktor.trace import open_trace
from tests.unit.trace.rebalances.incidents import Incident

BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@BOTH
def test_a_consumer_has_its_parts_in_the_last_rebalances(protocol: str) -> None:
    with Simulation(1) as sim:
        group = Incident(sim, protocol)
        alice = group.joins()
        sim.run(for_=5)
        alice.slow_listener = 2.0
        group.joins()
        sim.run(for_=20)

        parts = alice.consumer.rebalances

    assert parts[0].because in ("first join", "the group has taken this member in")
    assert {part.outcome for part in parts} == {"completed"}
    assert parts[-1].trigger == "peer"
    assert parts[-1].revoked_callback_ms == 2000
    assert (parts[0].consumer, parts[0].host) == ("alice", None)
    with pytest.raises(FrozenInstanceError):
        parts[0].because = "another one"  # type: ignore[misc]


def test_the_last_fifty_are_kept() -> None:
    trace = open_trace(consumer="c", group="g")
    history = RebalanceHistory(trace)
    for number in range(REBALANCES_KEPT + 30):
        of = {"rebalance": number, "because": "the subscription changed"}
        trace.info("rebalance.triggered", generation=number, member="m", owned=0, **of)
        trace.info("membership.moved", before="stable", after="joining", trigger="join", **of)
        trace.info(
            "rebalance.completed",
            **of,
            generation=number + 1,
            ms=1.0,
            owned=0,
            added=[],
            revoked=0,
        )

    rows = history.rows()

    assert {row.because for row in rows} == {"the subscription changed"}
    assert len(rows) == REBALANCES_KEPT
    assert history.rows() == rows


def test_a_consumer_without_a_group_has_no_rebalances() -> None:
    consumer = KafkaConsumer(bootstrap_timeout_ms=0)
    try:
        assert consumer.rebalances == []
    finally:
        consumer.close()


def test_on_event_hears_a_consumer_until_it_is_taken_back() -> None:
    got: list[dict[str, Any]] = []
    consumer = KafkaConsumer(bootstrap_timeout_ms=0)
    consumer.on_event(got.append)
    with pytest.raises(TypeError, match="on_event takes a function"):
        consumer.on_event("print")  # type: ignore[arg-type]
    consumer.close()

    assert got[-1]["event"] == "consumer.closed"
