"""How the processes of a run share the tests.

`tests/conftest.py` makes it, and says which tests are one unit, which one process does, and which
units are on brokers: these mostly wait. All processes but one do them, until none is left, and that
one computes meanwhile. When one process did all on embedded Kafkas, both processors had nothing to
do for the last two minutes of five.

A process that is nearly done with its units is given the next one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

#: So many units of one module are given away at once: each one alone would be a message of its own.
PORTION = 8


class Sharing(LoadScopeScheduling):
    """Hands out units, in the order of the tests.

    pytest-xdist keeps what is done, and counts it after each test, and looks for each test among
    all: with 17,000 tests half a minute of the processor.
    """

    def __init__(
        self,
        config: pytest.Config,
        log: Any,
        chain_of: Callable[[str, int], str],
        is_on_brokers: Callable[[str], bool],
    ) -> None:
        """`chain_of`: the unit of a test that shares one, by its id and how many processes there
        are; else "". `is_on_brokers`: whether a unit of this name is."""
        super().__init__(config, log)
        self._chain_of = chain_of
        self._is_on_brokers = is_on_brokers
        #: For each process, whether it does units on brokers.
        self._on_brokers: dict[Any, bool] = {}
        self._units: dict[str, str] = {}
        self._seen: Counter[str] = Counter()
        self._numbers: dict[Any, dict[str, int]] = {}

    def _split_scope(self, nodeid: str) -> str:
        if nodeid not in self._units:
            self._units[nodeid] = self._chain_of(nodeid, self.numnodes) or self._portion(nodeid)
        return self._units[nodeid]

    def _portion(self, nodeid: str) -> str:
        """Units are short, and a few together are one; what takes longer is alone."""
        if not nodeid.startswith("tests/unit/"):
            return nodeid
        module = nodeid.partition("::")[0]
        self._seen[module] += 1
        return f"{module} {self._seen[module] // PORTION}"

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        nodeid = self.registered_collections[node][item_index]
        name = self._split_scope(nodeid)
        unit = self.assigned_work[node][name]
        del unit[nodeid]
        if not unit:
            del self.assigned_work[node][name]
        self._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        name = self._next_for(node)
        unit = self.workqueue.pop(name)
        self.assigned_work.setdefault(node, {})[name] = unit
        numbers = self._numbers.get(node)
        if numbers is None:
            ids = self.registered_collections[node]
            numbers = self._numbers[node] = {nodeid: number for number, nodeid in enumerate(ids)}
        node.send_runtest_some([numbers[nodeid] for nodeid in unit])

    def _next_for(self, node: Any) -> str:
        """The first unit of the kind that this process does; of the other kind, if there is no
        more."""
        on_brokers = self._on_brokers.setdefault(node, len(self._on_brokers) + 1 < self.numnodes)
        for name in self.workqueue:
            if self._is_on_brokers(name) == on_brokers:
                return name
        self._on_brokers[node] = not on_brokers
        return next(iter(self.workqueue))
