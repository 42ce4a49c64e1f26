#!/bin/sh
# Flags of the compiler for the program, on standard output.
#
# Where the C library can be linked in, it is: a command starts in half the time when it has nothing to look for. Then relocations are packed, too,
# where the linker can and the startup code that it links in understands them (glibc 2.36): a quarter of a megabyte less. A program shows that.
set -u

case $(cc -print-file-name=libc.a 2>/dev/null) in
/*) ;;
*) exit 0 ;;
esac
printf '%s' '-C target-feature=+crt-static'

dir=$(mktemp -d) || exit 0
trap 'rm -rf "$dir"' EXIT
packed=-Wl,-z,pack-relative-relocs
echo 'int one = 1; int *where = &one; int main(void) { return *where - 1; }' >"$dir/t.c"
cc -static-pie $packed "$dir/t.c" -o "$dir/t" 2>/dev/null && "$dir/t" 2>/dev/null && printf '%s' " -C link-arg=$packed"
