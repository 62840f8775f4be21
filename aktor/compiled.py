"""Whether the compiled modules are used: `kernel`, `frame_memory` and `record_iterator`.

Each has a twin in Python that does the same more slowly. The twin is used where there was no
compiler when aktor was installed, and if the environment says so.
"""

from __future__ import annotations

import os
from typing import Final

__all__ = ["PURE_PYTHON", "is_wanted"]

#: If this variable of the environment is anything but "" or "0", the twins in Python are used.
PURE_PYTHON: Final = "AKTOR_PURE_PYTHON"


def is_wanted() -> bool:
    """False if the environment asks for Python."""
    return os.environ.get(PURE_PYTHON, "0") in ("", "0")
