"""`python .ci/requirements.py EXTRA ...`: what aktor and these extras need, for pip, one in a line.

pip itself says this only after it has built the package, for which it downloads setuptools and
Cython; `make demo` needs neither. The extra `build` is what building needs.
"""

from __future__ import annotations

import configparser
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]


def requirements(extras: Iterable[str]) -> Iterator[str]:
    """The package's own requirements, then those of the extras."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    yield from setup["options"]["install_requires"].split("\n")
    for extra in extras:
        if extra == "build":
            yield from tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"][
                "requires"
            ]
        else:
            yield from setup["options.extras_require"][extra].split("\n")


if __name__ == "__main__":
    print("\n".join(filter(None, requirements(sys.argv[1:]))))
