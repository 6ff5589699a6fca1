PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo bench test test-long check format clean

$(VENV)/ready: pyproject.toml constraints.txt setup.py src/gossamer/engine/shared/kernel.c src/gossamer/parts/kernel.c
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

demo: $(VENV)/ready  ## train the digits on four worker processes; then four strategies on imagined machines, with a plot
	$(BIN)/gossamer train
	$(BIN)/gossamer rehearse --compare allreduce 'local_sgd(every=8)' gossip_pull downpour --workers 8 --plot demo.png

bench: $(VENV)/ready  ## ratios against gloo, DDP and the bare loop; takes a quarter of an hour, on a quiet machine
	$(BIN)/python benchmarks/mix.py
	$(BIN)/python benchmarks/step.py
	$(BIN)/python benchmarks/overhead.py

test: $(VENV)/ready  ## every promise
	$(BIN)/pytest -n 2 --dist worksteal

test-long: $(VENV)/ready  ## the same, on every strategy, rank and launcher that it may break on
	$(BIN)/pytest -n 2 --dist worksteal --long

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
