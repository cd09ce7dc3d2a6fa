# make demo, make test: both set up what they need in .venv, with only make, Python >= 3.11 and pip.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Each worker takes its files one after the other: what a file makes once is not made in both.
PYTEST_FLAGS ?= -n 2 --dist worksteal
# Two steps: what a user needs is enough for the demo, the tools of development come on top of it.
USER := $(VENV)/.installed-user
# In CI nothing may be skipped, so what only some tests need (torch, Paddle, the tools of the site) is installed there too.
ifeq ($(CI),true)
GROUPS := --group dev --group docs --group ci
STAMP := $(VENV)/.installed-ci
else
GROUPS := --group dev
STAMP := $(VENV)/.installed
endif

# Real profiler files that the tests read in place.
CORPUS := $(or $(TRACEKIT_CORPUS),$(abspath ../shared/corpus))

# Viewers that are on npm alone. A developer without network for npm still runs all other tests.
NPM := npm install --ignore-scripts --no-audit --no-fund --silent
define viewers
mkdir -p $(1)/viewers && cp tests/oracles/package.json $(1)/viewers/
if ! command -v npm >/dev/null; then echo "no npm: two viewers are not installed, their tests are skipped"; \
    else $(NPM) --prefix $(1)/viewers || [ "$(CI)" != true ]; fi
endef

scripts: $(STAMP)   ## make what pages carry of templates/scripts: commit both
	$(BIN)/python tests/build_scripts.py

.PHONY: demo test quick check scripts lowest installed coverage docs picture bench truth fuzz clean

$(USER): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tracekit needs Python 3.11 or newer; name one: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $(USER)

$(STAMP): $(USER) tests/oracles/package.json
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet $(GROUPS)
	$(call viewers,$(VENV))
	touch $(STAMP)

demo: $(USER)   ## run the main job on sample traces and say where the report is
	$(BIN)/tracekit demo -o demo-out --force

test: $(STAMP)   ## set up, then run every test
	$(BIN)/python -m pytest $(PYTEST_FLAGS)
	@echo "tests passed; tests that were skipped are named above with the reason"

quick: $(STAMP)   ## the tests of what changed since main, and the contracts: at most two minutes (make quick BASE=HEAD)
	$(BIN)/python tests/quick.py --base $(or $(BASE),main) $(PYTEST_FLAGS)

check: $(STAMP)   ## what must be green at every commit
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

lowest:   ## every test with the lowest versions that pyproject.toml allows: pip takes the newest, uv these
	test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --upgrade "pip>=25.1" uv
	.venv-lowest/bin/uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct --editable . $(GROUPS)
	touch .venv-lowest/.installed-user
	$(MAKE) test VENV=.venv-lowest

# A package without its source: make installed KIND=whl, or KIND=tar.gz, which pip builds a wheel from first.
KIND ?= whl
installed:   ## every test with the package installed from a wheel or an sdist, in a copy of the checkout without its source
	rm -rf build/installed .venv-installed && mkdir -p build/installed
	$(PYTHON) -m venv .venv-installed
	.venv-installed/bin/python -m pip install --quiet --upgrade "pip>=25.1" build
	.venv-installed/bin/python -m build --outdir build/installed/dist
	cp -r benchmarks docs sample_traces tests CONTRIBUTING.md README.md pyproject.toml zensical.toml build/installed
	.venv-installed/bin/python -m pip install --quiet build/installed/dist/*.$(KIND) $(GROUPS)
	$(call viewers,.venv-installed)
	cd build/installed && TRACEKIT_CORPUS=$(CORPUS) ../../.venv-installed/bin/python -m pytest $(PYTEST_FLAGS)

coverage: $(STAMP)   ## every test, then lines and branches that none runs: analysis/ has none, the package 5 % at most
	TRACEKIT_SHARE=1 $(BIN)/python -m pytest $(PYTEST_FLAGS) --cov --cov-report=
	$(BIN)/coverage report --skip-covered --show-missing --fail-under=95
	$(BIN)/coverage report --skip-covered --show-missing --fail-under=100 --include='tracekit/analysis/*'

docs: $(USER)   ## build the documentation site in build/site; a warning fails it
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --group docs
	$(BIN)/python docs/generate.py build/docs
	$(BIN)/zensical build --strict
	@echo "the site: build/site/index.html (python -m http.server -d build/site)"

picture: demo   ## take the picture of the README again (needs chromium)
	cd demo-out && $(abspath $(BIN))/tracekit report run.csv --time 391.7ms:396ms -o picture.html --force
	chromium --headless --no-sandbox --hide-scrollbars --window-size=1300,900 --virtual-time-budget=4000 \
	    --screenshot=docs/report.png file://$(CURDIR)/demo-out/picture.html

bench: $(STAMP)   ## ratios against named baselines, in one run
	$(BIN)/python benchmarks/run.py

truth: $(STAMP)   ## simulated programs with known ills: are they named, and are the savings upper bounds?
	$(BIN)/python -m benchmarks.truth --jobs 2

fuzz: $(STAMP)   ## coverage-guided fuzzing: make fuzz READERS="kineto theano" MINUTES=10
	$(BIN)/python tests/fuzz.py $(READERS) --minutes $(or $(MINUTES),10)

clean:
	rm -rf $(VENV) .venv-lowest .venv-installed demo-out fuzz-out dist build .pytest_cache .mypy_cache .ruff_cache
