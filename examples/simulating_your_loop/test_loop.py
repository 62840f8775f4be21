"""The loops in a simulation where processes die: no order may be left unprocessed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aktor.simulation import Simulation
from examples.simulating_your_loop.loop import commit_after, commit_before


def orders_left_over(seed: int, loop: Callable[..., Any]) -> set[bytes]:
    """Two processes work; some are killed, and others started in their place."""
    processed: set[bytes] = set()

    with Simulation(seed) as sim:

        def process(order: bytes) -> None:
            sim.sleep(0.05)  # what takes time in earnest; whoever is killed here has not done it
            processed.add(order)

        orders = sim.topic("orders", partitions=2, records=200)
        for _ in range(2):
            sim.member(loop, sim.bootstrap_servers, process)
        sim.chaos(rate=0.2, for_=30.0, weights={"member_killed": 1}).run(for_=30.0)
        sim.heal().run(until=lambda: orders.lag("billing") == 0, at_most=120.0)
        sim.run(for_=5.0)
    return set(orders.values) - processed


@pytest.mark.parametrize("seed", range(5))
def test_no_order_is_left_over_by_who_commits_after_processing(seed: int) -> None:
    assert orders_left_over(seed, commit_after) == set()


def test_a_seed_shows_that_who_commits_before_processing_loses_orders() -> None:
    assert any(orders_left_over(seed, commit_before) for seed in range(5))
