# make demo and make test need nothing but Python 3.11+, make and a package index.
# lightly, which tests compare with, asks for pytorch-lightning and hydra; its losses need neither: --no-deps.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   ?= .venv
RUN    := $(VENV)/bin
READY  := $(VENV)/.ready
TOOLS  := $(VENV)/.tools
# Bytecode is kept even where the environment says otherwise: the tests start Python a hundred times and more, and
# without it each start compiles the package anew, and each run of pytest rewrites every assertion.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup demo test test-slow test-long lint bench gpu study adversaries fuzz docs lock clean
help:           ## this list
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

setup: $(TOOLS) ## make the environment, with the developers' tools
$(READY): pyproject.toml lab/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(RUN)/pip install --quiet --upgrade pip
	$(RUN)/pip install --quiet $$(grep '^torch==' constraints.txt)
	$(RUN)/pip install --quiet --constraint constraints.txt --editable . --editable lab
	@touch $@
$(TOOLS): $(READY)
	$(RUN)/pip install --quiet --constraint constraints.txt --editable '.[dev]' --editable 'lab[mujoco,peers,slurm]'
	$(RUN)/pip install --quiet --no-deps lightly==1.6.0 lightly-utils==0.0.2
	$(RUN)/python -m isojepa.torchvision_operators
	@touch $@

demo: $(READY)  ## train on the spiral, print the certificate, write runs/demo/report.html
	$(RUN)/isojepa demo

# three at once where there are two cores: many tests wait for processes that they start
test: lint      ## lint, types and the tests
	OMP_NUM_THREADS=1 $(RUN)/pytest -n 3 --dist worksteal -m 'not slow and not long' tests src lab/src

test-slow: $(TOOLS) ## the quality claims: trains for minutes
	OMP_NUM_THREADS=1 $(RUN)/pytest -n 2 --dist worksteal -m slow tests

test-long: $(TOOLS) ## how often promises are kept, in simulated worlds: half an hour
	OMP_NUM_THREADS=1 $(RUN)/pytest -n 2 --dist worksteal -m long tests

lint: $(TOOLS)  ## ruff, layers of imports and mypy
	$(RUN)/ruff check src lab tests benchmarks examples docs tools
	$(RUN)/ruff format --check src lab tests benchmarks examples docs tools
	$(RUN)/lint-imports --no-cache
	$(RUN)/mypy

REFERENCE ?= 41c4777
EARLIER := $(VENV)/reference-$(REFERENCE)
bench: $(TOOLS) ## speed and memory against the textbook forms, and a step against that of REFERENCE=commit
	@test -d $(EARLIER) || (git worktree prune && git worktree add --quiet --detach $(EARLIER) $(REFERENCE)) || true
	ISOJEPA_REFERENCE=$(EARLIER)/src $(RUN)/python benchmarks/run.py

gpu: $(TOOLS)   ## on a machine with a GPU: SIGReg, a training step and the views, to docs/results/gpu.json
	$(RUN)/python benchmarks/gpu.py && $(RUN)/python docs/fill.py docs/speed.md

STUDY  ?= two_dimensions
study: $(READY) ## one study, by default the runs behind the README's tables (15 minutes): STUDY=quadrature
	@if test -f lab/src/isojepa_lab/studies/$(STUDY).py && ! $(RUN)/isojepa study list | grep -qw $(STUDY); then \
	  $(RUN)/python -m isojepa_lab.studies.$(STUDY); \
	else $(RUN)/isojepa sweep $(STUDY) && $(RUN)/isojepa study report $(STUDY) --out docs/results; fi

adversaries: $(READY) ## try to fool the certificate (12 minutes; what this code has answered is kept, but for AGAIN=1)
	$(if $(AGAIN),rm -rf runs/adversaries)
	OMP_NUM_THREADS=1 $(RUN)/isojepa sweep adversaries --records runs/adversaries --workers 1
	$(RUN)/isojepa study report adversaries --records runs/adversaries --out docs/results
	$(RUN)/python docs/fill.py docs/trust.md

FUZZ      ?= 100000
FUZZ_SEED ?= 0
fuzz: $(TOOLS)  ## FUZZ=100000 bad inputs of FUZZ_SEED=0; counts to docs/results/fuzz.json
	OMP_NUM_THREADS=1 $(RUN)/python -m tests.fuzz --count $(FUZZ) --seed $(FUZZ_SEED) --out docs/results/fuzz.json

docs: $(READY)  ## fill the documents from docs/results and the source
	$(RUN)/python docs/fill.py

lock: $(READY)  ## write requirements.lock: the versions of constraints.txt with the hashes of their files
	$(RUN)/python tools/hashes.py

clean:          ## remove the environment and what tools keep; runs stay, for they may be days of work
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	-@git worktree prune 2>/dev/null
