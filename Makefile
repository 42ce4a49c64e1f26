# Thin: each target installs the system packages that it lacks (or says which), then calls cargo.
#
#   make demo      two programs that share this machine: mixed, in pools, and pools that grow; a minute, then everything
#                  is put back
#   make test      what to run before a commit: values, simulator, pools, commands, documents, and one guest with the laws;
#                  ends with what ran, what was skipped and why
#   make test-kernels, test-rt, test-cluster, test-pages
#                  guests with several kernels; the libraries in rt/ with each C compiler; the controller and a real
#                  container runtime; the dashboard in a browser, packages, and fits of the experiments
#   make test-all  all of these with more kernels and more random cases, and the slow matrix: loom, fuzz, sanitizers,
#                  valgrind, miri; in slices of two hours, with a ledger; ARGS='--only fuzz,miri' chooses
#   make check     formatting, lints, and the map of the house
#   make docs      docs/ as a book in target/book, by mdBook
#   make reference pages of docs/reference/commands anew, from what the program says of its commands
#   make pictures  docs/pictures anew: sessions of `make demo` and `millpond quiet` on this machine
#   make bench     each promise about speed beside a peer measured in the same run
#   make packages  packages for Debian and rpm, and an archive, of what `make install` installs, in target/packages, with SHA256SUMS;
#                  each program and library has its bill of materials (cargo-auditable)
#   make release-notes
#                  the section of CHANGELOG.md about this version, as Markdown; ARGS=VERSION chooses another one
#   make install   PREFIX/bin/millpond and its names, units for systemd, the libraries for programs in C, and in PREFIX/lib
#                  the malloc for LD_PRELOAD, in PREFIX/lib/debug the debug information of the program; DESTDIR is honoured, LINKS=no leaves the names out,
#                  LINKS=own those that other packages of Debian have (mpstat, cpustat, prctl)

PREFIX  ?= /usr/local
DESTDIR ?=
LINKS   ?= yes
ARGS    ?=
CARGO   ?= cargo
# `auditable` where programs are to have the list of their crates inside.
AUDITABLE =

# What is said to this file is said to no other one: crates build libraries in C with `make`, and would install them into our DESTDIR.
MAKEOVERRIDES =
unexport PREFIX DESTDIR LINKS ARGS CARGO

PACKAGES = sh xtask/packages.sh

# Where cargo builds, as cargo says.
TARGET   = $(shell $(CARGO) metadata --no-deps --format-version 1 2>/dev/null | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
RELEASE  = $(CARGO) $(AUDITABLE) rustc --profile program --package millpond --bin millpond -- $(shell sh xtask/link_flags.sh)

.PHONY: all build demo test test-kernels test-rt test-cluster test-pages test-all check docs packages image controller-image image-of-program pictures bench install reference release-notes tools

all: build

build: tools
	$(RELEASE)
	$(CARGO) $(AUDITABLE) build --release --package millpond-member-c
	$(CARGO) $(AUDITABLE) build --release --manifest-path rt/Cargo.toml --package millpond-rt --package millpond-rt-malloc

# Without what the demo does not use: systemd, BPF, `top`, `export`, and the services of the dashboard and of nodes.
demo: tools
	@start=$$(date +%s); $(CARGO) build --quiet --profile demo --package millpond --no-default-features && \
	    echo "built in $$(($$(date +%s) - start)) s" >&2
	@$(TARGET)/demo/millpond demo $(ARGS)

test: tools vm-tools test-tools
	@$(CARGO) xtask test $(ARGS)

test-kernels: tools vm-tools
	@$(CARGO) xtask test --suite kernels $(ARGS)

test-rt: tools rt-tools
	@$(CARGO) xtask test --suite rt $(ARGS)

test-cluster: tools
	@$(CARGO) xtask test --suite cluster $(ARGS)

test-pages: tools page-tools
	@$(CARGO) xtask test --suite pages $(ARGS)

test-all: tools vm-tools test-tools rt-tools page-tools matrix-tools
	@$(CARGO) xtask test --all $(ARGS)

check: tools
	$(CARGO) fmt --all --check
	$(CARGO) fmt --all --check --manifest-path rt/Cargo.toml
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy --manifest-path rt/Cargo.toml --workspace --all-targets -- -D warnings
	$(CARGO) clippy --package millpond --no-default-features -- -D warnings
	$(CARGO) test --quiet --package millpond-layering
	@if ! command -v cargo-deny >/dev/null; then \
	    echo 'make: dependencies are not checked (deny.toml): there is no cargo-deny here' >&2; \
	    echo 'hint: cargo install cargo-deny@0.20.2 --locked' >&2; \
	else \
	    { $(CARGO) fetch --locked --quiet || :; } && \
	    $(CARGO) deny --offline check licenses bans sources && \
	    { $(CARGO) fetch --locked --quiet --manifest-path rt/Cargo.toml || :; } && \
	    $(CARGO) deny --offline --manifest-path rt/Cargo.toml check --config '$(CURDIR)/deny.toml' licenses bans sources && \
	    if $(CARGO) deny fetch db 2>/dev/null; then $(CARGO) deny check advisories && \
	        $(CARGO) deny --manifest-path rt/Cargo.toml check --config '$(CURDIR)/deny.toml' advisories; \
	    else echo 'make: advisories are not checked: their list cannot be fetched' >&2; fi; \
	fi

docs:
	@command -v mdbook >/dev/null || { \
	    echo 'make: there is no mdbook here' >&2; \
	    echo 'hint: cargo install mdbook' >&2; exit 1; }
	mdbook build docs

reference:
	MILLPOND_WRITE_REFERENCE=1 $(CARGO) test --quiet --test all reference::
	MILLPOND_WRITE_REFERENCE=1 $(CARGO) test --quiet --test all schemas::

# Recorded on the machine at hand, as root, with nothing else running.
pictures: tools
	@$(RELEASE)
	@$(CARGO) xtask pictures $(ARGS)

bench: tools vm-tools
	@$(PACKAGES) --optional mpstat=sysstat cset=cpuset tuna=tuna cyclictest=rt-tests atop=atop htop=htop btop=btop
	@$(CARGO) build --release --package millpond-benches
	@$(RELEASE)
	@$(TARGET)/release/millpond-benches $(ARGS)

install: build
	@$(CARGO) xtask install --prefix '$(PREFIX)' --destdir '$(DESTDIR)' --links '$(LINKS)'

packages: AUDITABLE = auditable
packages: package-tools build
	@$(CARGO) xtask packages

# Images of one program each, for a container runtime: docs/guides/kubernetes.md. The program is static where the C library can be.
image: IMAGE = millpond
image: build image-of-program

controller-image: IMAGE = millpond-controller
controller-image: tools
	@$(CARGO) rustc --profile program --package millpond-controller --bin millpond-controller -- $(shell sh xtask/link_flags.sh)
	@$(MAKE) --no-print-directory image-of-program IMAGE=$(IMAGE)

image-of-program:
	@if ldd $(TARGET)/program/$(IMAGE) 2>/dev/null | grep -q '=>'; then \
	    echo 'make: the program needs libraries, and an image has none' >&2; \
	    echo 'hint: install libc6-dev with libc.a, and build it again' >&2; exit 1; fi
	@rm -rf $(TARGET)/image/$(IMAGE) && mkdir -p $(TARGET)/image/$(IMAGE)
	@strip -o $(TARGET)/image/$(IMAGE)/$(IMAGE) $(TARGET)/program/$(IMAGE)
	@sh deploy/image.sh $(TARGET)/image/$(IMAGE)/$(IMAGE) $(IMAGE):latest $(TARGET)/image/$(IMAGE)
	@echo $(TARGET)/image/$(IMAGE)/image.tar

release-notes:
	@$(CARGO) xtask notes $(ARGS)

# A compiler for the few crates that link, one for the programs that run in the kernel with what their loader needs, and cargo, which
# Debian has too old.
.PHONY: tools vm-tools test-tools rt-tools page-tools matrix-tools package-tools
tools:
	@$(PACKAGES) cc=build-essential pkg-config=pkg-config clang-19=clang-19 =libelf-dev =zlib1g-dev
	@command -v $(CARGO) >/dev/null || { \
	    echo 'make: there is no cargo here' >&2; \
	    echo 'hint: install Rust 1.90 or later, see rustup.rs' >&2; exit 1; }

# What boots real kernels. Without it the tests that need it are skipped, and say so.
vm-tools:
	@$(PACKAGES) --optional qemu-system-x86_64=qemu-system-x86 =busybox-static

# What checks the files that we write, and programs that tests observe. Without it those tests are skipped, with the reason.
test-tools:
	@$(PACKAGES) --optional xmllint=libxml2-utils zsh=zsh fish=fish mandoc=mandoc groff=groff cyclictest=rt-tests git=git python3=python3 sqlite3=sqlite3 tmux=tmux promtool=prometheus setpriv=util-linux curl=curl javac=default-jdk-headless

# A second C compiler, and programs that run with our malloc.
rt-tools:
	@$(PACKAGES) --optional clang=clang groff=groff git=git python3=python3 sqlite3=sqlite3 javac=default-jdk-headless

# A browser, and the tools of the rpm format.
page-tools:
	@$(PACKAGES) --optional chromium=chromium rpmbuild=rpm rpm2cpio=rpm2cpio cpio=cpio

# What makes packages: the tools of each format, as the distribution has them.
package-tools:
	@$(PACKAGES) objcopy=binutils dpkg-deb=dpkg dpkg-shlibdeps=dpkg-dev rpmbuild=rpm
	@command -v cargo-auditable >/dev/null || { \
	    echo 'make: there is no cargo-auditable here' >&2; \
	    echo 'hint: cargo install cargo-auditable@0.7.7 --locked' >&2; exit 1; }

# What the slow matrix uses. Groups that lack theirs are skipped, and say so.
matrix-tools:
	@$(PACKAGES) --optional valgrind=valgrind c++=g++
	@case '$(ARGS)' in *kubernetes*) $(PACKAGES) --optional etcd=etcd-server kubectl=kubernetes-client openssl=openssl go=golang ;; esac
	@$(PACKAGES) --optional qemu-system-aarch64=qemu-system-arm aarch64-linux-gnu-gcc=gcc-aarch64-linux-gnu =libc6-dev-arm64-cross
	@sh xtask/toolchains.sh
