"""Builds a release and tries it: python -m tests.release [--all] [--units].

The sdist and the wheel are built as for an index, looked at, and installed in bare environments,
where `smoke.py` runs. Each Python of this machine gets one of: the wheel, the sdist with a
compiler, the sdist without one; with --all each gets all of them.

--units runs units with the newest Python, if that is another one than ours, on the aktor that was
installed there: each test with a few of its cases (`sample.py`). They are those of what Pythons do
differently: compiled modules, dataclasses, pickles, threads, sockets, signals, asyncio. --all runs
also those of managers and of the rest of actors and consumer, of which most are rules.

What is left out is said. Needs an index of packages.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

ROOT: Final = Path(__file__).parent.parent.parent
SMOKE: Final = Path(__file__).parent / "smoke.py"

#: The Pythons that aktor is made for.
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14", "3.14t")

#: The one that runs this, and builds the wheel.
OURS: Final = f"{sys.version_info.major}.{sys.version_info.minor}"

#: What can be installed: from what, and whether there is a compiler.
WAYS: Final = (("wheel", True), ("sdist", True), ("sdist", False))

#: Python compiles what is imported; pip would compile all that is installed.
QUICKLY: Final = ("--quiet", "--no-compile")

#: What a Python may do in a way of its own.
UNITS: Final = (
    *("records", "consumer/columns"),  # compiled readers and their twins, buffers, Arrow
    *("consumer/core", "consumer/test_facade.py"),  # a compiled iterator, interrupts, forks
    *("actors/sockets", "actors/runtime", "aio"),  # sockets, TLS, threads, asyncio
    *("test_values.py", "test_settings.py", "consumer/test_types.py"),  # dataclasses, types
    *("test_errors.py", "processing/test_failures.py"),  # pickles
)
ALL_UNITS: Final = (
    *("records", "actors", "managers", "consumer", "aio"),
    *("test_values.py", "test_settings.py", "test_errors.py", "processing/test_failures.py"),
)
#: What these import besides aktor. (The extra `test` has much more, such as Spark.)
UNITS_NEED: Final = (
    *("pytest>=9", "pytest-timeout", "pytest-xdist", "hypothesis", "pyarrow", "greenlet"),
    *("cramjam", "lz4", "python-snappy", "xxhash", "zstandard", "cryptography"),
    *("eventlet", "gevent", "aiokafka"),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.release")
    parser.add_argument("--all", action="store_true", help="every way to install, and all units")
    parser.add_argument("--units", action="store_true", help="run units with the newest Python")
    asked = parser.parse_args()
    pythons = {one: path for one in PYTHONS if (path := find(one))}
    for one in PYTHONS:
        if one not in pythons:
            print(f"left out: Python {one} is not on this machine")
    with tempfile.TemporaryDirectory(prefix="aktor-release-") as folder:
        work = Path(folder)
        # All tests run with what is compiled as for users. Here it is asked whether it can be
        # compiled, which takes a fifth of the time if the result need not be quick.
        how = {} if asked.all else {"CFLAGS": "-O0"}
        sdist, wheel = build(work, how)
        for one, python in pythons.items():
            for source, compiler in WAYS if asked.all else [way_for(one, newest=[*pythons][-1])]:
                archive = wheel if source == "wheel" else sdist
                if source == "wheel" and one != OURS:
                    archive = build_wheel(work, one, python, sdist, how)
                try_out(work, one, python, archive, how, compiler=compiler)
        if asked.units or asked.all:
            newest = list(pythons)[-1]
            if newest == OURS:
                print(f"left out: units with another Python; the newest here is {newest}, as ours")
            else:
                run_units(work, newest, ALL_UNITS if asked.all else UNITS)


def way_for(version: str, *, newest: str) -> tuple[str, bool]:
    """The one way to install for this Python, such that each way is tried and little is built."""
    if version == OURS:
        return "wheel", True
    return "sdist", version == newest


def fail(why: str) -> NoReturn:
    sys.exit(f"release: FAILED: {why}")


def find(version: str) -> Path | None:
    """A Python of this version that can make environments."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *versions.glob(f"*/bin/python{version}")]
    program = "import venv, ensurepip, sysconfig; print(sysconfig.get_python_version())"
    for candidate in filter(None, candidates):
        tried = subprocess.run([candidate, "-c", program], capture_output=True, text=True)
        if tried.returncode == 0 and tried.stdout.strip() == version.removesuffix("t"):
            return Path(candidate)
    return None


def run(*command: str | Path, folder: Path | None = None, **environment: str) -> str:
    """Run it away from this repository; its output. Ends the program if it fails."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("AKTOR_") and name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    done = subprocess.run(
        [str(part) for part in command],
        env={**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **environment},
        cwd=folder or tempfile.gettempdir(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        fail(f"{' '.join(map(str, command))}\n{done.stdout[-5000:]}")
    return done.stdout


@contextmanager
def timed(what: str) -> Iterator[None]:
    began, used = time.monotonic(), os.times()
    yield
    now = os.times()
    cpu = now.children_user + now.children_system - used.children_user - used.children_system
    print(f"{what}: {time.monotonic() - began:.0f} s, {cpu:.0f} of the processor", flush=True)


def build(work: Path, how: Mapping[str, str]) -> tuple[Path, Path]:
    """The sdist of this tree, and the wheel of that sdist. `how` it is compiled: variables of the
    environment."""
    with timed("tools: build, twine"):
        run(sys.executable, "-m", "venv", work / "tools")
        tools = work / "tools/bin/python"
        # The pip that comes with Python 3.11 can already do what is asked of it.
        run(tools, "-m", "pip", "install", *QUICKLY, "build", "twine")
    # Of a copy, so that who compiles or tests beside it is not disturbed.
    left_out = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "*.so", "__pycache__")
    source = shutil.copytree(ROOT, work / "source", symlinks=True, ignore=left_out)
    with timed("python -m build"):
        run(tools, "-m", "build", "--outdir", work / "dist", source, **how)
    (sdist,), (wheel,) = (work / "dist").glob("*.tar.gz"), (work / "dist").glob("*.whl")
    with tarfile.open(sdist) as archive:
        check_sdist({name.partition("/")[2] for name in archive.getnames()})
    with zipfile.ZipFile(wheel) as archive_:
        told = next(name for name in archive_.namelist() if name.endswith(".dist-info/METADATA"))
        check_wheel(set(archive_.namelist()), archive_.read(told).decode())
    run(tools, "-m", "twine", "check", "--strict", sdist, wheel)
    sizes = [f"{one.name} {one.stat().st_size / 1e6:.1f} MB" for one in (sdist, wheel)]
    print(f"twine check --strict passed: {', '.join(sizes)}")
    return sdist, wheel


def build_wheel(
    work: Path, version: str, python: Path, sdist: Path, how: Mapping[str, str]
) -> Path:
    """The wheel of the sdist for another Python."""
    with timed(f"Python {version}: wheel built of the sdist"):
        run(python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", work / version, sdist, **how)
    (wheel,) = (work / version).glob("*.whl")
    return wheel


def check_sdist(names: set[str]) -> None:
    sources = {
        str(path.relative_to(ROOT))
        for kind in ("py", "pyx", "pyi", "h", "json")
        for path in (ROOT / "aktor").rglob(f"*.{kind}")
    }
    wanted = {*sources, "aktor/py.typed", "LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md"}
    if missing := wanted - names:
        fail(f"the sdist lacks {sorted(missing)}")


def check_wheel(names: set[str], metadata: str) -> None:
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    if tops != {"aktor", "pyspark_aktor"}:
        fail(f"the wheel would put {sorted(tops)} into the users' own name space")
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "aktor").rglob("*.py")}
    if missing := {*modules, "aktor/py.typed"} - names:
        fail(f"the wheel lacks {sorted(missing)}")
    if "\nLicense-Expression: Apache-2.0\n" not in metadata:
        fail("the license is not an SPDX expression in the metadata")
    if relative := re.findall(r"\]\((?![a-z]+:|#)[^)]*\)", metadata):
        fail(f"these links of the description lead nowhere on an index: {relative}")


def try_out(
    work: Path,
    version: str,
    python: Path,
    archive: Path,
    how: Mapping[str, str],
    *,
    compiler: bool,
) -> None:
    """Install the archive in a bare environment, and run the smoke test there."""
    source = "wheel" if archive.suffix == ".whl" else "sdist"
    compiled = source == "wheel" or (compiler and has_compiler())
    if not compiler:
        how = {**how, "CC": "/bin/false", "CXX": "/bin/false"}
    name = f"Python {version}: {source}{'' if compiler else ', no compiler'}"
    place = work / f"{version}-{source}-{compiler}"
    with timed(f"{name}: installed"):
        # Without a pip of its own, which takes seven seconds of the processor to install.
        run(python, "-m", "venv", "--without-pip", place)
        pip = pip_for(work, place)
        # Not every Python has pyarrow yet: without it, `smoke` says that it leaves out columns.
        extra = "[arrow]" if has_wheel(pip, "pyarrow") else ""
        run(*pip, f"{archive}{extra}", **how)
    with timed(f"{name}: smoke"):
        expected = "compiled" if compiled else "Python"
        said = run(place / "bin/python", SMOKE, "--reader", expected)
    print(f"    {'; '.join(said.splitlines()[1:])}")


def pip_for(work: Path, place: Path) -> tuple[str | Path, ...]:
    """The command that installs into this environment."""
    tools = work / "tools/bin/python"
    return (tools, "-m", "pip", "--python", place / "bin/python", "install", *QUICKLY)


def has_wheel(pip: tuple[str | Path, ...], package: str) -> bool:
    asked = [*map(str, pip), "--dry-run", "--only-binary", ":all:", package]
    return subprocess.run(asked, capture_output=True).returncode == 0


def has_compiler() -> bool:
    return shutil.which((sysconfig.get_config_var("CC") or "cc").split()[0]) is not None


def run_units(work: Path, version: str, units: Sequence[str]) -> None:
    """Run the units of this tree against what is installed, compiled if that is possible."""
    place = work / f"{version}-sdist-True"
    with timed(f"Python {version}: what the units need, installed"):
        run(*pip_for(work, place), *UNITS_NEED)
    # The tests without the package beside them: what is installed is what is tested.
    tree = work / "tree"
    tree.mkdir()
    for name in ("tests", "examples", "docs", "pyproject.toml", "setup.cfg", "setup.py"):
        (tree / name).symlink_to(ROOT / name)
    with timed(f"Python {version}: units of {', '.join(units)}"):
        folders = [f"tests/unit/{one}" for one in units]
        # What is left to .ci/run takes long, and has siblings here: it runs with our Python only.
        command = (place / "bin/python", "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider")
        few = ("-p", "tests.release.sample")
        said = run(*command, *few, "-m", "not gate", *folders, folder=tree)
    print(f"    {said.strip().splitlines()[-1]}")


if __name__ == "__main__":
    main()
