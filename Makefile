# Everything runs in a virtual environment that the first target makes. Needs python3 >= 3.11 with venv.
PYTHON ?= python3
VENV ?= .venv
# Test processes: "auto" is one per core, 0 is none.
WORKERS ?= auto
# Further arguments for pytest or bench, e.g. make test ARGS="-k hermes".
ARGS ?=

BIN := $(VENV)/bin
# Two steps, as torch is large: what the library and the front end need, and what the engine needs on top.
STAMP := $(VENV)/.installed-for-toolgrammar
ENGINE := $(VENV)/.installed-for-the-engine
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test lint format types wheel bench compiled pages install clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1 /p' Makefile | while read -r name what; do printf '  make %-9s %s\n' "$$name" "$$what"; done

demo: $(STAMP) ## parse the captures of fixtures/captures and show what is in them
	@BIN="$(BIN)" sh scripts/demo.sh

test: $(ENGINE) ## all tests (ARGS="-k hermes", WORKERS=0)
	$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

lint: $(STAMP) ## ruff: lint and format check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP) ## ruff: fix and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(ENGINE) ## mypy --strict on the packages
	$(BIN)/mypy

wheel: $(STAMP) ## build sdist and wheel into dist/, install the wheel elsewhere, parse with it
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	PYTHON="$(BIN)/python" sh scripts/check_wheel.sh dist/*.whl

bench: $(STAMP) ## speed of every format (ARGS="--formats deepseek-v3", COMPILED=1: the speed build)
	@if [ -n "$(COMPILED)" ]; then BIN="$(BIN)" sh scripts/compiled.sh toolgrammar bench $(ARGS); \
	else $(BIN)/toolgrammar bench $(ARGS); fi

SPEED_TESTS = tests/core tests/machine tests/formats $(addprefix tests/serving/,engine_client llm text chat server)

compiled: $(ENGINE) ## make the speed build (mypyc) in build/compiled and run with it the tests of what is compiled
	@BIN="$(BIN)" sh scripts/compiled.sh pytest -q -p no:cacheprovider -n $(WORKERS) $(SPEED_TESTS)

pages: $(STAMP) ## write docs/formats, a page per format
	$(BIN)/python -m toolgrammar.readings.page

install: $(ENGINE) ## the virtual environment only, with all that tests need

clean: ## remove the virtual environment and everything built
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Installed again only when what is to be installed changed.
$(STAMP): pyproject.toml
	@PYTHON="$(PYTHON)" VENV="$(VENV)" sh scripts/install.sh dev
	@touch $@

$(ENGINE): $(STAMP)
	@PYTHON="$(PYTHON)" VENV="$(VENV)" sh scripts/install.sh dev,engine
	@touch $@
