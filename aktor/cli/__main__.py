"""`python -m aktor.cli` is the command `aktor`."""

from __future__ import annotations

import sys

from aktor.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
