# Each target installs the missing system packages (or lists them), then calls cargo.
#
#   make demo      two programs that share this machine: mixed, in pools, and in pools that grow; a minute, then everything
#                  is restored
#   make test      the tests to run before a commit: values, simulator, pools, commands, documents, and one guest with the
#                  laws; ends with the executed and skipped tests, with reasons
#   make test-kernels, test-rt, test-cluster, test-pages
#                  guests with several kernels; the libraries in rt/ with each C compiler; the controller and a real
#                  container runtime; the dashboard in a browser, packages, and fits of the experiments
#   make test-all  all of these with more kernels and more random cases, and the slow matrix: loom, fuzz, sanitizers,
#                  valgrind, miri; in slices of two hours, with a ledger; ARGS='--only fuzz,miri' selects groups
#   make check     formatting, lints, and the dependency and style checks of tests/layering
#   make docs      docs/ as a book in target/book, with mdBook
#   make reference generate the pages of docs/reference/commands from the program's command descriptions
#   make pictures  record docs/pictures: sessions of `make demo` and `millpond quiet` on this machine
#   make bench     measure each promise about speed, compared with a peer in the same run
#   make packages  packages for Debian and rpm, and an archive, of the files of `make install`, in target/packages, with
#                  SHA256SUMS; each program and library contains its bill of materials (cargo-auditable)
#   make release-notes
#                  the section of CHANGELOG.md for this version, as Markdown; ARGS=VERSION selects another one
#   make install   PREFIX/bin/millpond and its command names, units for systemd, the libraries for C programs, in PREFIX/lib
#                  the malloc for LD_PRELOAD, in PREFIX/lib/debug the debug information of the program; DESTDIR is supported;
#                  LINKS=no omits the names, LINKS=own those of other Debian packages (mpstat, cpustat, prctl)

PREFIX  ?= /usr/local
DESTDIR ?=
LINKS   ?= yes
ARGS    ?=
CARGO   ?= cargo
# `auditable` embeds the list of crates into programs.
AUDITABLE =

# Do not pass these variables to makefiles of dependencies: crates build C libraries with `make`, and would install them into our
# DESTDIR.
MAKEOVERRIDES =
unexport PREFIX DESTDIR LINKS ARGS CARGO

PACKAGES = sh xtask/packages.sh

# Cargo's target directory.
TARGET   = $(shell $(CARGO) metadata --no-deps --format-version 1 2>/dev/null | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
RELEASE  = $(CARGO) $(AUDITABLE) rustc --profile program --package millpond --bin millpond -- $(shell sh xtask/link_flags.sh)

.PHONY: all build demo test test-kernels test-rt test-cluster test-pages test-all check docs packages image controller-image image-of-program pictures bench install reference release-notes tools

all: build

build: tools
	$(RELEASE)
	$(CARGO) $(AUDITABLE) build --release --package millpond-member-c
	$(CARGO) $(AUDITABLE) build --release --manifest-path rt/Cargo.toml --package millpond-rt --package millpond-rt-malloc

# Without features that the demo does not use: systemd, BPF, `top`, `export`, and the services of the dashboard and of nodes.
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

# Recorded on this machine, as root. The machine should be idle.
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

# Images of one program each, for a container runtime: docs/guides/kubernetes.md. The program is linked statically if possible.
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

# A C compiler for linking, a compiler for BPF programs and the libraries of their loader, and cargo, whose version in Debian is too old.
.PHONY: tools vm-tools test-tools rt-tools page-tools matrix-tools package-tools
tools:
	@$(PACKAGES) cc=build-essential pkg-config=pkg-config clang-19=clang-19 =libelf-dev =zlib1g-dev
	@command -v $(CARGO) >/dev/null || { \
	    echo 'make: there is no cargo here' >&2; \
	    echo 'hint: install Rust 1.90 or later, see rustup.rs' >&2; exit 1; }

# Programs that boot real kernels. Without them the tests that need them are skipped, with the reason.
vm-tools:
	@$(PACKAGES) --optional qemu-system-x86_64=qemu-system-x86 =busybox-static

# Programs that check files that we write, and programs that tests observe. Without them these tests are skipped, with the reason.
test-tools:
	@$(PACKAGES) --optional xmllint=libxml2-utils zsh=zsh fish=fish mandoc=mandoc groff=groff cyclictest=rt-tests git=git python3=python3 sqlite3=sqlite3 tmux=tmux promtool=prometheus setpriv=util-linux curl=curl javac=default-jdk-headless

# A second C compiler, and programs that run with our malloc.
rt-tools:
	@$(PACKAGES) --optional clang=clang groff=groff git=git python3=python3 sqlite3=sqlite3 javac=default-jdk-headless

# A browser, and the tools of the rpm format.
page-tools:
	@$(PACKAGES) --optional chromium=chromium rpmbuild=rpm rpm2cpio=rpm2cpio cpio=cpio

# The tools of each package format, from the distribution.
package-tools:
	@$(PACKAGES) objcopy=binutils dpkg-deb=dpkg dpkg-shlibdeps=dpkg-dev rpmbuild=rpm
	@command -v cargo-auditable >/dev/null || { \
	    echo 'make: there is no cargo-auditable here' >&2; \
	    echo 'hint: cargo install cargo-auditable@0.7.7 --locked' >&2; exit 1; }

# Tools of the slow matrix. Groups without their tools are skipped, with the reason.
matrix-tools:
	@$(PACKAGES) --optional valgrind=valgrind c++=g++
	@case '$(ARGS)' in *kubernetes*) $(PACKAGES) --optional etcd=etcd-server kubectl=kubernetes-client openssl=openssl go=golang ;; esac
	@$(PACKAGES) --optional qemu-system-aarch64=qemu-system-arm aarch64-linux-gnu-gcc=gcc-aarch64-linux-gnu =libc6-dev-arm64-cross
	@sh xtask/toolchains.sh
