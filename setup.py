"""Builds the compiled reader of record batches; the rest of the package is described in setup.cfg.

`optional`: where there is no compiler, the installation goes on without it, and `aktor.records`
uses its reader in Python.
"""

from Cython.Build import cythonize
from setuptools import Extension, setup

setup(
    ext_modules=cythonize(
        [
            Extension(
                "aktor.records.kernel",
                ["aktor/records/kernel.pyx"],
                depends=["aktor/records/kernel.h"],
                include_dirs=["aktor/records"],
                extra_compile_args=["-O3", "-g0"],
                optional=True,
            )
        ],
        build_dir="build",
    )
)
