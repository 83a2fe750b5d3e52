# Everything a developer runs. Each target does the set-up it needs; `make` alone lists them.
# Without make: python -m venv .venv && .venv/bin/python -m pip install -e '.[dev]', then the commands below.

# The first interpreter that is Python 3.11 or newer; `make setup PYTHON=/path/to/python3.12` chooses another.
PYTHON ?= $(firstword $(foreach p,python3.13 python3.12 python3.11 python3 python,\
	$(shell command -v $(p) >/dev/null 2>&1 && $(p) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(p))))
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO := $(VENV)/.demo
SITE := $(VENV)/.site
# More arguments for pytest: make test ARGS='-k heartbeat'
ARGS ?=
# Tests that need more than Python, or live in real time: real Kafka brokers and the wire's Java twin, foreign clients, clients in processes
# of their own, Spark, a browser. Their stages stand in tests/stages.py
FOREIGN := real_kafka or clients or real_time or spark or browser
# CI tells what took longest
PYTEST = $(BIN)/python -m pytest $(if $(CI),--durations=15)
# How often make test-orders runs the tests
RUNS ?= 20
# Tests start hundreds of Python processes: what they import is compiled once, whatever the shell says
unexport PYTHONDONTWRITEBYTECODE
CORES := $(shell n=$$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); [ $$n -le 4 ] || n=4; echo $$n)
# Tests run on that many processes side by side: one more than there are cores, as some wait for clients and sessions in real time,
# and four at most: make test JOBS=1
JOBS ?= $(shell n=$$(($(CORES) + 1)); [ $$n -le 4 ] || n=4; echo $$n)
# What make check consists of
CHECKS := check-format check-lint check-types check-imports check-tidy
# Tests of make check, which make test does not repeat
TIDY := tests/test_tidy.py tests/test_readme.py tests/test_docs.py
# What starts JVMs is run by no more processes than there are cores
FEW = $(firstword $(sort $(JOBS) $(CORES)))

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-part test-changed test-foreign test-all test-orders check $(CHECKS) docs site conformance differential incidents mutants bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## a virtual environment in .venv with broker-sim and all that its tests need
	@echo "ready: $(BIN)/broker-sim --help"

define venv
	@test -n "$(PYTHON)" || { echo "broker-sim needs Python 3.11 or newer; none found (make setup PYTHON=/path/to/python)" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "broker-sim needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version)" >&2; exit 2; }
	@test -x $(BIN)/python || { echo "== $(VENV): a virtual environment of $$($(PYTHON) --version)"; $(PYTHON) -m venv $(VENV); }
endef

$(READY): pyproject.toml
	$(venv)
	@echo "== $(VENV): installing broker-sim and its development tools, PySpark among them (once; one or two minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(DEMO) $@

# what the demo needs is there in seconds
$(DEMO): pyproject.toml
	$(venv)
	@echo "== $(VENV): installing broker-sim and the demo's client (once; some seconds)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[demo]'
	@touch $@

$(SITE): pyproject.toml $(READY)
	@echo "== $(VENV): installing MkDocs and its theme (once; some seconds)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

demo: $(DEMO) ## a group of real consumers through a crash, a rebalance and a SIGKILL of the broker
	@$(BIN)/python -m broker_sim demo

test: $(READY) ## the tests that need Python alone: some minutes on two cores
	@echo "== tests that need Python alone (make test-foreign: those that need a JVM, Go, Node, Spark or a browser)"
	@$(PYTEST) -n $(JOBS) -m "not ($(FOREIGN))" $(addprefix --ignore=,$(TIDY)) $(ARGS)

test-part: $(READY) ## some of them: PART='broker' (interfaces, simulation, pipeline)
	@$(BIN)/python -m tests.parts -n $(JOBS) $(PART) $(ARGS)

test-changed: $(READY) ## those that are about what has changed: SINCE=main
	@$(BIN)/python -m tests.parts -n $(JOBS) --since $(or $(SINCE),HEAD) $(ARGS)

test-foreign: $(READY) ## the tests in real time: real Kafka brokers, clients of all languages, Spark, a browser: a quarter of an hour
	@echo "== tests in real time; they skip with the reason where a JVM, Go, Node or Chromium is missing"
	@$(BIN)/python -m tests.stages -n $(FEW) clients brokers spark -- $(ARGS)

test-all: $(READY) ## make test, then make test-foreign, whatever became of the first
	@$(BIN)/python -m tests.stages -n $(FEW) test clients brokers spark -- $(ARGS)

test-orders: $(READY) ## make test again and again, each time in another order; stops at the first red one (RUNS=20; LOAD=4: beside busy loops)
	@$(BIN)/python tests/orders.py $(RUNS) -n $(JOBS) -m "not ($(FOREIGN))" $(ARGS)

check: $(CHECKS) ## format, lint, types, import directions, tidiness

check-format: $(READY)
	@echo "== ruff format"; $(BIN)/ruff format --check .
check-lint: $(READY)
	@echo "== ruff check"; $(BIN)/ruff check .
check-types: $(READY)
	@echo "== mypy --strict"; $(BIN)/mypy
check-imports: $(READY)
	@echo "== import directions"; $(BIN)/lint-imports
check-tidy: $(READY)
	@echo "== tidiness, generated docs, README, links"; $(BIN)/python -m pytest -q $(TIDY)

docs: $(READY) ## write the generated parts of the README and of docs/ again
	@$(BIN)/python docs/api_table.py # the rest is drawn from it
	@$(BIN)/python docs/generate.py

# not part of make check: it takes longer than all other checks together
site: $(SITE) ## the documentation as a site in build/site, with search; a broken link or anchor fails
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict # with --quiet a warning would not fail it
	@echo "built build/site; to read it with search: $(BIN)/python -m http.server -d build/site"

conformance: $(READY) ## what real Kafka 3.4, 4.1 and 4.4 answer is recorded again, then the simulator is held against it (a JVM, Maven)
	@echo "== conformance: real brokers, whose answers are recorded (tests/conformance/truth: see git diff)"
	@$(BIN)/python -m pytest tests/conformance -n $(FEW) -m real_kafka --record-truth $(ARGS)
	@echo "== conformance: the simulator against what is recorded"
	@$(BIN)/python -m pytest tests/conformance -m "not real_kafka" -n $(JOBS) $(ARGS)

differential: $(READY) ## random requests to the simulator and to real Kafka in lockstep: ARGS='--version 4.1 --minutes 60 --seed 1'
	@$(BIN)/python -m tests.differential $(ARGS)

incidents: $(READY) ## labelled incidents on real Kafka, and how many of them the pipeline tells: ARGS='make --out DIR' or 'score DIR/*'
	@$(BIN)/python -m tests.incidents $(ARGS)

mutants: $(READY) ## bugs made by a program, and how many of them a general sweep finds: ARGS='--count 60 --budget 60 --seed 1'
	@nice $(BIN)/python -m tests.mutation $(ARGS)

bench: $(READY) ## the benchmarks: requests per second beside Kafka, kfake and librdkafka's mock
	@$(BIN)/python -m benchmarks $(ARGS)

clean: ## remove the virtual environment and all caches
	rm -rf $(VENV) *.egg-info build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
