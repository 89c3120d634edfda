# What each target does is in README.md and CONTRIBUTING.md. Every target installs what it needs (scripts/setup).

CARGO ?= cargo
SEEDS ?= 20000
MINUTES ?= 30

.PHONY: help demo test check build bench record fuzz simulate hunt conformance docs

help:
	@echo 'make demo      build, start a throwaway PostgreSQL, and show what pooling does'
	@echo 'make test      everything that has to pass: lints, unit tests, simulation, fuzzing, real servers and drivers'
	@echo 'make check     formatting, lints, unit tests: seconds, once built'
	@echo 'make bench     pgweir, PgBouncer, a blind relay and direct, in one table (about 20 minutes)'
	@echo 'make record    record the wire transcripts from PostgreSQL 15 and 18 anew'
	@echo 'make fuzz      all fuzz targets, a minute each'
	@echo 'make simulate  the simulation with SEEDS=20000 new seeds'
	@echo 'make hunt      new seeds, fuzzing and random sessions beside hostile clients, for MINUTES=30'
	@echo 'make conformance  the regression and isolation suites of PostgreSQL through pgweir (about ten minutes)'
	@echo 'make docs      generated documentation: settings, errors, man page'

demo:
	scripts/setup
	$(CARGO) build --release -p pgweir
	scripts/demo

test:
	scripts/test

check:
	$(CARGO) fmt --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) test --workspace --quiet

build:
	$(CARGO) build --release -p pgweir

bench:
	scripts/setup --bench
	$(CARGO) build --release -p pgweir
	bench/run

record:
	scripts/setup
	tests/record.py record

fuzz:
	scripts/setup
	scripts/fuzz --seconds 60

simulate:
	$(CARGO) build --release -p pgweir-sim
	target/release/simulate --again
	target/release/simulate --new --seeds $(SEEDS)

hunt:
	scripts/setup --drivers
	scripts/hunt $(MINUTES)

conformance:
	scripts/setup
	$(CARGO) build --release -p pgweir
	tests/conformance/all

docs:
	$(CARGO) run -q -p pgweir-config --example settings_doc > docs/settings.md
	$(CARGO) run -q -p pgweir-core --example errors_doc > docs/errors.md
	$(CARGO) run -q -p pgweir -- man 1 > docs/man/pgweir.1
	$(CARGO) run -q -p pgweir -- man 5 > docs/man/pgweir.ini.5
