# Everything happens in .venv; nothing outside the checkout is touched.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
RIVALS := .venv/.rivals
SECONDS ?= 60
MINUTES ?= 40

.PHONY: help demo test test-hosts check docs bench bench-compare chaos chaos-live planted reproduce clean

help:
	@echo "make demo       the paper's Example 2, live on five worker processes; leaves a picture and a page in demo/"
	@echo "make test       run the tests"
	@echo "make test-hosts a stream over hosts that are network namespaces, one of them cut off; needs root and iproute2"
	@echo "make check      ruff, mypy (strict) and the import layers"
	@echo "make docs       build the documentation, warnings as errors; leaves it in build/docs/"
	@echo "make bench      measure speed, side by side with references; updates docs/results.md"
	@echo "make bench-compare the same jobs by echelon, Ray, Dask and torch on emulated clusters, the others as documented"
	@echo "                and by hand; 40 minutes or so, or MINUTES; updates docs/results.md"
	@echo "make chaos      whole streams under seeded faults in virtual time, for SECONDS (60) seconds"
	@echo "make chaos-live programs on worker processes that are killed, stopped, hang and worse, for SECONDS (60) seconds"
	@echo "make planted    bugs planted one at a time, and what of the tests catches each; updates docs/results.md"
	@echo "make reproduce  figures, tables and claims of the papers; updates docs/results.md"
	@echo "make clean      remove what the commands above made"

$(READY): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(READY)
	@$(BIN)/echelon demo --out demo

test: $(READY)
	@$(BIN)/python -m pytest --numprocesses 2 --dist worksteal --quiet

test-hosts: $(READY)
	@ECHELON_TEST_HOSTS=1 $(BIN)/python -m pytest --quiet tests/hosts

check: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest --quiet tests/test_layers.py

docs: $(READY)
	@$(BIN)/python -m sphinx -E -W --keep-going -n -q -b html -d build/doctrees docs build/docs
	@echo "Open build/docs/index.html"

$(RIVALS): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[bench]'
	@touch $@

bench: $(RIVALS)
	@$(BIN)/python -m bench --results docs/results.md

bench-compare: $(RIVALS)
	@$(BIN)/python -m bench.compare --minutes $(MINUTES) --results docs/results.md

chaos: $(READY)
	@$(BIN)/python -m bench.chaos --seconds $(SECONDS)

chaos-live: $(READY)
	@$(BIN)/python -m bench.chaos.live --seconds $(SECONDS)

planted: $(READY)
	@$(BIN)/python -m bench.planted --results docs/results.md

reproduce: $(READY)
	@$(BIN)/python -m bench.reproduce --out build/reproduce --results docs/results.md

clean:
	rm -rf .venv build demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
