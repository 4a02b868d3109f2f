# Two commands on a fresh machine: `make run` and `make test`.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WARP ?=
export WARP_CACHE_PATH ?= $(CURDIR)/build/warp-cache

EXAMPLES := examples/camera_calibration.py examples/lidar_filter.py examples/spring_step.py
OUT := build/examples

# The tests' closing line comes last.
.NOTPARALLEL:

.PHONY: run test check unit test-oldest bench clean

run: $(VENV)/.installed
	@$(BIN)/warp-audit compile $(EXAMPLES) -o $(OUT)
	@echo
	@echo "Which Python expression is this instruction of the calibration kernel?"
	@echo
	@$(BIN)/warp-audit trace "$$($(BIN)/python examples/store_pc.py $(OUT))" --in $(OUT)
	@echo
	@echo "What is wrong with the examples, by their text alone?"
	@echo
	@$(BIN)/warp-audit lint examples
	@echo
	@echo "Try next:"
	@echo "  warp-audit lint YOUR_PROJECT                                      faults in kernels and launches"
	@echo "  . $(BIN)/activate"
	@echo "  warp-audit debug examples/camera_calibration.py                   the four levels, to walk through"
	@echo "  warp-audit show examples/spring_step.py::spring_forces            Python, IR, PTX and SASS as text"
	@echo "  warp-audit trace camera_calibration.py:37:14 --in $(OUT)  from an expression to its instructions"
	@echo "  warp-audit compile YOUR_PROGRAM.py                                your own kernels"

test: check unit

# In this order: layout and lint, types, import contracts, then the tests. Types and imports are
# looked at in a plain install, where the folders at the top lie under one package.
check: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build/installed build/lib build/bdist.*
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --target build/installed .
	cd build/installed && $(CURDIR)/$(BIN)/mypy --config-file $(CURDIR)/pyproject.toml -p warp_audit
	cp pyproject.toml build/installed
	cd build/installed && PYTHONPATH=. $(CURDIR)/$(BIN)/lint-imports --no-cache

unit: $(VENV)/.installed
	$(BIN)/pytest

# The other end of the supported range of Warp.
test-oldest:
	$(MAKE) unit VENV=.venv-oldest WARP="warp-lang==1.16.*"

bench: $(VENV)/.installed
	$(BIN)/python bench/corpus.py code $(foreach name,sph wave work_queue graph_capture,warp.examples.core.example_$(name))
	$(BIN)/python bench/trace.py

$(VENV)/.installed: pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "warp-audit needs Python 3.10 or later; name one with PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "this Python has no venv module: install python3-venv"; exit 1; }
	@echo "Installing into $(VENV) (some minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' $(WARP)
	@touch $@

clean:
	rm -rf build .venv .venv-oldest *.egg-info
