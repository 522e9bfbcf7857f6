#!/bin/sh
# Compares the results of each op compiled for the host with those of its PTX, bit by bit: the logs that the tests
# cudasim_<op> and ptx_<op> have written (sim/device/sim_bits.cpp).
#   bits.sh BITS_DIR DOC OPS            fails if the table in DOC (docs/gpu-model.md) is another; OPS: their names between commas
#   bits.sh BITS_DIR DOC OPS --write    writes it
#
# Exit status 77: not all ops have run in both forms.
set -eu
bits=$1 doc=$2 ops=$(echo "$3" | tr , '\n' | sort) write=${4:-}
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT

different() { # host's log, log of PTX: "kernels|instructions" of the copies that differ; "lengths" if they cannot be compared
    awk 'NR == FNR { host[FNR] = $1; n = FNR; next }
        $1 != host[FNR] {
            for (i = 2; i <= NF; i++) {
                split($i, part, "|")
                kernel[part[1]]
                m = split(part[2], names, ",")
                for (k = 1; k <= m; k++) if (names[k] != "none") instruction[names[k]]
            }
            any = 1
        }
        function list(of, s, k, sorted, count) {
            count = 0
            for (k in of) sorted[++count] = k
            for (i = 2; i <= count; i++)
                for (k = i; k > 1 && sorted[k] < sorted[k - 1]; k--) { s = sorted[k]; sorted[k] = sorted[k - 1]; sorted[k - 1] = s }
            s = ""
            for (k = 1; k <= count; k++) s = s (k > 1 ? ", " : "") "`" sorted[k] "`"
            return s
        }
        END {
            if (FNR != n) print "lengths"
            else if (any) print list(kernel) " | " list(instruction)
        }' "$1" "$2"
}

equal= rows=$temp/rows
: >"$rows"
for op in $ops; do
    for run in host ptx; do
        [ -f "$bits/$run/$op" ] || { echo "$op has not run ($run)"; exit 77; }
    done
    found=$(different "$bits/host/$op" "$bits/ptx/$op")
    case $found in
    lengths) echo "$op: the suites of host and PTX have copied different numbers of results"; exit 77 ;;
    "") equal="$equal${equal:+, }$op" ;;
    *) echo "| $op | $found |" >>"$rows" ;;
    esac
done
{
    echo "| Op | Kernels with other bits | Their instructions that the host may round otherwise |"
    echo "|---|---|---|"
    cat "$rows"
    echo
    echo "Equal bits in all tests: $equal." | fold -s -w 120 | sed 's/ *$//'
} >"$temp/table"

begin='<!-- bits: written by tests/sim/ptx/bits.sh -->' end='<!-- end of bits -->'
awk -v begin="$begin" -v end="$end" -v table="$temp/table" '
    $0 == end { inside = 0 }
    !inside { print }
    $0 == begin { inside = 1; while ((getline line < table) > 0) print line }' "$doc" >"$temp/doc"
if [ "$write" = --write ]; then
    cmp -s "$temp/doc" "$doc" || cp "$temp/doc" "$doc"
elif ! diff "$doc" "$temp/doc"; then
    echo "$doc: the table is another; "tests/sim/ptx/bits.sh BITS_DIR DOC OPS --write" writes it"
    exit 1
fi
