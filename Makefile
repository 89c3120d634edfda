# What each target does is in README.md and CONTRIBUTING.md. Every target installs what it needs (scripts/setup).

CARGO ?= cargo
SEEDS ?= 20000
# Of `make hunt`, and of `make soak`.
MINUTES ?=
PROGRAM ?= target/release/pgweir
PREFIX ?= /usr/local
DESTDIR ?=
INSTALL ?= install

.PHONY: help demo test check build install uninstall bench bench-flights bench-sizing bench-settling bench-fairness bench-tls record fuzz simulate hunt soak conformance docs

help:
	@echo 'make demo      build, start a throwaway PostgreSQL, and show what pooling does'
	@echo 'make test      everything that has to pass: lints, unit tests, simulation, fuzzing, real servers and drivers'
	@echo 'make check     formatting, lints, unit tests: seconds, once built'
	@echo 'make build     a release: target/release/pgweir, and its debug lines beside it in pgweir.debug'
	@echo 'make install   program, manual pages, systemd unit and examples into PREFIX=/usr/local, below DESTDIR'
	@echo 'make bench     pgweir, PgBouncer, a blind relay and direct, in one table (about 20 minutes)'
	@echo 'make bench-flights  flights and PgBouncer, each with its best pool size (a quarter of an hour)'
	@echo 'make bench-sizing  pools of fixed sizes beside default_pool_size = auto (about an hour)'
	@echo 'make bench-settling  how long default_pool_size = auto needs to find its size (a quarter of an hour)'
	@echo 'make bench-fairness  how long one client waits beside 1,000, and how weights share servers (some minutes)'
	@echo 'make bench-tls  what TLS costs on each side, beside PgBouncer (about ten minutes)'
	@echo 'make record    record the wire transcripts from PostgreSQL 15 and 18 anew'
	@echo 'make fuzz      all fuzz targets, a minute each'
	@echo 'make simulate  the simulation with SEEDS=20000 new seeds'
	@echo 'make hunt      new seeds, fuzzing and random sessions beside hostile clients, for MINUTES=30'
	@echo 'make soak      random clients beside an operator who reloads, pauses, kills, restarts, takes over; MINUTES=10'
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
	scripts/split-symbols $(PROGRAM)

target/release/pgweir:
	$(MAKE) build

# Builds only where there is no program yet, so that root needs no Rust toolchain.
install: $(PROGRAM)
	$(INSTALL) -d $(DESTDIR)$(PREFIX)/bin/.debug $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/man/man5
	$(INSTALL) -d $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(PREFIX)/share/doc/pgweir/examples
	$(INSTALL) -m 755 $(PROGRAM) $(DESTDIR)$(PREFIX)/bin/pgweir
	scripts/split-symbols $(DESTDIR)$(PREFIX)/bin/pgweir
	if [ -f $(DESTDIR)$(PREFIX)/bin/pgweir.debug ]; then \
	    mv -f $(DESTDIR)$(PREFIX)/bin/pgweir.debug $(DESTDIR)$(PREFIX)/bin/.debug/pgweir.debug; \
	elif [ -f $(PROGRAM).debug ]; then \
	    $(INSTALL) -m 644 $(PROGRAM).debug $(DESTDIR)$(PREFIX)/bin/.debug/pgweir.debug; \
	fi
	$(INSTALL) -m 644 docs/man/pgweir.1 $(DESTDIR)$(PREFIX)/share/man/man1/pgweir.1
	$(INSTALL) -m 644 docs/man/pgweir.ini.5 $(DESTDIR)$(PREFIX)/share/man/man5/pgweir.ini.5
	sed 's|/usr/local/bin/|$(PREFIX)/bin/|' examples/pgweir.service >$(DESTDIR)$(PREFIX)/lib/systemd/system/pgweir.service
	chmod 644 $(DESTDIR)$(PREFIX)/lib/systemd/system/pgweir.service
	$(INSTALL) -m 644 LICENSE-APACHE LICENSE-MIT CHANGELOG.md $(DESTDIR)$(PREFIX)/share/doc/pgweir
	$(INSTALL) -m 644 examples/pgweir.ini examples/userlist.txt examples/hba.conf $(DESTDIR)$(PREFIX)/share/doc/pgweir/examples

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/pgweir $(DESTDIR)$(PREFIX)/bin/.debug/pgweir.debug
	rm -f $(DESTDIR)$(PREFIX)/share/man/man1/pgweir.1 $(DESTDIR)$(PREFIX)/share/man/man5/pgweir.ini.5
	rm -f $(DESTDIR)$(PREFIX)/lib/systemd/system/pgweir.service
	rm -rf $(DESTDIR)$(PREFIX)/share/doc/pgweir

bench:
	scripts/setup --bench
	$(CARGO) build --release -p pgweir
	bench/run

bench-flights:
	scripts/setup --bench
	$(CARGO) build --release -p pgweir
	bench/flights

bench-sizing:
	scripts/setup --bench
	$(CARGO) build --release -p pgweir
	bench/sizing

bench-settling:
	scripts/setup --bench
	$(CARGO) build --release -p pgweir
	bench/settling

bench-fairness:
	scripts/setup --bench
	$(CARGO) build --release -p pgweir
	bench/fairness

bench-tls:
	scripts/setup --bench
	$(CARGO) build --release -p pgweir
	bench/tls

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
	scripts/hunt $(or $(MINUTES),30)

soak:
	scripts/setup --drivers
	$(CARGO) build --release -p pgweir
	tests/e2e/run -q -k soak
	tests/soak $(or $(MINUTES),10) $(SEED)

conformance:
	scripts/setup
	$(CARGO) build --release -p pgweir
	tests/conformance/all

docs:
	$(CARGO) run -q -p pgweir-config --example settings_doc > docs/settings.md
	$(CARGO) run -q -p pgweir-config --example settings_doc -- --migrating | scripts/put-table docs/migrating-from-pgbouncer.md settings
	$(CARGO) run -q -p pgweir-core --example errors_doc > docs/errors.md
	$(CARGO) run -q -p pgweir -- man 1 > docs/man/pgweir.1
	$(CARGO) run -q -p pgweir -- man 5 > docs/man/pgweir.ini.5
