"""Records that a query must read and that do not exist any more: the option `failOnDataLoss`."""

from __future__ import annotations

import logging
from typing import Final

from aktor.errors import DataLossError

__all__ = ["report"]

_LOG: Final = logging.getLogger("aktor.spark")

_REMEDY: Final = (
    "The records may have been deleted by retention, or the topic was deleted or created anew, or"
    " a leader without all records was elected. To go on without them, set failOnDataLoss=false."
)


def report(text: str, *, fail: bool) -> None:
    """Raise DataLossError, or log a warning if the query is to go on."""
    if fail:
        raise DataLossError(f"{text}. {_REMEDY}")
    _LOG.warning("%s; failOnDataLoss=false, so the query goes on without them", text)
