PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check format clean

$(VENV)/ready: pyproject.toml constraints.txt setup.py src/gossamer/engine/shared/kernel.c
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

demo: $(VENV)/ready  ## compare four strategies on imagined machines: a table and a plot
	$(BIN)/gossamer rehearse --compare allreduce 'local_sgd(every=8)' gossip_pull downpour --workers 8 --plot demo.png

test: $(VENV)/ready  ## every test
	$(BIN)/pytest -n 2 --dist worksteal

check: $(VENV)/ready  ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
