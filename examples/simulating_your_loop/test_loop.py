"""The loops in a simulation where processes die: no order may be left unprocessed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aktor.simulation import CheckFailedError, Simulation
from examples.simulating_your_loop.loop import commit_after, commit_before


def judge(seed: int, loop: Callable[..., Any]) -> None:
    """Two processes work; some are killed, and others started in their place."""
    with Simulation(seed) as sim:
        orders = sim.topic("orders", partitions=2, records=200)
        invoices = sim.sink(orders, "at-least-once", takes=0.05)
        for _ in range(2):
            sim.member(loop, sim.bootstrap_servers, invoices.put)
        deaths = {"member_killed": 1, "killed_at_line": 1}
        sim.chaos(rate=0.2, for_=30.0, weights=deaths).run(for_=30.0)
        sim.heal().progress().check()


@pytest.mark.parametrize("seed", range(5))
def test_no_order_is_left_over_by_who_commits_after_processing(seed: int) -> None:
    judge(seed, commit_after)


def judge_some(loop: Callable[..., Any]) -> None:
    for seed in range(5):
        judge(seed, loop)


def test_a_seed_shows_that_who_commits_before_processing_loses_orders() -> None:
    with pytest.raises(CheckFailedError, match=r"orders-.* never had its effect, and still exists"):
        judge_some(commit_before)
