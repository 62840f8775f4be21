"""The logger `aktor.spark`: what it says is seen, although nobody configures logging in the Python
processes of Spark.

Python itself would print warnings of a logger that has no handler. The logger `aktor` has one that
does nothing, as libraries should, and with it nobody would ever hear of a loss of data that
`failOnDataLoss=false` lets pass.
"""

from __future__ import annotations

import logging
import sys
from typing import Final

__all__ = ["show_warnings"]

_OURS: Final = ("aktor.spark", "aktor", None)


class _UnlessConfigured(logging.Handler):
    """Prints to stderr, which Spark keeps, if no other handler gets the record."""

    def emit(self, record: logging.LogRecord) -> None:
        handlers = (handler for name in _OURS for handler in logging.getLogger(name).handlers)
        if all(
            isinstance(handler, (_UnlessConfigured, logging.NullHandler)) for handler in handlers
        ):
            print(self.format(record), file=sys.stderr, flush=True)


def show_warnings() -> None:
    """Print the warnings of `aktor.spark` where logging is not configured."""
    handler = _UnlessConfigured(logging.WARNING)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger("aktor.spark").addHandler(handler)
