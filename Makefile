# `make` lists the targets. Everything happens in .venv; only Java (for Spark) comes from the system.

BIN := .venv/bin
INSTALLED := .venv/.installed
SOURCES := $(wildcard src tests benchmarks tools examples)
BENCHMARKS := $(sort $(wildcard benchmarks/bench_*.py))

.DEFAULT_GOAL := help
.PHONY: help setup java namespaces browser demo test check thesis soak bench clean

help: ## print this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 8

setup: $(INSTALLED) java namespaces ## make .venv with everything; get Java for Spark and network tools for the tests if missing

$(INSTALLED): pyproject.toml constraints.txt tools/setup.sh
	@tools/setup.sh venv
	@echo "setup: installing into .venv, one or two minutes the first time"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	@touch $@

java: $(INSTALLED)
	@tools/setup.sh java

namespaces: $(INSTALLED)
	@tools/setup.sh namespaces

browser: $(INSTALLED)
	@tools/setup.sh browser

demo: setup ## a live group with 5% loss: every event everywhere, then archived and audited with Spark
	$(BIN)/gossamer demo --loss 0.05 --spark

check: $(INSTALLED) ## ruff, mypy and the import contract
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

test: setup browser check ## check, then every test except the long runs
	$(BIN)/python -m pytest -n 2 -m "not soak" --timeout=600 --timeout-method=thread --durations=10

thesis: setup ## check the claims about the papers' figures with Spark; report in runs/thesis
	$(BIN)/gossamer experiment run thesis --out runs/thesis
	-$(BIN)/gossamer report runs/thesis

soak: setup ## the long runs: simulations on two cores, then tests with their own processes and time limits
	$(BIN)/python -m pytest -n 2 -m soak tests/analysis tests/papers
	$(BIN)/python -m pytest -m soak --ignore=tests/analysis --ignore=tests/papers

bench: setup ## every benchmark in turn
	@set -e; for bench in $(BENCHMARKS); do echo "== $$bench"; $(BIN)/python $$bench; done

clean: ## remove .venv, caches and build leftovers; results in runs/ stay
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis src/*.egg-info
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
