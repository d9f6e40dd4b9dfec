# Two commands do everything on a fresh machine with Python 3.11: make demo, make test.
PYTHON ?= python3.11
TORCH  ?= torch==2.13.0
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
RIVALS := $(VENV)/.rivals
# Two processes with two OpenMP threads each on two cores wait on each other: single lookups get 25 times slower.
ONE_THREAD := OMP_NUM_THREADS=1

# The lowest versions that pyproject.toml promises. One of torch without CUDA: make test-oldest OLDEST_TORCH=torch==2.13.0
OLDEST       := .venv-oldest
OLDEST_TORCH ?=

TOOLS := .venv-tools

.PHONY: demo test test-slow test-faults test-oldest test-tools docs check format bench reproduce clean
.DEFAULT_GOAL := demo

# torch goes first and pinned: with none installed, the package's own range would pull the newest, gigabytes of CUDA.
$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check $(TORCH)
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[all,dev]"
	@touch $@

demo: $(READY)
	$(BIN)/wolpertinger train recommender --data complete-journey --median-best 0.5 --out runs/demo --overwrite
	$(BIN)/wolpertinger evaluate runs/demo

test: $(READY)
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n 2

test-slow: $(READY)
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n 2 -m slow

# Kills, full disks and numbers that are none, with their full counts: half an hour. A full disk is a tmpfs, if mounting
# one is allowed. The counts go into benchmarks/results/faults.json, and from there into docs/reliability.md.
test-faults: $(READY)
	$(ONE_THREAD) $(BIN)/python -W ignore -m tests.faults --fresh $(ARGS)
	$(BIN)/python -m benchmarks.tables

test-oldest:
	$(PYTHON) -m venv --clear $(OLDEST)
	$(PYTHON) scripts/oldest.py $(OLDEST_TORCH) > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/pip install --quiet --disable-pip-version-check -c $(OLDEST)/constraints.txt -e ".[all,bench,test]"
	# Old packages beside new ones warn of each other; that is not ours to mend.
	$(ONE_THREAD) $(OLDEST)/bin/python -m pytest -q -n 2 -W default::DeprecationWarning

# Tools around Stable-Baselines3, in an environment of their own: they want other versions of what we have.
$(TOOLS)/.ready: pyproject.toml
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check $(TORCH)
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check -e ".[all,test,tools]"
	@touch $@

test-tools: $(TOOLS)/.ready
	$(ONE_THREAD) $(TOOLS)/bin/python -m pytest -q tests/tools $(ARGS)

# The site, into site/; a broken link is an error, and so is a page that nobody finds.
$(VENV)/.docs: $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[docs]"
	@touch $@

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

check: docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What lookup is compared with; hnswlib is compiled on the spot.
$(RIVALS): $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[bench]"
	@touch $@

bench: $(RIVALS)
	$(BIN)/python -m benchmarks.run

# The report of the committed results, in seconds. Runs: make reproduce ARGS="figure-6 --quick", or ARGS=all.
reproduce: $(READY)
	$(BIN)/python -m reproduction $(or $(ARGS),--report)

clean:
	rm -rf $(VENV) $(OLDEST) $(TOOLS) build dist site src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
