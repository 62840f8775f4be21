# make test | check | build | demo | demo-spark | kafka | lint | bench | soak | mutations | pictures | clean      (one .venv; each adds what it needs)
#
#   PYTHON=python3.12    the Python to make the .venv with (any from 3.11 on is found by itself)
#   REAL=1               for `make demo`: use an Apache Kafka (Java) instead of the embedded one
#   BOOTSTRAP=host:port  for `make demo`: use this Kafka, which runs already
#   NODES=3 PORT=9092    for `make kafka`
#   ARGS="--plain"       for `make demo`: passed on (--help says what there is)
#   ARGS="-k commit -x"  for `make test`: passed on to pytest, which uses four processes ("-n 0 ...": one)
#   SINCE=main           for `make check`: what has changed since this commit (HEAD: what is not committed)
#   FIRST=1000 JOBS=2    for `make soak`: storms from this seed on (by default from the time), so many at once
#   ARGS="--jobs 2"      for `make mutations` (bugs put into our code: does a simulated storm find
#                        each?): passed on, as are parts of names, --seeds 60, --write

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := test
.PHONY: test check build demo demo-spark kafka lint bench soak mutations pictures clean venv

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --quiet --disable-pip-version-check
PATIENTLY := $(PY) .ci/patiently.py
WITH := $(VENV)/.with-
KERNEL := build/.kernel
NODES ?= 1
PORT ?= 9092
JOBS ?= 1
# One process begins with the tests that start Spark, one with those on a real Kafka and one with
# those on embedded ones. These mostly wait: so the fourth, at a lower priority, begins with the tests
# that compute, which are shared by all processes that have nothing else to do.
# A test process that falls ends the run: pytest-xdist would start another one, lose its tests and
# wait for them for ever.
BESIDE ?= -n 4 --dist loadgroup --no-loadscope-reorder --max-worker-restart 0
# What is left to .ci/run, which says "CHOOSE=" and so leaves out nothing.
CHOOSE ?= not gate
SINCE ?= $(shell git merge-base HEAD main 2>/dev/null || echo HEAD)
# Without it each process of a test run compiles all modules anew, and so does each program that a
# test starts.
unexport PYTHONDONTWRITEBYTECODE

test: $(WITH)compiled
	@if missing=$$($(PY) -m tests.kafka.real --missing); then $(PY) -m tests.kafka.real --prepare; \
	else echo "left out: the tests of tests/kafka on a real Kafka (they run on the embedded one), since $$missing"; fi
	@$(PY) -m pytest $(BESIDE) -m "$(CHOOSE)" $(ARGS)

check: lint
	@$(PY) -m tests.changed $(SINCE) | xargs -r $(PY) -m pytest -q -n 2 -m "not gate" $(ARGS)

# The checkout itself is not installed for it, and nothing is compiled: the twins in Python are enough.
demo: $(WITH)demo
	@$(if $(REAL),$(PY) -m tests.kafka.real --run )$(PY) -m aktor.cli demo $(if $(BOOTSTRAP),--bootstrap $(BOOTSTRAP)) $(ARGS)

demo-spark: $(WITH)spark $(WITH)demo $(KERNEL)
	@$(PY) -m examples.spark_demo $(ARGS)

kafka: $(WITH)demo
	@$(PY) -m tests.kafka.real --nodes $(NODES) --port $(PORT)

lint: venv $(WITH)lint
	@$(VENV)/bin/ruff check --quiet --output-format concise .
	@$(VENV)/bin/ruff format --quiet --check . || { echo "not formatted; mend it by: $(VENV)/bin/ruff format ."; exit 1; }
	@$(VENV)/bin/mypy --strict --no-error-summary -p aktor -p tests.typing
	@said=$$($(VENV)/bin/basedpyright --project tests/typing --pythonpath $(PY) --level error) || { echo "$$said"; exit 1; }
	@echo "lint: no complaints"

bench: venv
	@$(PY) -m benchmarks $(ARGS)

soak: $(WITH)simulation $(KERNEL)
	@$(PY) -m aktor.cli sim run --seeds 0 --jobs $(JOBS) $(if $(FIRST),--first $(FIRST))

mutations: venv
	@$(PY) -m tests.mutations $(ARGS)

# In a real browser (chromium and chromium-driver): what is looked at is in build/pictures.
pictures: venv
	@$(PY) -m tests.look_at_pictures $(ARGS)

clean:
	@rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find aktor -name '*.so' -delete
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# All that tests, lint and benchmarks need, with `aktor` installed from this checkout.
venv: $(WITH)test $(KERNEL)

build: $(KERNEL)

# All processes of a test run begin at the same time, and each would compile the modules of tests for
# itself (pytest rewrites their asserts, which takes twelve seconds): two do, each its half, once.
# What they find wrong, the test run says.
$(WITH)compiled: | venv
	@echo "compiling the tests (once)"
	@for half in 0 1; do find tests -name 'test_*.py' | sort | awk "NR % 2 == $$half" | \
	  xargs $(PY) -m pytest -n 0 -q -q -p no:cacheprovider --collect-only >/dev/null 2>&1 & done; wait
	@touch $@

# What is compiled. Without a compiler nothing is built, and the twins in Python are used.
$(KERNEL): $(shell find aktor -name '*.pyx' -o -name '*.h') setup.py | $(WITH)build
	@echo "compiling what is in C (half a minute, on a busy machine two)"
	@mkdir -p build && $(PATIENTLY) $(PY) setup.py --quiet build_ext --inplace --parallel 2 && touch $@

# One stamp for each extra of setup.cfg, written last: an interrupted installation is done again.
# Python compiles what is imported when it is imported, a small part of what is installed.
$(WITH)%: setup.cfg pyproject.toml | $(VENV)/.made
	@echo "installing what '$*' needs into $(VENV)"
	@$(PY) .ci/requirements.py $* | $(PATIENTLY) $(PIP) install --no-compile -r /dev/stdin
	@touch $@

# The entry points (pytest's plugin, the command `aktor`) come with an installation. It compiles
# nothing: $(KERNEL) does, and would compile all of it once more. "compat" puts a path into .venv,
# where type checkers find aktor, too; by default setuptools puts a hook for imports there, which
# checkers do not ask.
#
# PySpark comes as half a gigabyte of source, of which pip makes a wheel: on the other processor, and
# without compressing its jars once more.
$(WITH)test: setup.cfg pyproject.toml | $(VENV)/.made
	@echo "installing aktor and its test tools into $(VENV) (a minute, once)"
	@needed=$$($(PY) .ci/requirements.py codecs demo test build); wheels=$$(mktemp -d); trap 'kill $$(jobs -p) 2>/dev/null || true; rm -rf "$$wheels"' EXIT; \
	grep '^pyspark' <<<"$$needed" | $(PIP) wheel --no-deps --wheel-dir "$$wheels" --config-settings=--build-option=--compression=stored -r /dev/stdin & \
	grep -v '^pyspark' <<<"$$needed" | $(PIP) install --no-compile -r /dev/stdin; \
	AKTOR_PURE_PYTHON=1 $(PIP) install --no-compile --no-deps --no-build-isolation --config-settings editable_mode=compat -e .; \
	wait $$!; $(PIP) install --no-compile "$$wheels"/*.whl
	@touch $@ $(WITH)demo $(WITH)build

$(VENV)/.made:
	@python=$$(for p in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
	  "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done) || true; \
	if [ -z "$$python" ]; then echo "aktor needs Python 3.11 or newer: apt-get install python3.11 python3.11-venv, then make PYTHON=python3.11"; exit 1; fi; \
	if ! "$$python" -c 'import venv, ensurepip' 2>/dev/null; then echo "$$python lacks venv: apt-get install python3-venv"; exit 1; fi; \
	echo "making $(VENV) with $$("$$python" --version)"; "$$python" -m venv $(VENV)
	@touch $@
