# `make demo` and `make test` are all a fresh machine needs: Linux, Python >= 3.11, pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := torch==2.13.0

.PHONY: demo test check test-long test-pythons dist clean

demo: $(VENV)/demo
	$(BIN)/crucible demo

test: $(VENV)/test
	rm -f .coverage .coverage.*
	$(BIN)/python -m pytest -n 2 --dist loadgroup --cov \
		--cov-report=term:skip-covered $(PYTEST_ARGS)

check: $(VENV)/test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m mypy

# The counts that issues ask for in full; `make test` runs a sample of each.
test-long: $(VENV)/test
	CRUCIBLE_TEST_LONG=1 $(BIN)/python -m pytest -n 2 $(PYTEST_ARGS)

# The fast suite on every supported Python that is installed here.
test-pythons:
	@for version in 3.11 3.12 3.13; do \
		if command -v python$$version >/dev/null; then \
			$(MAKE) test-python PYTHON=python$$version VENV=.venv-$$version || exit 1; \
		else \
			echo "python$$version is not installed: left out"; \
		fi; \
	done

.PHONY: test-python
test-python: $(VENV)/fast
	$(BIN)/python -m pytest -n 2 -m "not train" $(PYTEST_ARGS)

dist: $(VENV)/test
	rm -rf build dist
	$(BIN)/python -m build

clean:
	rm -rf build dist .venv .venv-3.* crucible-demo .coverage*

$(VENV)/made:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.12 demo")'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/demo: $(VENV)/made pyproject.toml
	@echo "Installing Crucible with its demo. Most of the download is PyTorch: 200 MB for its CPU build,"
	@echo "some 3 GB where pip takes a CUDA build. Everything else is about 150 MB. Without training:"
	@echo "  $(BIN)/pip install -e '.[sandbox,hub]' && $(BIN)/crucible demo"
	$(BIN)/pip install --quiet '$(TORCH)'
	$(BIN)/pip install --quiet -e '.[demo]'
	touch $@

$(VENV)/test: $(VENV)/demo pyproject.toml
	$(BIN)/pip install --quiet -e '.[demo,dev]'
	touch $@

$(VENV)/fast: $(VENV)/made pyproject.toml
	$(BIN)/pip install --quiet -e '.[dev]'
	touch $@
