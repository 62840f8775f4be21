"""How the processes of a run share the tests.

`tests/conftest.py` makes it, and says which tests are one unit, which one process does. A process
that is nearly done with its units is given the next one.
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
        self, config: pytest.Config, log: Any, chain_of: Callable[[str, int], str]
    ) -> None:
        """`chain_of`: the unit of a test that shares one, by its id and how many processes there
        are; else ""."""
        super().__init__(config, log)
        self._chain_of = chain_of
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
        name, unit = self.workqueue.popitem(last=False)
        self.assigned_work.setdefault(node, {})[name] = unit
        numbers = self._numbers.get(node)
        if numbers is None:
            ids = self.registered_collections[node]
            numbers = self._numbers[node] = {nodeid: number for number, nodeid in enumerate(ids)}
        node.send_runtest_some([numbers[nodeid] for nodeid in unit])
