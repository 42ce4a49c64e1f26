#!/bin/sh
# Installs the system packages that a target needs, or lists them.
#
#   packages.sh [--optional] PROGRAM=PACKAGE … =PACKAGE …
#
# PROGRAM=PACKAGE is missing if the program is not on the search path, =PACKAGE if it is not installed. apt is not used if nothing
# is missing. With --optional the exit status is always 0.
set -u

optional=no
if [ "${1-}" = --optional ]; then
    optional=yes
    shift
fi

has_package() {
    command -v dpkg-query >/dev/null 2>&1 &&
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

lacking=
for pair in "$@"; do
    program=${pair%%=*} package=${pair#*=}
    if [ -n "$program" ]; then
        PATH="$PATH:/usr/sbin:/sbin" command -v "$program" >/dev/null 2>&1 || lacking="$lacking $package"
    else
        has_package "$package" || lacking="$lacking $package"
    fi
done
[ -n "$lacking" ] || exit 0

# Ends with the given status, or with 0 for optional packages.
finish() {
    [ "$optional" = yes ] && exit 0
    exit "$1"
}

if ! command -v apt-get >/dev/null 2>&1; then
    echo "make: these packages (by their Debian names) are missing:$lacking" >&2
    echo "hint: install them with the package manager of this system" >&2
    finish 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "make: these packages are missing:$lacking" >&2
    echo "hint: as root: apt-get update && apt-get install$lacking" >&2
    finish 1
fi

echo "make: installing$lacking" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq >&2 || echo "make: the package lists could not be renewed; trying with the old ones" >&2
# shellcheck disable=SC2086 # names of packages, one word each
if ! apt-get install -y -qq --no-install-recommends $lacking >&2; then
    echo "make: cannot install$lacking" >&2
    finish 1
fi
exit 0
