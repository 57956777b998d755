# Every target sets up its own .venv the first time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint docs bench clean

help:  ## what there is to make
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --progress-bar off --constraint constraints.txt --editable ".[dev]"
	@touch $(READY)

setup: $(READY)  ## install srnet and its tools into .venv

demo: $(READY)  ## find a sparse and robust subnetwork on the embedded benchmark
	$(BIN)/srnet demo

test: $(READY)  ## run the test suite
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses 3 --dist worksteal

lint: $(READY)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(READY)  ## build the documentation into site/, without network; open site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(READY)  ## ratios measured side by side, also in benchmarks/results.json, memory.json, features.json, syncs.json, engine.json, coding.json, deploy.json
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.features
	$(BIN)/python -m benchmarks.syncs
	$(BIN)/python -m benchmarks.engine
	$(BIN)/python -m benchmarks.coding
	$(BIN)/python -m benchmarks.deploy

clean:  ## remove .venv, site/ and caches
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis
