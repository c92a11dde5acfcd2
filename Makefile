# `make demo` and `make test` are the whole set-up; both can be called again at any time.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Machine tests at a time; each holds two or three machines of half a gigabyte.
JOBS ?= 2

.PHONY: demo test test-fast test-machine soak bench lint lock clean system test-system

demo: $(STAMP)
	$(RUN)/karotte-gym image build
	$(RUN)/karotte-gym run --task q3-revenue --script envs/q3_revenue/solution.json --expect-reward 1.0
	$(RUN)/karotte-gym run --task q3-revenue --script envs/q3_revenue/attacks/link_to_the_key.json --expect-reward 0.0

test: test-system $(STAMP)
	$(RUN)/ruff check .
	$(RUN)/python -m pytest tests/unit -q -n $(JOBS)
	$(RUN)/karotte-gym image build
	$(RUN)/python -m pytest tests/machine tests/redteam -q -n $(JOBS) --dist loadgroup -m "not slow"

test-fast: test-system $(STAMP)
	$(RUN)/python -m pytest tests/unit -q -n $(JOBS)

soak: $(STAMP)
	$(RUN)/python -m pytest tests -q -m slow

bench: $(STAMP)
	for each in reset episode tools; do $(RUN)/python benchmarks/$$each.py || exit 1; done

lint: $(STAMP)
	$(RUN)/ruff check .
	$(RUN)/mypy

lock: $(STAMP)
	$(RUN)/pip install --quiet uv
	$(RUN)/uv pip compile --universal --generate-hashes --no-header --python-version 3.11 --group dev pyproject.toml \
		--output-file requirements.lock

system:
	PYTHON=$(PYTHON) scripts/system-packages

test-system: system
	PYTHON=$(PYTHON) scripts/system-packages test

$(STAMP): requirements.lock pyproject.toml setup.py | system
	$(PYTHON) -m venv $(VENV)
	$(RUN)/pip install --quiet --require-hashes --requirement requirements.lock
	$(RUN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info runs test-artifacts
