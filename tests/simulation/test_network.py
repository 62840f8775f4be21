"""The simulated network keeps TCP's promises, whatever happens to a link."""

from __future__ import annotations

import pytest

from aktor.simulation import Simulation


@pytest.mark.parametrize("seed", range(10))
def test_what_was_held_back_on_a_cut_link_is_not_overtaken_by_what_is_under_way(seed: int) -> None:
    """Found by a crash drill: an answer came before the answer to an earlier request."""
    arrived: list[str] = []
    with Simulation(seed) as sim:
        link = ("alice", 1)
        sim.network.cut_link(*link)
        sim.network.carry(link, lambda: arrived.append("held back"))
        sim.scheduler.after(0.0, lambda: sim.network.mend_link(*link))
        sim.scheduler.after(
            0.0, lambda: sim.network.carry(link, lambda: arrived.append("under way"))
        )

        sim.run(for_=1.0)

    assert arrived == ["held back", "under way"]
