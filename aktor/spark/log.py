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

__all__ = ["show_warnings", "tell"]

_OURS: Final = ("aktor.spark", "aktor", None)

_LOG: Final = logging.getLogger("aktor.spark")


class _UnlessConfigured(logging.Handler):
    """Prints to stderr, which Spark keeps, if no other handler gets the record."""

    def emit(self, record: logging.LogRecord) -> None:
        if not _is_configured():
            print(self.format(record), file=sys.stderr, flush=True)


def _is_configured() -> bool:
    handlers = (handler for name in _OURS for handler in logging.getLogger(name).handlers)
    return not all(
        isinstance(handler, (_UnlessConfigured, logging.NullHandler)) for handler in handlers
    )


def show_warnings() -> None:
    """Print the warnings of `aktor.spark` where logging is not configured."""
    handler = _UnlessConfigured(logging.WARNING)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    _LOG.addHandler(handler)


def tell(text: str, *values: object) -> None:
    """Log at level INFO what somebody who runs a query wants to see. It is printed, too, where
    logging is not configured: nobody can set a level in Spark's Python processes."""
    if _is_configured():
        _LOG.info(text, *values)
    else:
        print(f"aktor.spark: {text % values}", file=sys.stderr, flush=True)
