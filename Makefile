# Every target says what it installs before it does, and installs only what it needs.

.DEFAULT_GOAL := help
.PHONY: help setup build install demo test weekly lint book bench truth traces kernel dist

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what building needs (apt; as root or by sudo)
	@scripts/setup.sh build

build: setup ## build the release binary, the recorder of `quaver sync`, QEMU's plugin, and the threaded programs of its bench
	@scripts/build.sh

install: ## install what `make build` built below PREFIX (/usr/local), with manual pages and completions
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" packaging/install.sh

dist: ## build packages into target/dist/packages: tar.gz, deb, rpm, container image, checksums
	@scripts/setup.sh dist
	@scripts/dist.sh

demo: setup ## chase a stream made on this machine for ten seconds
	@scripts/demo.sh

test: ## install what testing needs and run all tests
	@scripts/setup.sh test
	@scripts/test.sh

weekly: build ## what takes hours: fuzzers, sanitizers, another architecture, faults put into the pure crates
	@scripts/setup.sh test
	@scripts/weekly.sh

lint: ## format, clippy, dependencies, repository rules
	@scripts/setup.sh build
	@scripts/lint.sh

book: setup ## build the documents as a book into target/book, with offline search, and follow its links
	@scripts/book.sh

bench: ## measure speed and accuracy against peers (see bench-runs/)
	@scripts/setup.sh bench
	@scripts/bench.sh

truth: ## inject known interference and check that it is named (root)
	@scripts/setup.sh truth
	@scripts/truth.sh

traces: ## trace the threaded programs again for the simulator's own traces (see docs/formats.md)
	@scripts/setup.sh test
	@scripts/traces.sh

kernel: ## trace a guest's kernel again for the simulator's own library of kernel activity (see docs/formats.md)
	@scripts/setup.sh test
	@scripts/kernel.sh
