#!/bin/sh
# Compares the ABI of the public headers with reprise.abi: functions, their types, the layout of every public struct. The
# headers are compiled with an empty definition of each function (headers.py), with debug information for abidw. That takes
# a second, and says the same as the library: its compiler checks its functions against the headers, and exports.py their
# names. The layout is that of x86-64; other 64-bit machines have the same.
#
#   check.sh [--write]      --write: renew reprise.abi
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
command -v abidw >/dev/null || { echo "skipped: abidw is missing (Debian package abigail-tools)"; exit 77; }
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
mkdir -p "$temp/include/reprise"
cp "$root"/include/reprise/*.h "$temp/include/reprise"
sed 's/@[A-Za-z_]*@//' "$root/cmake/version.h.in" >"$temp/include/reprise/version.h"
cd "$temp"
echo 'typedef struct _IO_FILE FILE;' >include/stdio.h # its layout is that of the C library
python3 "$here/headers.py" stubs include/reprise/*.h >stubs.c
"${CC:-cc}" -std=c17 -g -O0 -gno-column-info -fPIC -shared -fvisibility=hidden -Iinclude stubs.c -o libreprise.so \
    -Wl,-soname,libreprise.so.0 -Wl,--version-script="$root/cmake/exports.map"
abidw --headers-dir include/reprise --drop-private-types --drop-undefined-syms --no-architecture --no-corpus-path \
    --no-comp-dir-path --no-show-locs --no-elf-needed --no-parameter-names --type-id-style hash \
    --out-file new.abi libreprise.so
if [ "${1-}" = --write ]; then
    cp new.abi "$here/reprise.abi"
elif abidiff --no-architecture "$here/reprise.abi" new.abi; then
    echo "the ABI is that of tests/abi/reprise.abi"
else
    echo "The ABI has changed. If docs/api.md allows the change: tests/abi/check.sh --write, and commit the file."
    exit 1
fi
