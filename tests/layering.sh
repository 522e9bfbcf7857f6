#!/bin/sh
# Fails if a directory includes a header of a layer that it may not use, if a source of an op is used by its number, if a
# .cu file defines anything but launchers outside of an anonymous namespace, if an op lacks a file, or if a folder with
# sources has more than 35 files.
#   layering.sh SOURCE_DIR
cd "$1" || exit 1
fail=0
check() { # directory, regex of the quoted includes that are allowed
    bad=$(grep -rnE '#include "' --include=*.c --include=*.h --include=*.cu --include=*.cuh --include=*.cpp "$1" | grep -vE "#include \"($2)\"")
    [ -z "$bad" ] || { echo "$1 may not include:"; echo "$bad"; fail=1; }
}
public='reprise/[a-z_]+\.h'
base="$public|base/([a-z]+/)?[a-z_0-9]+\.h"
simd="$base|fallback/simd/[a-z_0-9]+\.h"
quants="$simd|fallback/quants/([a-z]+/)?[a-z_0-9]+\.h"
products="$quants|fallback/products/[a-z_0-9]+\.h"
ops="ops/([a-z]+/)?[a-z_0-9]+\.h"
check include "$public|ops/private\.h"
check base "$base"
check ops "$base|$ops"
check graph "$base|$ops|graph/[a-z_0-9]+\.h"
check fallback/simd "$simd"
check fallback/quants "$quants"
check fallback/products "$products"
check fallback "$products|$ops|fallback/([a-z]+/)?[a-z_0-9]+\.h"
check kernels/device "$base|$ops|kernels/device/([a-z]+/)?[a-z_0-9]+\.cuh"
check kernels "$base|$ops|kernels/([a-z_0-9]+/)*[a-z_0-9]+\.(h|cuh)"
check executor "$base|executor/(cuda/)?[a-z_0-9]+\.h|graph/plan\.h"
check nn "$base|executor/pool\.h|nn/([a-z_]+/)?[a-z_]+\.h"
check template "$base|template/[a-z_]+\.h"
check grammar "$base|grammar/(schema/)?[a-z_]+\.h"
check model/gguf "$base|model/gguf/[a-z_0-9]+\.h"
check model/hf "$base|model/(gguf|hf|hf/tokenizer)/[a-z_0-9]+\.h"
check model/tokenizer "$base|model/tokenizer/[a-z_0-9]+\.h"
check model "$base|template/template\.h|model/([a-z_0-9]+/){0,2}[a-z_0-9]+\.h"
check train "$base|model/([a-z_0-9]+/)?[a-z_0-9]+\.h|train/[a-z_0-9]+\.h"
check manifest "$public|manifest/[a-z_]+\.h"
check server/api "$public|server/api/[a-z_]+\.h"
check server "$public|manifest/manifest\.h|server/([a-z]+/)?[a-z_]+\.h"
check cli/terminal "$public|cli/terminal/[a-z_0-9]+\.h"
check cli "$public|server/server\.h|manifest/manifest\.h|cli/([a-z_0-9]+/)?[a-z_0-9]+\.h"
check examples "$public"
sim="$base|sim/device/[a-z_0-9]+\.h"
check sim/device "sim/device/[a-z_0-9]+\.h"
check sim/ptx "$sim|sim/ptx/[a-z_0-9]+\.h"
check sim/counts "$sim|sim/(ptx|counts)/[a-z_0-9]+\.h|(cli|executor|model|graph)/([a-z_0-9]+/)?[a-z_0-9]+\.h"

bare=$(grep -rnE 'src\[[0-9]+' --include=*.c --include=*.h --include=*.cu --include=*.cuh base ops graph fallback kernels executor model train include)
[ -z "$bare" ] || { echo "sources by number, where ops.h has a name:"; echo "$bare"; fail=1; }

# RpOpArgs.src and the names of sources share memory: an initialiser by a name leaves the sources behind it undefined.
named=$(grep -rnE '\.[a-z_]+ *= \{(rp_nn_view|tensor|view|result|sequences|query_view)\(' --include=*.c --include=*.h nn executor tests | grep -vE '\.(src|dst) *=')
[ -z "$named" ] || { echo "sources are initialised by .src:"; echo "$named"; fail=1; }

# Kernel templates of two files would be one symbol if their names and the names of their types were the same.
for f in kernels/*.cu kernels/*/*.cu; do
    bad=$(awk -v f="$f" '/^namespace \{/ {inside = 1} /^\} \/\/ namespace/ {inside = 0}
        !inside && /^(struct|class|union|enum|typedef|using|template|static |__device__|__global__)/ {print f ":" NR ": " $0}' "$f")
    [ -z "$bad" ] || { echo "only launchers may be outside of an anonymous namespace:"; echo "$bad"; fail=1; }
done

# One header of the public ones knows the private rows, and only where the library is compiled.
[ "$(grep -rl 'ops/private' include)" = include/reprise/ops.h ] || { echo "only reprise/ops.h may include ops/private.h"; fail=1; }

# A type of weights: its block and loads are in one file for the CPU and one for CUDA (docs/add-a-type.md).
types=$(sed -n 's/^    X(\([A-Z0-9_]*\), *\([a-z0-9_]*\),.*/\1 \2/p' base/dtypes.h)
[ "$(echo "$types" | wc -l)" -ge 22 ] || { echo "too few types found: has the form of the lists changed?"; fail=1; }
one_file() { # type, regex, folder
    found=$(grep -rlE "$2" fallback kernels)
    [ "$(dirname "$found")" = "$3" ] || { echo "type $1 has to be in one file of $3, not in:"; echo "$found"; fail=1; }
}
while read -r id name; do
    one_file "$id" "^} Block$id;" fallback/quants/types
    one_file "$id" "struct Blocks<RP_$id>" kernels/device/quants
    loads=$(grep -rnE "\b(load|scales|header|begin|step|quad|quarter|expand|sub_scales)_$name(_avx2|_neon)?\(|\b${name}_block\(" \
        fallback/products fallback/quants/*.[ch])
    [ -z "$loads" ] || { echo "loads of $id outside of fallback/quants/types:"; echo "$loads"; fail=1; }
done <<EOF
$types
EOF

# The rows: OP(number, ID, name, ...) with a kernel, OP_VIEW(...) without one.
rows=$(sed -n 's/^    \(OP\|OP_VIEW\)([0-9-]*, *[A-Z_0-9]*, *\([a-z_0-9]*\),.*/\1 \2/p' include/reprise/ops.h ops/private.h)
[ "$(echo "$rows" | wc -l)" -ge 57 ] || { echo "too few rows found: has the form of the lists changed?"; fail=1; }
need() { # op file...
    op=$1
    shift
    for f in "$@"; do
        [ -f "$f" ] || { echo "op $op has no $f"; fail=1; }
    done
}
while read -r kind op; do
    [ "$kind" = OP ] || { need "$op" "ops/views/$op.c"; continue; }
    if [ -f "ops/training/$op.c" ]; then
        need "$op" "fallback/training/$op.c" "kernels/training/$op.cu" "tests/ops/training/test_$op.c"
    elif [ -f "ops/recurrent/$op.c" ]; then
        need "$op" "fallback/recurrent/$op.c" "kernels/recurrent/$op.cu" "tests/ops/recurrent/test_$op.c"
    elif [ -f "ops/fused/$op.c" ]; then
        need "$op" "fallback/fused/$op.c" "kernels/fused/$op.cu" "tests/ops/fused/test_$op.c"
    elif [ -f "ops/activations/$op.c" ]; then
        need "$op" "fallback/activations/$op.c" "kernels/$op.cu" "tests/ops/test_$op.c"
    elif [ -f "ops/attention/$op.c" ]; then
        need "$op" "fallback/$op.c" "kernels/$op.cu" "tests/ops/test_$op.c"
    elif [ -f "fallback/$op/$op.c" ]; then # an op with a room of its own
        need "$op" "ops/$op.c" "kernels/$op/$op.cu" "tests/ops/test_$op.c"
    else
        need "$op" "ops/$op.c" "fallback/$op.c" "kernels/$op.cu" "tests/ops/test_$op.c"
    fi
done <<END
$rows
END

# Folders with sources, in any language. Golden files and pictures may be more.
folders=$(find . \( -path './.*' -o -path ./build -o -path ./models -o -name target -o -name __pycache__ \) -prune -o -type f \
    \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.py' -o -name '*.sh' -o -name '*.js' -o -name '*.go' \
    -o -name '*.rs' -o -name '*.cmake' \) -print | sed 's|^\./||; s|/*[^/]*$||' | sort -u)
[ "$(echo "$folders" | wc -l)" -ge 100 ] || { echo "too few folders with sources found: $folders"; fail=1; }
for folder in $folders; do
    n=$(find "$folder" -maxdepth 1 -type f | wc -l)
    [ "$n" -le 35 ] || { echo "$folder has $n files, must have at most 35"; fail=1; }
done
exit $fail
