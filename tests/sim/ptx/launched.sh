#!/bin/sh
# Fails if an entry in the PTX of the kernels was launched by no suite, also one instance of a template; names it.
#   launched.sh PTX_FOLDER ARCHITECTURE       compares ARCHITECTURE/*.ptx with the lines of launched/ARCHITECTURE/*
#
# Exit status 77: no suite has run. A suite whose log is missing or that failed early launches too few.
set -eu
cd "$1"
set -- "$2" "launched/$2"
ls "$2"/* >/dev/null 2>&1 || { echo "no suite has run from PTX"; exit 77; }
sort -u "$2"/* >"launched/$1.all"
missing=$(sed -n 's/^.*\.entry \([A-Za-z_0-9$]*\).*/\1/p' "$1"/*.ptx | sort -u | comm -23 - "launched/$1.all")
# Before sm_80 copies are synchronous: the kernel of test_mma.c that does not wait for them makes no error and is not run.
[ "$1" -ge 80 ] || missing=$(echo "$missing" | grep -v 'mma_test_kernelINS_3F16ELi3E' || true)
entries=$(cat "$1"/*.ptx | grep -c "\.entry ")
[ -z "$missing" ] || {
    echo "$(echo "$missing" | wc -l) of $entries entries were launched by no suite:"
    echo "$missing" | { c++filt 2>/dev/null || cat; } | sed 's/(anonymous namespace):://g; s/^/  /'
    exit 1
}
echo "all $entries entries were launched"
