# Everything a developer runs. Only Python 3.11-3.13 and make are needed: the first target that needs it builds .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help venv demo serve test test-statistical test-casebase test-browser test-contract test-hostile test-lowest lock audit sign lint format bench study docs pages package-check clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(STAMP) ## Build .venv with the package (editable) and everything for development

$(STAMP): pyproject.toml cuda/pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; ok = (3, 11) <= v < (3, 14); \
	    ok or sys.exit("Python 3.11 to 3.13 is needed, found %d.%d; name another: make PYTHON=python3.12 ..." % v)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' --editable ./cuda
	@touch $@

demo: venv ## Fit the bundled heart data, show one patient's patchwork, write a page about the patient and the model
	$(BIN)/bayespatch demo --out build/demo --force

serve: venv ## Serve the consulting page with the bundled heart data on http://127.0.0.1:8000
	$(BIN)/bayespatch serve

JOBS ?= 2
# BLAS has one thread in each process: small matrices gain nothing from more, and waiting threads take the others' time.
test: venv ## Run the tests, but for the slow statistical ones (JOBS: in so many processes)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile tests study/tests --ignore=tests/statistical --ignore=tests/browser --ignore=tests/contract
	@command -v "$${CHROMIUM:-chromium}" > /dev/null || echo "Left out: tests/browser, as there is no Chromium here (make test-browser)"

STATISTICAL ?= tests/statistical
test-statistical: venv ## Run the slow truth checks: exactness, Geweke, calibration, planted bugs (STATISTICAL: some of them)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal $(STATISTICAL)

test-casebase: venv ## Run what is shown at length of the case base: random sequences, kills, tamperings (an hour)
	$(BIN)/python -m pytest tests/casebase tests/statistical/test_casebase.py

EDITS ?= 10000
test-hostile: venv ## Attack model files and checkpoints: forged content whose checksums fit, in bounded memory and time (EDITS: how many)
	$(BIN)/python tests/hostile/attack.py --edits $(EDITS)

AXE ?= build/axe/node_modules/axe-core/axe.min.js
test-browser: venv ## Look at the pages in Chromium (AXE: path of axe.min.js, else npm fetches it; CHROMIUM: path of the browser)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[browser]'
	@test -f '$(AXE)' || npm install --silent --no-audit --no-fund --prefix build/axe axe-core@4.14.0 \
	    || echo "Left out: axe-core, which npm fetches where it can (or name axe.min.js: AXE=...)"
	AXE='$(AXE)' $(BIN)/python -m pytest -rs tests/browser

EXAMPLES ?= 1000
test-contract: venv ## Hold the REST interface against its OpenAPI description (EXAMPLES: generated requests a route)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[contract]'
	EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest tests/contract

# What `bayespatch serve` needs with either database, for every supported Python. Pins stay as they are unless UPGRADE=--upgrade.
lock: venv ## Write requirements/service.txt: the service's packages, pinned with hashes (UPGRADE=--upgrade: take newer versions)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --custom-compile-command 'make lock' \
	    $(UPGRADE) --extra web --extra casebase --extra cli --extra sql --output-file requirements/service.txt pyproject.toml

SERVICE ?= pypi
audit: venv ## Look up known vulnerabilities of every package in .venv and in the lock file (ADVISORIES: a folder of OSV records; SERVICE: pypi or osv)
	@mkdir -p build
	$(BIN)/python -m pip freeze --exclude-editable --disable-pip-version-check > build/audit.txt
ifdef ADVISORIES
	$(BIN)/python packaging/advisories.py '$(ADVISORIES)' build/audit.txt requirements/service.txt
else
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[audit]'
	$(BIN)/pip-audit --requirement build/audit.txt --no-deps --disable-pip --strict --vulnerability-service $(SERVICE)
	$(BIN)/pip-audit --requirement requirements/service.txt --require-hashes --disable-pip --strict --vulnerability-service $(SERVICE)
endif

FILES ?= build/sbom.cdx.json
sign: ## Sign the SBOM with an SSH key, for a build of your own (KEY: the private key; FILES: other files, such as dist/*)
	@test -n '$(KEY)' || { echo 'Name the private key: make sign KEY=path (ssh-keygen -t ed25519 makes one)'; exit 2; }
	for file in $(FILES); do rm -f "$$file.sig" && ssh-keygen -Y sign -q -n bayespatch -f '$(KEY)' "$$file" || exit 1; done

test-lowest: ## Run the tests with the oldest versions of everything that pyproject.toml allows (Python 3.11)
	$(PYTHON) -m venv --clear build/lowest
	$(PYTHON) tests/packaging/lowest.py > build/lowest/constraints.txt
	build/lowest/bin/python -m pip install --quiet --disable-pip-version-check \
	    --constraint build/lowest/constraints.txt '.[test]' ./cuda
	build/lowest/bin/python -m pytest tests study/tests --ignore=tests/statistical --ignore=tests/browser --ignore=tests/contract

lint: venv ## Check style (ruff) and types (mypy)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: venv ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: venv ## Measure speed and mixing, as ratios within one run
	$(BIN)/python benchmarks/bench.py

docs: $(VENV)/.docs ## Build the documentation into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

$(VENV)/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

GENERATORS ?= cli_page rest_page readme figures casebase_page tutorials transcripts
pages: venv ## Write the generated parts of the documentation anew (GENERATORS: some of them; screenshots needs Chromium)
	for name in $(GENERATORS); do $(BIN)/python generators/$$name.py || exit 1; done

package-check: venv ## Build wheel and sdist; install them, and each extra alone, in empty environments (slow); write an SBOM
	$(BIN)/python tests/packaging/installs.py

study: venv ## Run the paper's experiments (finished parts are kept); READMISSION=path adds the third data set
	$(BIN)/python -m study --out docs/study $(if $(READMISSION),--readmission $(READMISSION))

clean: ## Remove what was built, .venv included
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find src cuda tests study benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
