"""Builds what is compiled; the rest of the package is described in setup.cfg.

`optional`: where there is no compiler, the installation goes on without it, and the twins in Python
are used (see `aktor.compiled`).
"""

from Cython.Build import cythonize
from setuptools import Extension, setup


def compiled(module: str, *depends: str) -> Extension:
    """A module that may be missing: there is one in Python that does the same."""
    folder, _, name = module.replace(".", "/").rpartition("/")
    return Extension(
        module,
        [f"{folder}/{name}.pyx"],
        depends=[f"{folder}/{one}" for one in depends],
        include_dirs=[folder],
        extra_compile_args=["-O3", "-g0"],
    )


modules = cythonize(
    [
        compiled("aktor.records.kernel", "kernel.h", "columns.h", "lz4.h"),
        compiled("aktor.actors.sockets.frame_memory"),
        compiled("aktor.consumer.core.record_iterator"),
    ],
    build_dir="build",
)
for module in modules:
    module.optional = True  # Cython makes new ones, and forgets it

setup(ext_modules=modules)
