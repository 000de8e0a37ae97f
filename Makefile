# Every command of the project. Each installs what it needs into .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEVELOP := $(VENV)/.develop
BENCH := plugin
FOLDER := bench/results/here/$(firstword $(BENCH))-$(shell date +%Y%m%d-%H%M%S)

.PHONY: help run test nightly compat check cluster bench guests clean

help: ## Show the commands.
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

run: $(VENV)/.installed ## Show the product at work, without a cluster; ONCE=1 ends afterwards.
	@$(BIN)/kwx run $(if $(ONCE),--once)

test: $(DEVELOP) ## Run all tests, those with a real control plane included (needs Go).
	@$(BIN)/python -m tests.suite test

nightly: $(DEVELOP) ## Run the full forms of long tests, and look for modules that the runtime cannot take.
	@$(BIN)/python -m tests.suite nightly

compat: $(DEVELOP) ## Run the end-to-end tests against each supported minor of kube-scheduler (needs Go).
	@$(BIN)/python -m tests.suite compat

check: $(DEVELOP) ## Check format, lint, types and import layers.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

cluster: $(DEVELOP) ## Start a real control plane with the extender, and stay up (needs Go).
	@$(BIN)/python -m tests.e2e.cluster

bench: $(DEVELOP) ## Measure what the extender costs beside peers (needs Go); BENCH=scheduler otherwise; FOLDER= to go on.
	@$(BIN)/kwx bench $(BENCH) --folder $(FOLDER)

guests: $(DEVELOP) ## Build the example guests, of each language whose compiler is there.
	$(BIN)/python sdk-guest/build.py

clean: ## Remove what the other commands have made in the checkout.
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(DEVELOP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,check,guests]'
	@touch $@ $(VENV)/.installed
