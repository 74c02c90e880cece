# The front door. The build itself is described in CMakeLists.txt and CMakePresets.json; see
# `make help`. System packages that are missing are installed where that is allowed.

JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX ?= /usr/local
DATA ?=

MAKEFLAGS += --no-print-directory
export JOBS

release = build/release

.PHONY: all demo check check-long golden bench install format lint clean help

all:
	@tools/packages.sh build
	@tools/build.sh release tapir_programs

demo: all
	$(release)/examples/mnist $(DATA)

check:
	@tools/packages.sh build check
	@tools/check.sh

check-long:
	@tools/packages.sh build check long
	@tools/check.sh $(if $(PART),--part $(PART),--long)

golden:
	@tools/packages.sh build check
	@tools/build.sh release golden_write -DTAPIR_TESTS=ON
	@git diff --stat -- test/text 2>/dev/null || true

bench:
	@tools/packages.sh build
	@tools/build.sh release tapir_benches -DTAPIR_BENCH=ON
	@tools/bench.sh $(release)/bench

install: all
	cmake --install $(release) --prefix "$(PREFIX)"

format:
	@tools/packages.sh lint
	@tools/lint.sh --format

lint:
	@tools/packages.sh build check lint
	@tools/build.sh release tapir_text -DTAPIR_TESTS=ON
	@tools/lint.sh $(release)

clean:
	rm -rf build

help:
	@echo 'make              the library, the command and the examples, under $(release)'
	@echo 'make demo         train the digit classifier; DATA=dir for the MNIST files in dir'
	@echo 'make check        all tests; the last line counts them'
	@echo 'make check-long   the slow ones too; PART=name one part of them (docs/testing.md)'
	@echo 'make golden       takes the generated text as it is now (docs/testing.md)'
	@echo 'make bench        measure'
	@echo 'make install      into PREFIX ($(PREFIX)); DESTDIR is honoured'
	@echo 'make format       clang-format over all sources'
	@echo 'make lint         clang-format and clang-tidy, changing nothing'
	@echo 'make clean        remove build/'
	@echo 'JOBS=n limits parallel work ($(JOBS)).'
