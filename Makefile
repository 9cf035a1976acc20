# Needs Python 3.11 or newer, and make.
# Every target makes what it needs in .venv, once.

PYTHON ?= python3
N ?= 5000
ARGS ?=

VENV := .venv
# Of its own, because the other libraries are large, and so that one version of each fits.
BENCH_VENV := .venv-bench
CUDA_VENV := .venv-cuda
ONEDNN_VENV := .venv-onednn
PY := $(VENV)/bin/python
# -P: only what is installed is imported, never a folder that happens to be the current one.
RUN := $(PY) -P

.DEFAULT_GOAL := help
.PHONY: help demo test test-cuda test-gpu test-onednn check format exhaustive fuzz bench bench-models bench-gpu has-gpu clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.demo ## See a function compiled, explained and timed
	@$(RUN) -m jitcore demo

test: $(VENV)/.test ## Run the tests, in parallel
	@$(RUN) -m pytest -n auto -m "not slow"

test-cuda: $(CUDA_VENV)/.ready ## Compile the kernels for GPUs and read the machine code (no GPU needed)
	@$(CUDA_VENV)/bin/python -P -m pytest -n auto tests/test_cuda_ptx.py tests/test_cuda_libdevice.py

test-gpu: has-gpu $(CUDA_VENV)/.ready ## Run the tests that need a GPU
	@$(CUDA_VENV)/bin/python -P -m pytest -m gpu tests/test_gpu.py tests/test_gpu_programs.py

test-onednn: $(ONEDNN_VENV)/.ready ## Run the tests of layers that oneDNN computes
	@$(ONEDNN_VENV)/bin/python -P -m pytest -n auto tests/test_onednn.py tests/test_onednn_layers.py

check: $(VENV)/.dev ## Lint, types, and the tests that take longer
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -m pytest -m slow

format: $(VENV)/.dev ## Put the source in its one format
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

exhaustive: $(VENV)/.dev ## The error of vector math at every float32 (about an hour)
	FLOAT32_STEP=1 $(RUN) -m pytest -m slow tests/test_vecmath_float32.py

fuzz: $(VENV)/.test ## Try N random programs (make fuzz N=5000)
	@PYTHONPATH=tests $(PY) tests/fuzz.py --count $(N)

bench: $(BENCH_VENV)/.ready ## Compare with other libraries (make bench ARGS="--sizes 4K --help")
	@$(BENCH_VENV)/bin/python -m bench $(ARGS)

bench-models: $(BENCH_VENV)/.ready ## Compare whole models with PyTorch (ARGS="--models LeNet --batches 1")
	@$(BENCH_VENV)/bin/python -m bench.measure_models $(ARGS)

bench-gpu: has-gpu $(CUDA_VENV)/.peers ## Compare with other libraries on a GPU (ARGS="--sizes 16777216")
	@$(CUDA_VENV)/bin/python -m bench.gpu $(ARGS)

# Before gigabytes are installed for nothing.
has-gpu:
	@$(PYTHON) -c 'import ctypes; ctypes.CDLL("libcuda.so.1")' 2>/dev/null || { \
		echo "No GPU here: there is no CUDA driver (libcuda.so.1). Nothing was run." >&2; exit 1; }

clean: ## Remove everything the other targets made
	rm -rf $(VENV) $(BENCH_VENV) $(CUDA_VENV) $(ONEDNN_VENV) build dist out *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.created: constraints.txt
	@echo "Creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "jitcore needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	@$(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt setuptools
	@touch $@

$(VENV)/.%: pyproject.toml constraints.txt | $(VENV)/.created
	@echo "Installing jitcore with what '$*' needs (once; about a minute)"
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-build-isolation \
		--constraint constraints.txt --editable '.[$*]'
	@# So that first calls do not compile Python where PYTHONDONTWRITEBYTECODE is set.
	@$(PY) -m compileall -q jitcore ir codegen fusers
	@touch $@

# Where pip's index has no build of PyTorch for the CPU alone, this brings some gigabytes.
$(BENCH_VENV)/.ready: pyproject.toml bench/constraints.txt
	@echo "Creating $(BENCH_VENV) with the libraries to compare with (once; some minutes)"
	@$(PYTHON) -m venv $(BENCH_VENV)
	@$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint bench/constraints.txt setuptools
	@$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
		--no-build-isolation --constraint bench/constraints.txt --editable '.[bench]'
	@touch $@

$(CUDA_VENV)/.ready: pyproject.toml constraints.txt
	@echo "Creating $(CUDA_VENV) with numba-cuda and NVIDIA's compiler (once; half a gigabyte)"
	@$(PYTHON) -m venv $(CUDA_VENV)
	@$(CUDA_VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt setuptools
	@$(CUDA_VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
		--no-build-isolation --constraint constraints.txt --editable '.[cuda,test]'
	@touch $@

$(ONEDNN_VENV)/.ready: pyproject.toml constraints.txt
	@echo "Creating $(ONEDNN_VENV) with oneDNN (once; about a minute)"
	@$(PYTHON) -m venv $(ONEDNN_VENV)
	@$(ONEDNN_VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt setuptools
	@$(ONEDNN_VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
		--no-build-isolation --constraint constraints.txt --editable '.[onednn,test]'
	@touch $@

# A library that the index does not have is left out of the table.
$(CUDA_VENV)/.peers: $(CUDA_VENV)/.ready
	@echo "Installing PyTorch, CuPy and JAX for CUDA (once; some gigabytes)"
	@for peer in torch cupy-cuda13x 'jax[cuda13]'; do \
		$(CUDA_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $$peer || true; done
	@touch $@
