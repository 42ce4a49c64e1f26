#!/bin/sh
# Flags of the compiler for the program, on standard output.
#
# Where the C library can be linked in, it is: a command starts in half the time when it has nothing to look for. The program then has its place in
# memory, as those of Go have: a place that is chosen at each start means that 83 pages are copied and 40,000 addresses are put right before the first
# instruction, a fifth of what a command takes. The stack, the heap and what is mapped are elsewhere each time.
set -u

case $(cc -print-file-name=libc.a 2>/dev/null) in
/*) ;;
*) exit 0 ;;
esac
printf '%s' '-C target-feature=+crt-static -C relocation-model=static'
