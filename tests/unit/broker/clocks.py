"""A clock for brokers that goes on only when it is told to, whatever the machine does."""

from __future__ import annotations

from aktor.broker.embedded import EmbeddedKafka
from aktor.broker.server import Clock
from tests.unit.broker.raw_client import works


class StandingClock(Clock):
    """Begins at the present time and stands there."""

    def __init__(self) -> None:
        super().__init__()
        self._now = super().__call__()

    def __call__(self) -> float:
        return self._now

    def put_forward(self, seconds: float, kafka: EmbeddedKafka, *, awake: int = 1) -> None:
        """What is due by then has happened when this returns; `awake` is a broker that answers."""

        def act() -> None:
            self._now += seconds

        kafka.server.ask(act)
        # An answer comes by a later turn of the server, so the one that saw the new time is over.
        assert works(kafka.address(awake))
