# make run | personaplex | test | lint | bench | soak | wheel | lock | clean; `make help` says what each does.
# GNU make 3.81 or newer.
#
#   ARGS     handed on to the command:    make run ARGS="--engine echo"      make test ARGS="tests/media -x"
#   PYTHON   the interpreter to build on: make run PYTHON=/opt/python3.12/bin/python3
#   VENV     the virtual environment:     .venv

VENV ?= .venv
ARGS ?=
BIN := $(VENV)/bin

# In the order of trust: what the tests run on comes first.
PYTHONS := $(if $(PYTHON),$(PYTHON),python3.13 python3.12 python3.11 python3.14 python3)
SUITABLE := import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))

PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
# Wheels only: an install runs no package's build script but our own.
INSTALL_LOCKED := $(PIP) install --quiet --require-hashes --only-binary :all: -r
# torch comes without hashes: the same release is built for CUDA, for CPUs and for others, and pip's settings say which one
# this machine takes. Its version, and those of all that its builds bring along, are in requirements/torch.txt.
INSTALL_TORCH = test $(VENV)/.torch -nt requirements/torch.txt || { \
	echo "Installing torch: on Linux with CUDA, about 3 GB to download, unless pip is set to take a build for CPUs (0.2 GB)"; \
	$(PIP) install --only-binary :all: --constraint requirements/torch.txt torch && touch $(VENV)/.torch; }
INSTALL_SELF := $(PIP) install --quiet --quiet --no-deps --no-build-isolation --editable .

# node comes with the locked Python packages, tsc with the locked npm package of the tests.
TOOLS := PATH="$(abspath $(BIN)):$(CURDIR)/tests/static/node_modules/.bin:$$PATH"

.PHONY: help run personaplex test peers lint bench soak wheel lock clean

help: ## Say what each target does.
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' Makefile

run: $(VENV)/.demo ## Install what the demo needs, start the server, print a link.
	@$(BIN)/rtc-server serve $(ARGS)

personaplex: $(VENV)/.personaplex ## Install what PersonaPlex needs on a GPU, torch included, and serve it.
	@$(BIN)/rtc-server serve --engine personaplex $(ARGS)

test: $(VENV)/.dev peers ## Install what the tests need, browsers included, and run them all.
	@$(TOOLS) $(BIN)/python -m pytest $(ARGS)

lint: $(VENV)/.dev ## Check style, format and types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.demo ## Measure latency and the number of calls a core holds.
	$(BIN)/rtc-server bench latency $(ARGS)
	$(BIN)/rtc-server bench calls $(ARGS)

soak: $(VENV)/.dev peers ## Run the long tests in full length.
	RTC_SOAK=1 $(TOOLS) $(BIN)/python -m pytest -m soak $(ARGS)

wheel: $(VENV)/.dev ## Build the wheel into dist/.
	$(BIN)/python -m build --wheel --no-isolation

peers: $(VENV)/.dev ## Install the browsers and other peers that the tests call.
	@$(TOOLS) .ci/peers

# The locks keep the versions that they hold; `make lock ARGS=--upgrade` takes the newest ones that pyproject.toml allows.
COMPILE = build/lock/bin/uv pip compile --quiet --no-config --universal --python-version 3.11 \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(ARGS)
COMPILE_HASHED = $(COMPILE) --generate-hashes pyproject.toml requirements/build.in
# What only torch's build for CUDA needs is there for Linux alone.
NOT_HASHED = $$(sed -n 's/^\(torch\)==.*/--no-emit-package \1/p; s/^\([a-z0-9-]*\)==.*linux.*/--no-emit-package \1/p' \
	requirements/torch.txt)

lock: $(BIN)/python ## Write requirements/*.txt anew from pyproject.toml.
	@test -x build/lock/bin/uv || { $(BIN)/python -m venv build/lock && build/lock/bin/python -m pip install --quiet uv; }
	$(COMPILE_HASHED) --extra demo --output-file requirements/demo.txt
	sed -n 's/.*"\(torch==[^"]*\)".*/\1/p' pyproject.toml | $(COMPILE) - \
	  --constraint requirements/demo.txt --output-file requirements/torch.txt
	$(COMPILE_HASHED) --extra personaplex --constraint requirements/demo.txt --constraint requirements/torch.txt \
	  $(NOT_HASHED) --output-file requirements/personaplex.txt
	$(COMPILE_HASHED) --extra demo --extra personaplex --extra dev --constraint requirements/demo.txt \
	  --constraint requirements/personaplex.txt --constraint requirements/torch.txt \
	  $(NOT_HASHED) --output-file requirements/dev.txt

clean: ## Remove everything that was installed or built here.
	rm -rf $(VENV) build dist artifacts tests/static/node_modules tests/e2e/*/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find rtc_server tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@for python in $(PYTHONS); do \
	  if "$$python" -c '$(SUITABLE)' 2>/dev/null; then \
	    echo "Making $(VENV) with $$("$$python" --version)"; \
	    exec "$$python" -m venv --clear $(VENV); \
	  fi; \
	done; \
	echo "rtc_server needs Python 3.11 to 3.14 with venv, and none of these is one: $(PYTHONS)." >&2; \
	echo "Install one (Debian, Ubuntu: apt install python3-venv; macOS: brew install python@3.13), or name one: make PYTHON=/path/to/python3" >&2; \
	exit 1

# The stamps stand for a finished install. Everything of the two engines is in the lock of the tests as well.
$(VENV)/.demo: requirements/demo.txt pyproject.toml | $(BIN)/python
	@echo "Installing the server and its demo engine into $(VENV): about 600 MB, a minute or two"
	@$(INSTALL_LOCKED) requirements/demo.txt
	$(INSTALL_SELF)
	@touch $@

$(VENV)/.personaplex: requirements/personaplex.txt requirements/torch.txt pyproject.toml | $(BIN)/python
	@echo "Installing the server and PersonaPlex into $(VENV)"
	@$(INSTALL_LOCKED) requirements/personaplex.txt
	@$(INSTALL_TORCH)
	$(INSTALL_SELF)
	@touch $@

$(VENV)/.dev: requirements/dev.txt requirements/moshi.txt requirements/torch.txt pyproject.toml | $(BIN)/python
	@echo "Installing what the tests need into $(VENV)"
	@$(INSTALL_LOCKED) requirements/dev.txt
	@$(INSTALL_LOCKED) requirements/moshi.txt --no-deps
	@$(INSTALL_TORCH)
	$(INSTALL_SELF)
	@touch $(VENV)/.demo $(VENV)/.personaplex $@
