"""Builds what is compiled, and the description for an index; the rest is described in setup.cfg.

The variable AKTOR_PURE_PYTHON of the environment, which `aktor.compiled` reads when aktor runs,
decides here, too:

- it is not set: modules are compiled if that is possible. Where there is no compiler, the
  installation goes on without, and the twins in Python are used;
- "1": nothing is compiled, and the wheel fits every Python and machine. Cython is not needed;
- "0": the build fails if a module cannot be compiled. Wheels for an index are made so.
"""

import configparser
import os
import re
import sys
from pathlib import Path

from setuptools import Extension, setup

_ASKED = os.environ.get("AKTOR_PURE_PYTHON", "")
_HAS_TO_COMPILE = _ASKED == "0"
_ON_WINDOWS = os.name == "nt"
#: Whether a command is run that asks for the description or makes an sdist: nothing is compiled.
_ONLY_TOLD = not {"egg_info", "dist_info", "sdist"}.isdisjoint(sys.argv)
#: As fast as the compiler can make it, unless CFLAGS says how far: packagers do so, and tests.
_OPTIMISED = [] if "-O" in os.environ.get("CFLAGS", "") else ["-O3"]


def compiled(module: str, *depends: str) -> Extension:
    """A module that may be missing: there is one in Python that does the same."""
    folder, _, name = module.replace(".", "/").rpartition("/")
    return Extension(
        module,
        [f"{folder}/{name}.pyx"],
        depends=[f"{folder}/{one}" for one in depends],
        include_dirs=[folder],
        extra_compile_args=[] if _ON_WINDOWS else [*_OPTIMISED, "-g0"],
    )


def modules() -> list[Extension]:
    """What is compiled, as C; empty if nothing shall be, or if there is no Cython."""
    if _ASKED not in ("", "0"):
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        if _HAS_TO_COMPILE:
            raise
        print("aktor: nothing is compiled, since there is no Cython")
        return []
    wanted = [compiled("aktor.records.kernel", "kernel.h", "columns.h", "lz4.h")]
    wanted.append(compiled("aktor.consumer.columns.flat_json"))
    wanted.append(compiled("aktor.spark.decode.avro.kernel"))  # has no twin: decode=avro needs it
    if not _ON_WINDOWS:  # these two call POSIX
        wanted.append(compiled("aktor.actors.sockets.frame_memory"))
        wanted.append(compiled("aktor.consumer.core.record_iterator"))
    if _ONLY_TOLD:
        return wanted
    made: list[Extension] = cythonize(wanted, build_dir="build")
    for module in made:
        module.optional = not _HAS_TO_COMPILE  # Cython makes new ones, and forgets it
    return made


def description() -> str:
    """The README, with links that work outside of the repository.

    On an index, a link to `docs/...` leads nowhere. It becomes one into the repository at the tag
    of this version. Without an address of the repository (`Source` in `project_urls` of setup.cfg)
    only the text of the link is left.
    """
    here = Path(__file__).parent
    told = configparser.ConfigParser()
    told.read(here / "setup.cfg", encoding="utf-8")
    addresses = dict(
        re.findall(r"(\w+) *= *(\S+)", told.get("metadata", "project_urls", fallback=""))
    )
    version = re.search(r'= "(.+)"', (here / "aktor/version.py").read_text(encoding="utf-8"))
    assert version, "aktor/version.py has no version"

    def outside(link: re.Match[str]) -> str:
        picture, text, target = link.groups()
        if ":" in target or target.startswith("#"):
            return link[0]
        if "Source" not in addresses:
            return str(text)
        kind = "raw" if picture else "blob"
        return f"{picture}[{text}]({addresses['Source']}/{kind}/v{version[1]}/{target})"

    readme = (here / "README.md").read_text(encoding="utf-8")
    return re.sub(r"(!?)\[([^\]\[]*)\]\(([^)\s]+)\)", outside, readme)


setup(
    ext_modules=modules(),
    long_description=description(),
    long_description_content_type="text/markdown",
)
