"""`python -m tests.mutations`: run storms over each bug, historic or gross, until one finds it."""

from __future__ import annotations

import sys

from tests.mutations.run import main

if __name__ == "__main__":
    sys.exit(main())
