"""kafka-python's `kafka.errors`; `kafka_errors.pyi` tells type checkers what is in it.

The stub is made by `python -m tests.error_stub`; a test compares the two.
"""

from __future__ import annotations

import aktor.kafka_python  # noqa: F401  # it checks kafka-python

# isort: split
from kafka.errors import *  # noqa: F403
