"""pyarrow is an extra: the columns say so if it is missing."""

from __future__ import annotations

from typing import Any

__all__ = ["import_arrow"]


def import_arrow() -> Any:
    """The module `arrow` of this room, which needs pyarrow; it is an extra."""
    try:
        from aktor.consumer.columns import arrow
    except ImportError as error:
        text = f"columns need pyarrow: pip install pyarrow ({error})"
        raise ImportError(text) from None
    return arrow
