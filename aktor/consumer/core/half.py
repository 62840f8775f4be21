"""What calls need of the application's half of a consumer, of whatever kind the consumer is.

`guarded`, `aio.guarded` and `aio.driver` begin and end calls, `assembly` runs the last callbacks.
They know the application's half by the names here, and by no others. (`aio.attendance` takes an
`Engine`: between calls it takes part in rebalances.) `Engine` is the half of a `KafkaConsumer`. A
share consumer (KIP-932), whose records have acknowledgements in place of positions, or a member of
a streams group (KIP-1071) would have another class with these members, made by its `ConsumerKind`
(`consumer.system`).
"""

from __future__ import annotations

from typing import Any, Protocol

from aktor.consumer.core.call import Call
from aktor.consumer.core.commits import CommitCallbacks
from aktor.consumer.core.core import Wiring
from aktor.consumer.core.port import Port
from aktor.consumer.core.rebalancing import UserCode
from aktor.consumer.core.waiting import Waiting
from aktor.events.membership import Operation

__all__ = ["ApplicationHalf"]


class _Records(Protocol):
    @property
    def anything_ready(self) -> bool:
        """Whether there are records for a call that waits for them."""


class _Given(Protocol):
    def take_back(self, record: Any) -> bool:
        """The result of this call has not reached the user. False: it cannot be taken back, and the
        next call begins with a repair."""


class _Listening(Protocol):
    @property
    def user_code(self) -> UserCode:
        """The callback of the user's that runs, if one does."""


class _Committing(Protocol):
    @property
    def callbacks(self) -> CommitCallbacks:
        """The callbacks that are still to be run when the consumer is closed."""


class ApplicationHalf(Protocol):
    """The application's half, as those see it who begin and end its calls."""

    @property
    def wiring(self) -> Wiring[Port]:
        """Its ways to the background, whose `port.failure` ends each call, and to the trace."""

    @property
    def call(self) -> Call:
        """What the call under way has done, and what is asked of it: see `docs/interrupts.md`."""

    @property
    def delivery(self) -> _Records: ...
    @property
    def iteration(self) -> _Given: ...
    @property
    def rebalancing(self) -> _Listening: ...
    @property
    def commits(self) -> _Committing: ...

    def begin_call(self) -> None:
        """An outermost call begins: what the last one gave out has reached the user."""

    def repair(self) -> None:
        """The last call was interrupted: repair what it left half done."""

    def close(
        self, deadline: float, *, commit: bool = True, operation: Operation = Operation.DEFAULT
    ) -> Waiting[BaseException | None]:
        """What is owed to the group and to the user when the consumer ends, until `deadline`.
        Returns the error of the user's listener."""

    def spare_unfinished(self) -> None:
        """The consumer is to be closed: what another thread was given last counts as not
        finished."""
