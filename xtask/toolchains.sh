#!/bin/sh
# Installs further Rust components for `make test-all`: the standard library for aarch64, and a nightly toolchain with miri and
# the sources of the standard library.
#
# Does not use the network if they are installed. The exit status is always 0: groups report missing components when they run.
set -u

command -v rustup >/dev/null 2>&1 || exit 0

target=aarch64-unknown-linux-gnu
rustup target list --installed 2>/dev/null | grep -q "^$target" || timeout 300 rustup target add "$target" >&2 ||
    echo "make: cannot get $target; what is compiled for it will be skipped" >&2

has() {
    rustup component list --installed --toolchain nightly 2>/dev/null | grep -q "^$1"
}

has miri && has rust-src && exit 0
echo 'make: getting a nightly toolchain with miri and rust-src' >&2
if rustup toolchain list | grep -q '^nightly'; then
    timeout 300 rustup component add miri rust-src --toolchain nightly >&2
else
    timeout 300 rustup toolchain install nightly --profile minimal --component miri,rust-src >&2
fi || echo 'make: cannot get it; miri and the thread sanitizer will be skipped' >&2
exit 0
