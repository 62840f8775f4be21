"""Kafka record batches in, kafka-python's `ConsumerRecord`s out.

There are two readers with the same behaviour: `kernel`, which is compiled when aktor is installed,
and `reader`, in Python, which is used where there was no compiler. `status` says which one it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import aktor.kafka_python  # noqa: F401  # it checks kafka-python

# isort: split
from kafka.consumer.fetcher import ConsumerRecord

from aktor import compiled
from aktor.records.codecs import MAX_BATCH_BYTES
from aktor.records.reader import Deserialize

__all__ = [
    "MAX_BATCH_BYTES",
    "Columns",
    "ConsumerRecord",
    "Deserialize",
    "RecordReader",
    "status",
]

_why_python = ""
if TYPE_CHECKING:
    from aktor.records.columns import Columns
    from aktor.records.reader import RecordReader
elif not compiled.is_wanted():
    from aktor.records.columns import Columns
    from aktor.records.reader import RecordReader

    _why_python = f"{compiled.PURE_PYTHON} is set"
else:
    try:
        from aktor.records.kernel import Columns, RecordReader
    except ImportError as error:
        from aktor.records.columns import Columns
        from aktor.records.reader import RecordReader

        _why_python = f"the compiled one cannot be imported: {error}"


def status() -> str:
    """Which reader is used, and why if it is not the compiled one; for logs and bug reports."""
    return f"Python, because {_why_python}" if _why_python else "compiled"
