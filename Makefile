# Everything from a bare Debian 12 machine: `make demo` runs the main job, `make test` every test.
# Both install what is missing (Debian packages with apt, a virtual environment in .venv) and say so.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: help setup setup-vm setup-test demo test lint format bench fuzz bare clean python-packages test-python-packages
.NOTPARALLEL:

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
# Tests at a time: as many as the machine has cores, four at most (each may start a machine or a server of its own).
JOBS ?= $(shell n=$$(nproc); echo $$((n < 4 ? n : 4)))
# What `make demo` runs.
DEMO ?= contracts/catalog/legacyworld/dswin
VENV := .venv
comma := ,
BIN := $(VENV)/bin

# Debian packages: what the virtual environment needs, and what libvirt's Python package is built with (so it comes first); what the
# embedded machine needs, what virtual machines need, and what the tests need beside; what makes a bare Debian.
PYTHON_PACKAGES := python3 python3-venv
LIBVIRT_BUILD_PACKAGES := gcc libc6-dev libvirt-dev pkg-config python3-dev
RUN_PACKAGES := bubblewrap fonts-dejavu-core fonts-wine gcc gcc-mingw-w64-x86-64 libc6-dev libwine make mount \
	tigervnc-standalone-server util-linux wine64 x11-xkb-utils
VM_PACKAGES := e2fsprogs fuse3 gdisk libvirt-clients libvirt-daemon-system mmdebstrap ntfs-3g qemu-system-x86 qemu-utils
TEST_PACKAGES := chromium fdisk gcc-mingw-w64-i686 libhivex-bin mariadb-server mdbtools odbc-mariadb odbc-mdbtools odbc-postgresql \
	postgresql qemu-guest-agent unixodbc
BARE_PACKAGES := git mmdebstrap mount util-linux

help:
	@echo "make demo    the DSWin suite on fresh embedded machines; prints the outcomes and writes a report"
	@echo "make test    every test"
	@echo "make lint    ruff and mypy"
	@echo "make bench   measurements against named alternatives; prints a table and writes bench.json; QUICK=1 only shows that they work"
	@echo "make fuzz    ten million cases over the readers of hostile bytes; CASES=n for another number"
	@echo "make bare    everything above on a bare Debian that is made for it and removed afterwards; SHORT=1 for a part of it"
	@echo "make setup   installs what the program needs, and nothing else; make setup-vm also what virtual machines need"

define install_packages
	@missing=$$(for p in $(1); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q '^install ok installed' || echo $$p; done); \
	if [ -n "$$missing" ]; then \
		echo "installing Debian packages:" $$missing; \
		sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); \
		$$sudo apt-get -o DPkg::Lock::Timeout=600 -q update >/dev/null; \
		$$sudo env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 -q install -y --no-install-recommends $$missing \
			>.apt.log 2>&1 || { tail -20 .apt.log; exit 1; }; \
	fi
endef

define install_python
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed"; exit 1; }
	@echo "setting up the virtual environment in $(VENV) ($(PYTHON))"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q -c constraints.txt -e '$(1)'
	@touch $@
endef

# Order only: whether packages are there is looked up each time, and is no reason to set the environment up again.
python-packages:
	$(call install_packages,$(PYTHON_PACKAGES))

test-python-packages:
	$(call install_packages,$(PYTHON_PACKAGES) $(LIBVIRT_BUILD_PACKAGES))

$(VENV)/.ready: pyproject.toml constraints.txt | python-packages
	$(call install_python,.)

$(VENV)/.ready-test: pyproject.toml constraints.txt | test-python-packages
	$(call install_python,.[test$(comma)dev])
	@touch $(VENV)/.ready

setup:
	$(call install_packages,$(PYTHON_PACKAGES) $(RUN_PACKAGES))
	@$(MAKE) --no-print-directory $(VENV)/.ready

setup-vm: setup
	$(call install_packages,$(LIBVIRT_BUILD_PACKAGES) $(VM_PACKAGES))
	@$(BIN)/python -m pip install -q -c constraints.txt -e '.[libvirt]'

setup-test:
	$(call install_packages,$(PYTHON_PACKAGES) $(LIBVIRT_BUILD_PACKAGES) $(RUN_PACKAGES) $(VM_PACKAGES) $(TEST_PACKAGES))
	@$(MAKE) --no-print-directory $(VENV)/.ready-test

demo: setup
	@$(BIN)/legacyproof run $(DEMO) --agent scripted:recordings/dswin --as-intended \
		--name demo-$$(date +%Y%m%d-%H%M%S)

test: setup-test
	@# The virtual machine has the computer for itself: emulated beside other work it is too slow for what people and agents do.
	@# Status 5: no test of that half was asked for.
	@failed=0; asked=$(if $(strip $(PYTEST_ARGS)),yes); \
	$(BIN)/python -m pytest -m "not vm" -n $(JOBS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS) || failed=$$?; \
	if [ $$failed = 5 ] && [ -n "$$asked" ]; then failed=0; fi; \
	$(BIN)/python -m pytest -m vm $(PYTEST_ARGS) || { status=$$?; [ $$status = 5 ] && [ -n "$$asked" ] || failed=$$status; }; exit $$failed

lint: $(VENV)/.ready-test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(VENV)/.ready-test
	@$(BIN)/ruff check --fix-only -q .
	@$(BIN)/ruff format -q .

bench: setup-test
	@$(BIN)/python -m tests.bench $(if $(QUICK),--quick)

fuzz: $(VENV)/.ready-test
	@$(BIN)/python -m tests.fuzz

# Needs no environment of its own: it makes one in the bare Debian.
bare: python-packages
	$(call install_packages,$(BARE_PACKAGES))
	@$(PYTHON) -m tests.bare $(if $(SHORT),--short)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache bench.json fuzz.json vm_images/apps/*/build vm_images/probe/build
