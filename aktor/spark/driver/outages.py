"""A running query waits as long as no broker answers."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any, Final, TypeVar

from kafka.errors import KafkaError

__all__ = ["Outages"]

#: How long a query waits between two plans while no broker answers, in seconds.
_PAUSE: Final = 1.0

#: How often it says so, in seconds.
_WARNING: Final = 60.0

_LOG: Final = logging.getLogger("aktor.spark")

R = TypeVar("R")


class Outages:
    """Owns whether the query has planned before. `wanted` says whether there is still somebody for
    whom an outage is waited out."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Any],
        wanted: Callable[[], bool],
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._wanted = wanted
        self._has_planned = False

    def wait_out(self, plan: Callable[[], R]) -> R:
        """What `plan` returns; it is called again as long as no broker answers.

        Only for a query that has planned before. Until then the options may be wrong, and the user
        must hear of it. All of the plan is made again, not the one request: if a topic was deleted
        meanwhile, its offsets would be asked for in vain for ever.
        """
        began = self._clock()
        warned = -math.inf
        while True:
            try:
                found = plan()
            except KafkaError as error:
                if not (self._has_planned and error.retriable and self._wanted()):
                    raise
                now = self._clock()
                if now - warned >= _WARNING:
                    warned = now
                    _LOG.warning("the query waits until brokers answer: %s", error)
                self._sleep(_PAUSE)
            else:
                if warned > -math.inf:
                    _LOG.warning("the query goes on after %.0f s", self._clock() - began)
                self._has_planned = True
                return found
