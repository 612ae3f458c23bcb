# Everything runs in .venv, made from the hashed lock file; a machine needs Python 3.11+ and a C library.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup compile test simulate clients acceptance e2e check lint bench bench-replicator codegen lock clean

help: ## Show this help
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("stowplan needs Python 3.11 or newer, found " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the locked environment into $(VENV) (once; about a minute)"
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

setup: $(STAMP) ## Make the environment in .venv (the other targets do it as needed)

compile: $(STAMP) ## Render the inventory into compiled/
	@$(BIN)/stowplan compile

test: $(STAMP) ## Run every test that needs no cluster
	@$(BIN)/python -m tests.go_binaries
	@$(BIN)/python -m pytest -n auto -m "not e2e"

simulate: $(STAMP) ## Play 20,000 seeds of faults against the replicator's core (minutes)
	@$(BIN)/stowplan-replicator simulate --seeds 20000 --processes 2

clients: $(STAMP) ## Save and restore with real Orbax and real torch (installs them once)
	@$(BIN)/python -m tests.replicator.real_clients

acceptance: $(STAMP) ## Have a real API server judge every compiled file (needs Go)
	@$(BIN)/python -m tests.e2e -k test_acceptance

e2e: $(STAMP) ## Play the fleet on a real control plane (builds it once; needs Go)
	@$(BIN)/python -m tests.e2e

check: $(STAMP) ## Say whether compiled/ is what the inventory makes, and judge it
	@$(BIN)/stowplan compile --check
	@$(BIN)/stowplan check compiled

lint: $(STAMP) ## Style, import rules and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports
	@$(BIN)/mypy

bench: $(STAMP) ## Time compile, diff and check against their peers in the same run (minutes)
	@$(BIN)/python -m benchmarks.compile
	@$(BIN)/python -m benchmarks.compile.with_checks
	@$(BIN)/python -m benchmarks.diff.bench
	@$(BIN)/python -m benchmarks.checks

bench-replicator: $(STAMP) ## Time the replicator against plain copies (minutes)
	@$(BIN)/python benchmarks/replicator/transfer.py
	@$(BIN)/python benchmarks/replicator/planning.py
	@$(BIN)/python benchmarks/replicator/coordinator.py

codegen: $(STAMP) ## Renew everything that is derived: schemas, rule pages, compiled/
	@$(BIN)/python -m schemas.kinds.codegen
	@$(BIN)/stowplan schema > schemas/inventory.schema.json
	@$(BIN)/python -m generator.checks.rule_docs
	@$(BIN)/python -m generator.diff.reference > docs/impact.md
	@$(BIN)/stowplan compile --quiet

lock: ## Renew requirements.lock from pyproject.toml (needs uv)
	@uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --extra kapitan --extra replicator --extra dev pyproject.toml -o requirements.lock
	@uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --no-annotate --constraint requirements.lock --extra agent-orbax replicator/pyproject.toml -o replicator/image.lock.new
	@{ sed -n '/^#/p' replicator/image.lock; cat replicator/image.lock.new; } > replicator/image.lock.all
	@mv replicator/image.lock.all replicator/image.lock; rm replicator/image.lock.new

clean: ## Remove the environment and every cache
	@rm -rf $(VENV) .stowplan .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
