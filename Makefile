# Everything here, kvreplay can do without make: the targets only see to it that what they need is installed.
.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
UV := $(VENV)/bin/uv
UV_INSTALL := $(UV) pip install --quiet --python $(PY) --no-deps
TORCH_INDEX := https://download.pytorch.org/whl/cpu
# uv looks where pip has been told to look for wheels on disk.
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
export VIRTUAL_ENV :=
# What Python compiles on import is kept: without it every process of a run compiles all it imports again.
export PYTHONDONTWRITEBYTECODE :=

# Of `make nightly`: the experiment, where runs and their history go, what is still let pass.
CONFIG ?=
RESULTS ?= results
MAX_REGRESSION ?= 5%

.PHONY: help bench bench-full nightly selftest test check install install-live install-dev clean

help: ## what there is
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

bench: install-live ## the live comparison on this machine, ending with a verdict
	$(VENV)/bin/kvreplay run configs/laptop.yaml --arm recompute --arm host --arm valkey-1 --arm valkey-4

bench-full: install-live ## and LMCache inside the engine: loads that hold up every step, and loads that do not
	$(VENV)/bin/kvreplay run configs/laptop.yaml

nightly: install-live ## CONFIG=FILE: run, report, gate against the nights before, keep the night (make's own exit code is 2 for all but 0)
	@test -n "$(CONFIG)" || { echo "say which experiment: make nightly CONFIG=configs/laptop.yaml" >&2; exit 2; }
	$(VENV)/bin/kvreplay nightly $(CONFIG) --out $(RESULTS) --max-regression $(MAX_REGRESSION)

selftest: install ## how late this client sends and how wrong its TTFT is, on this machine
	$(VENV)/bin/kvreplay selftest

test: install-live install-dev ## every test, the live ones included
	$(PY) -m pytest -n auto tests/unit tests/test_architecture.py tests/test_requirements.py tests/test_workflows.py
	$(PY) -m pytest -n auto --dist loadfile tests/integration
	$(PY) -m pytest tests/live

check: install-dev ## lint, types, architecture, unit tests
	$(VENV)/bin/ruff check harness tests
	$(VENV)/bin/ruff format --check harness tests
	$(VENV)/bin/codespell harness tests docs workloads/README.md README.md CHANGELOG.md
	$(PY) -m mypy
	$(PY) -m pytest -q -n auto tests/unit tests/test_architecture.py tests/test_requirements.py tests/test_workflows.py

install: $(VENV)/.core ## kvreplay alone: replay against your own servers, reports, simulators
install-live: $(VENV)/.live ## and the live stack for a machine without a GPU (about 2.6 GB, mostly torch)
install-dev: $(VENV)/.dev ## and what the checks need

$(UV):
	@echo "making $(VENV)"
	@python3 -m venv $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check uv==0.13.9

$(VENV)/.core: requirements/core.txt pyproject.toml | $(UV)
	@echo "installing kvreplay and what it imports"
	@$(UV_INSTALL) -r requirements/core.txt
	@$(UV_INSTALL) --editable .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.core
	@echo "installing what the checks need"
	@$(UV_INSTALL) -r requirements/dev.txt
	@touch $@

$(VENV)/.torch: requirements/torch.txt | $(UV)
	@echo "installing torch, the CPU build (about 200 MB to download)"
	@$(UV_INSTALL) -r $< 2>/dev/null || $(UV_INSTALL) --index $(TORCH_INDEX) -r $<
	@touch $@

$(VENV)/.live: requirements/live.txt $(VENV)/.core $(VENV)/.torch
	@echo "installing vLLM's CPU build, LMCache and what they import"
	@$(UV_INSTALL) -r requirements/live.txt
	@touch $@

clean: ## remove the environment and all caches; results stay
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
