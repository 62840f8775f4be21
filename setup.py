"""Builds what is compiled; the rest of the package is described in setup.cfg.

The variable AKTOR_PURE_PYTHON of the environment, which `aktor.compiled` reads when aktor runs,
decides here, too:

- it is not set: modules are compiled if that is possible. Where there is no compiler, the
  installation goes on without, and the twins in Python are used;
- "1": nothing is compiled, and the wheel fits every Python and machine. Cython is not needed;
- "0": the build fails if a module cannot be compiled. Wheels for an index are made so.
"""

import os

from setuptools import Extension, setup

_ASKED = os.environ.get("AKTOR_PURE_PYTHON", "")
_HAS_TO_COMPILE = _ASKED == "0"


def compiled(module: str, *depends: str) -> Extension:
    """A module that may be missing: there is one in Python that does the same."""
    folder, _, name = module.replace(".", "/").rpartition("/")
    return Extension(
        module,
        [f"{folder}/{name}.pyx"],
        depends=[f"{folder}/{one}" for one in depends],
        include_dirs=[folder],
        extra_compile_args=[] if os.name == "nt" else ["-O3", "-g0"],
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
    made: list[Extension] = cythonize(
        [
            compiled("aktor.records.kernel", "kernel.h", "columns.h", "lz4.h"),
            compiled("aktor.actors.sockets.frame_memory"),
            compiled("aktor.consumer.core.record_iterator"),
        ],
        build_dir="build",
    )
    for module in made:
        module.optional = not _HAS_TO_COMPILE  # Cython makes new ones, and forgets it
    return made


setup(ext_modules=modules())
