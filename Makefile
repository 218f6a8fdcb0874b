# Everything a newcomer types. Needs only python3 (3.11, 3.12 or 3.13, with venv), pip and make.
PYTHON ?= python3
BIN := .venv/bin
# DMControl: from Python 3.13 on pip cannot install it with all that it asks for.
SUITE := dm-control==1.0.50

.DEFAULT_GOAL := help
.PHONY: help demo test test-all format bench chaos chaos-long figures pages docs constraints clean

help:  ## what can be typed
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.venv/.ok: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@$(BIN)/python -c "import dm_control" 2>/dev/null || $(BIN)/pip install --quiet --no-deps $(SUITE)
	@touch $@

.venv/.dev: .venv/.ok
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: .venv/.ok  ## train DDPG and Bi-Res-DDPG side by side and show the curves: two minutes
	$(BIN)/bires compare InvertedPendulum-v5 --seeds 10 --steps 5000 --warmup 1000 --eval-every 1000 --eval-episodes 3 \
	  --hidden 64 64 --actor-lr 1e-3 --tau 5e-3 --out runs/demo
	@echo "A return is the number of steps for which the pole stays up. Bi-Res-DDPG keeps it up longer: with some seeds DDPG lets it"
	@echo "fall at once (a return of 2). On 20 other seeds 11 of DDPG and none of Bi-Res-DDPG ended so: results/README.md."

test: .venv/.dev  ## format, lint, types, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -q -n 2 --dist worksteal

test-all: test  ## the slow tests too
	$(BIN)/pytest -q -n 2 --dist worksteal -m slow

format: .venv/.dev  ## format and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.venv-peers/.ok: benchmarks/peers/requirements.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/pip install --quiet --disable-pip-version-check -r benchmarks/peers/requirements.txt
	@touch $@

bench: .venv/.ok .venv-peers/.ok  ## this machine: update speed, env speed, share of peak, peers side by side
	$(BIN)/bires bench --peers .venv-peers/bin/python

chaos: .venv/.ok  ## shake runs with every kind of fault; their files must equal those of undisturbed ones
	$(BIN)/python -m benchmarks.chaos --page docs/reliability.md

chaos-long: .venv/.ok  ## the same with 500 faults, and with more agents and planners
	$(BIN)/python -m benchmarks.chaos --long --faults 500

figures: .venv/.ok  ## rebuild every figure, table and report from the raw curves in results/
	$(BIN)/python -m bires.studies.publish results docs report README.md \
	  docs/actor-critics.md docs/dqn.md docs/measurements.md docs/planning.md docs/reproducing.md docs/rules.md

pages: .venv/.dev  ## rebuild docs/settings.md from the settings, and what the snippets of docs/snippets.md print
	$(BIN)/python -m bires.cli.settings_page docs/settings.md
	$(BIN)/python -m tests.test_snippets

docs: .venv/.dev  ## build the documentation into site/; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo site/index.html

constraints:  ## (maintainers, needs uv) pin what was tested
	uv pip compile --quiet --universal --python-version 3.11 --all-extras --no-header --no-annotate \
	  --no-emit-index-url pyproject.toml -o constraints.txt

clean:  ## remove what make made
	rm -rf .venv .venv-peers .mypy_cache .ruff_cache .pytest_cache site
