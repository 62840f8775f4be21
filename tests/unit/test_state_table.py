"""A state machine that is one table."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest

from aktor.state_table import IllegalTransitionError, follow


class Door(Enum):
    OPEN = "open"
    SHUT = "shut"


class Act(Enum):
    PUSH = "push"
    PULL = "pull"


TABLE: Mapping[Door, Mapping[Act, Door]] = {
    Door.OPEN: {Act.PUSH: Door.SHUT},
    Door.SHUT: {Act.PULL: Door.OPEN},
}


def test_the_table_says_which_state_follows() -> None:
    assert follow(TABLE, Door.OPEN, Act.PUSH) is Door.SHUT


def test_a_trigger_that_the_state_does_not_know_is_refused_by_name() -> None:
    with pytest.raises(IllegalTransitionError, match="PULL while OPEN"):
        follow(TABLE, Door.OPEN, Act.PULL)


class Interrupted(dict[Any, Any]):
    """A table; while it is read, a signal handler of the user raises a KeyError."""

    def __getitem__(self, state: Any) -> Any:
        raise KeyError("of the user")


def test_a_key_error_of_a_signal_handler_is_not_taken_for_an_unknown_trigger() -> None:
    with pytest.raises(KeyError, match="of the user"):
        follow(Interrupted(TABLE), Door.OPEN, Act.PUSH)
