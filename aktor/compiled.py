"""Whether the compiled modules are used: `kernel`, `frame_memory`, `record_iterator`, `flat_json`.

Each has a twin in Python that does the same more slowly. The twin is used where there was no
compiler when aktor was installed, and if the environment says so.
"""

from __future__ import annotations

import os
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Final

__all__ = ["PURE_PYTHON", "is_there", "is_wanted"]

#: If this variable of the environment is anything but "" or "0", the twins in Python are used.
PURE_PYTHON: Final = "AKTOR_PURE_PYTHON"


def is_wanted() -> bool:
    """False if the environment asks for Python."""
    return os.environ.get(PURE_PYTHON, "0") in ("", "0")


def is_there() -> bool:
    """Whether the compiled reader of record batches was installed. It is looked for, not imported:
    that would take 0.3 s."""
    reader = os.path.join(os.path.dirname(__file__), "records", "kernel")
    return any(os.path.exists(reader + suffix) for suffix in EXTENSION_SUFFIXES)
