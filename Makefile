# Developer commands. They need only Python 3.11-3.13 and make; .venv is created when a target needs it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help venv demo serve test test-statistical test-casebase test-browser test-contract test-hostile test-lowest lock audit sign lint format bench study catalogs docs pages package-check clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(STAMP) ## Create .venv with the package (editable) and all development tools

$(STAMP): pyproject.toml cuda/pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; ok = (3, 11) <= v < (3, 14); \
	    ok or sys.exit("bayespatch needs Python 3.11 to 3.13, not %d.%d; choose one: make PYTHON=python3.12 ..." % v)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' --editable ./cuda
	@touch $@

demo: venv ## Fit the bundled heart data, explain a patient, and write reports on the patient and the model
	$(BIN)/bayespatch demo --out build/demo --force

serve: venv ## Serve the consulting page with the bundled heart data on http://127.0.0.1:8000
	$(BIN)/bayespatch serve

JOBS ?= 2
# One BLAS thread per process: small matrices do not benefit from more, and idle threads slow down the other processes.
test: venv ## Run all tests except the slow statistical ones (JOBS: number of processes)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile tests study/tests --ignore=tests/statistical --ignore=tests/browser --ignore=tests/contract
	@command -v "$${CHROMIUM:-chromium}" > /dev/null || echo "Skipped tests/browser: Chromium not found (make test-browser)"

STATISTICAL ?= tests/statistical
test-statistical: venv ## Run the slow statistical tests: exact posteriors, Geweke, calibration, planted bugs (STATISTICAL: a selection)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal $(STATISTICAL)

test-casebase: venv ## Run the long tests of the case base: random operations, killed processes, tampering (about an hour)
	$(BIN)/python -m pytest tests/casebase tests/statistical/test_casebase.py

EDITS ?= 10000
test-hostile: venv ## Load forged model files and checkpoints that have valid checksums, with limited memory and time (EDITS: number of files)
	$(BIN)/python tests/hostile/attack.py --edits $(EDITS)

AXE ?= build/axe/node_modules/axe-core/axe.min.js
test-browser: venv ## Test the pages in Chromium (AXE: path to axe.min.js, downloaded with npm by default; CHROMIUM: path to the browser)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[browser]'
	@test -f '$(AXE)' || npm install --silent --no-audit --no-fund --prefix build/axe axe-core@4.14.0 \
	    || echo "Skipped axe-core: npm could not download it (set its path: AXE=...)"
	AXE='$(AXE)' $(BIN)/python -m pytest -rs tests/browser

EXAMPLES ?= 1000
test-contract: venv ## Test the REST interface against its OpenAPI description (EXAMPLES: generated requests per route)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[contract]'
	EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest tests/contract

# The requirements of `bayespatch serve` with either database and record systems, for every supported Python. Pins change only with UPGRADE=--upgrade.
lock: venv ## Pin the packages of the service, and of building it, with hashes in requirements (UPGRADE=--upgrade: allow newer versions)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --custom-compile-command 'make lock' \
	    $(UPGRADE) --extra web --extra casebase --extra cli --extra sql --extra fhir --output-file requirements/service.txt pyproject.toml
	sed -n 's/^requires = \["\(.*\)"\]$$/\1/p' pyproject.toml | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --custom-compile-command 'make lock' $(UPGRADE) --output-file requirements/build.txt -

SERVICE ?= pypi
audit: venv ## Check .venv and the lock file for known vulnerabilities (ADVISORIES: folder of OSV records; SERVICE: pypi or osv)
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
sign: ## Sign the SBOM of your own build with an SSH key (KEY: private key; FILES: other files, such as dist/*)
	@test -n '$(KEY)' || { echo 'KEY is missing: make sign KEY=path-to-private-key (create one with ssh-keygen -t ed25519)'; exit 2; }
	for file in $(FILES); do rm -f "$$file.sig" && ssh-keygen -Y sign -q -n bayespatch -f '$(KEY)' "$$file" || exit 1; done

test-lowest: ## Run the tests with the oldest versions that pyproject.toml allows (Python 3.11)
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

bench: venv ## Run the benchmarks of speed and mixing
	$(BIN)/python benchmarks/bench.py

catalogs: venv ## Update and compile the translation catalogs of the pages (LANGUAGES: codes of new languages)
	$(BIN)/python generators/catalogs.py $(LANGUAGES)

docs: $(VENV)/.docs ## Build the documentation into site/ (warnings are errors)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

$(VENV)/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

GENERATORS ?= card cli_page rest_page readme figures casebase_page survival_page tutorials transcripts notebooks
pages: venv ## Regenerate the generated parts of the documentation (GENERATORS: a selection; screenshots requires Chromium)
	for name in $(GENERATORS); do $(BIN)/python generators/$$name.py || exit 1; done

package-check: venv ## Build wheel and sdist, install them and each extra in empty environments, and write an SBOM (slow)
	$(BIN)/python tests/packaging/installs.py

study: venv ## Run the paper's experiments, reusing finished parts (READMISSION=path adds the third data set)
	$(BIN)/python -m study --out docs/study $(if $(READMISSION),--readmission $(READMISSION))

clean: ## Remove all build products, including .venv
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find src cuda tests study benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
