# make run | test | lint | bench | soak | wheel | lock | clean; `make help` says what each does. GNU make 3.81 or newer.
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

PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet
# Wheels only: an install runs no package's build script but our own.
INSTALL_LOCKED := $(PIP) install --require-hashes --only-binary :all: -r
INSTALL_SELF := $(PIP) install --quiet --no-deps --no-build-isolation --editable .

# node comes with the locked Python packages, tsc with the locked npm package of the tests.
TOOLS := PATH="$(abspath $(BIN)):$(CURDIR)/tests/static/node_modules/.bin:$$PATH"

.PHONY: help run test peers lint bench soak wheel lock clean

help: ## Say what each target does.
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' Makefile

run: $(VENV)/.demo ## Install what the demo needs, start the server, print a link.
	@$(BIN)/rtc-server serve $(ARGS)

test: $(VENV)/.dev peers ## Install what the tests need, browsers included, and run them all.
	@$(TOOLS) $(BIN)/python -m pytest $(ARGS)

lint: $(VENV)/.dev ## Check style, format and types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.demo ## Measure latency and the number of calls a core holds.
	$(BIN)/rtc-server bench latency $(ARGS)
	$(BIN)/rtc-server bench calls $(ARGS)

soak: $(VENV)/.dev ## Run the long tests in full length.
	RTC_SOAK=1 $(TOOLS) $(BIN)/python -m pytest -m soak $(ARGS)

wheel: $(VENV)/.dev ## Build the wheel into dist/.
	$(BIN)/python -m build --wheel --no-isolation

peers: $(VENV)/.dev ## Install the browsers and the type checker that the tests call.
	@$(TOOLS) .ci/peers

# The locks keep the versions that they hold; `make lock ARGS=--upgrade` takes the newest ones that pyproject.toml allows.
COMPILE = build/lock/bin/uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(ARGS) pyproject.toml requirements/build.in

lock: $(BIN)/python ## Write requirements/*.txt anew from pyproject.toml.
	@test -x build/lock/bin/uv || { $(BIN)/python -m venv build/lock && build/lock/bin/python -m pip install --quiet uv; }
	$(COMPILE) --extra demo --output-file requirements/demo.txt
	$(COMPILE) --extra demo --extra dev --constraint requirements/demo.txt --output-file requirements/dev.txt

clean: ## Remove everything that was installed or built here.
	rm -rf $(VENV) build dist artifacts tests/static/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis
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

# The stamps stand for a finished install. Everything of the demo is in the lock of the tests as well.
$(VENV)/.demo: requirements/demo.txt pyproject.toml | $(BIN)/python
	@echo "Installing the server and its demo engine into $(VENV): about 600 MB, a minute or two"
	@$(INSTALL_LOCKED) requirements/demo.txt
	$(INSTALL_SELF)
	@touch $@

$(VENV)/.dev: requirements/dev.txt pyproject.toml | $(BIN)/python
	@echo "Installing what the tests need into $(VENV)"
	@$(INSTALL_LOCKED) requirements/dev.txt
	$(INSTALL_SELF)
	@touch $(VENV)/.demo $@
