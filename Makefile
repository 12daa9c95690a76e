# SPDX-License-Identifier: Apache-2.0
# The words a newcomer needs are `make run` and `make test`; Meson does the work.

PYTHON := /usr/bin/python3
WERROR ?=
# Two makes in one checkout take turns: ninja does not guard its directory against itself.
NINJA = flock $(1)/.lock ninja -C $(1) $(if $(VERBOSE),-v,--quiet)
C_FILES = $(shell find src tests bench -name '*.[ch]')

.PHONY: run build test test-full soak bench lint format deps clean build-test build-fuzz agents-image

build: | build/build.ninja
	@scripts/deps build runtime # what has come to be needed since it was set up
	@$(call NINJA,build)

run: build
	@exec build/cay serve

test: build build-test agents-image
	@$(PYTHON) scripts/run-tests

test-full: build build-test build-fuzz agents-image
	@scripts/deps full
	@CAY_TEST_FULL=1 $(PYTHON) scripts/run-tests

# A thousand cycles of everything that changes a disk, with the server killed in between; some minutes for each kind of store.
soak: build build-test
	@CAY_CYCLES=1000 CAY=$(CURDIR)/build/cay $(PYTHON) -m pytest tests/crash/test_integrity.py -q -s

bench: build
	@scripts/deps build runtime bench
	@bench/run

lint:
	@scripts/deps build runtime test
	@scripts/lint --all

format:
	@scripts/deps test
	@clang-format -i $(C_FILES)

deps:
	@scripts/deps build runtime test

clean:
	@rm -rf build build-test build-fuzz

# -- build directories: meson runs by itself again when a meson.build changes

build/build.ninja:
	@scripts/deps build runtime
	@scripts/musl-cross build
	@meson setup build --cross-file build/musl.ini >/dev/null || { cat build/meson-logs/meson-log.txt; exit 1; }

build-test: | build-test/build.ninja
	@scripts/deps build runtime test
	@$(if $(WERROR),meson configure build-test -Dwerror=$(WERROR))
	@$(call NINJA,build-test)

build-test/build.ninja:
	@scripts/deps build runtime test
	@meson setup build-test -Dtests=true -Dlinkage=dynamic -Db_sanitize=address,undefined \
		>/dev/null || { cat build-test/meson-logs/meson-log.txt; exit 1; }

build-fuzz: | build-fuzz/build.ninja
	@$(call NINJA,build-fuzz)

build-fuzz/build.ninja:
	@scripts/deps build runtime test fuzz
	@CC=clang meson setup build-fuzz -Dfuzz=true -Dlinkage=dynamic -Db_lundef=false \
		-Db_sanitize=address,undefined >/dev/null || { cat build-fuzz/meson-logs/meson-log.txt; exit 1; }

# -- the agents' programs, fetched once: the tests themselves are offline

agents-image: build-test/agents-image/stamp

build-test/agents-image/stamp: images/agents images/data $(wildcard src/box/image*.c src/box/recipe*.c src/box/host-*.c) | build build-test
	@scripts/agents-image build/cay build-test/agents-image
