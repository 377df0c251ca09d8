# make demo: from nothing to a first report. make test: from nothing to a tested checkout.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test test-full prepare browser lint format bench clean

demo: $(VENV)/.installed-report
	$(BIN)/mtgbn demo

test: lint browser prepare
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

test-full: lint browser prepare
	$(BIN)/python -m pytest -n auto --dist worksteal

# What the workers of pytest would all do at once. ArviZ notes the day of its first import in a file, and
# two workers that do so together fail. Kernels are compiled once for all of them.
prepare: $(VENV)/.installed-test
	$(BIN)/python -W ignore -c "import arviz"
	$(BIN)/python -W ignore -c "import numpy as np, mtgbn; mtgbn.MTGBN().fit(np.random.default_rng(0).normal(size=(3, 30, 4)))"

# Reports are tested in a real browser; where none can be had, these tests are skipped and say so.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
	command -v google-chrome >/dev/null || test -n "$$MTGBN_BROWSER" || \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends chromium >/dev/null \
		|| echo "chromium cannot be installed; tests of reports are skipped"; \
	else echo "no chromium; tests of reports are skipped"; fi

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python tools/check_house.py

format: $(VENV)/.installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks --output docs/speed.md

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "mtgbn needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) install --constraint constraints.txt --editable .
	touch $@

$(VENV)/.installed-%: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) install --constraint constraints.txt --editable '.[$*]'
	touch $@
