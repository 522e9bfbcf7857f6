#!/bin/sh
# Fails if a directory includes a header of a layer that it may not use, if a source of an op is used by its number, if a
# .cu file defines anything but launchers outside of an anonymous namespace, or if an op lacks a kernel file or a test.
#   layering.sh SOURCE_DIR
cd "$1" || exit 1
fail=0
check() { # directory, regex of the quoted includes that are allowed
    bad=$(grep -rnE '#include "' --include=*.c --include=*.h --include=*.cu --include=*.cuh "$1" | grep -vE "#include \"($2)\"")
    [ -z "$bad" ] || { echo "$1 may not include:"; echo "$bad"; fail=1; }
}
public='reprise/[a-z_]+\.h'
base="$public|base/[a-z_0-9]+\.h"
simd="$base|fallback/simd/[a-z_0-9]+\.h"
quants="$simd|fallback/quants/[a-z_0-9]+\.h"
products="$quants|fallback/products/[a-z_0-9]+\.h"
check include "$public"
check base "$base"
check graph "$base|graph/[a-z_0-9]+\.h"
check fallback/simd "$simd"
check fallback/quants "$quants"
check fallback/products "$products"
check fallback "$products|fallback/[a-z_0-9]+\.h"
check kernels/device "$base|kernels/device/[a-z_0-9]+\.cuh"
check kernels "$base|kernels/([a-z_0-9]+/)?[a-z_0-9]+\.(h|cuh)"
check executor "$base|executor/(cuda/)?[a-z_0-9]+\.h|graph/plan\.h"
check nn "$base|executor/pool\.h|nn/([a-z_]+/)?[a-z_]+\.h"
check model/gguf "$base|model/gguf/[a-z_0-9]+\.h"
check model/tokenizer "$base|model/tokenizer/[a-z_0-9]+\.h"
check model "$base|model/([a-z_0-9]+/)?[a-z_0-9]+\.h"
check train "$base|model/([a-z_0-9]+/)?[a-z_0-9]+\.h|train/[a-z_0-9]+\.h"
check cli/terminal "$public|cli/terminal/[a-z_0-9]+\.h"
check cli "$public|cli/([a-z_0-9]+/)?[a-z_0-9]+\.h"
check examples "$public"

bare=$(grep -rnE 'src\[[0-9]+' --include=*.c --include=*.h --include=*.cu --include=*.cuh base graph fallback kernels executor model train include)
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

ops=$(sed -n '/define RP_TRAINING_OPS/,/^$/p;/define RP_KERNEL_OPS/,/define RP_VIEW_OPS/p' include/reprise/ops.h include/reprise/ops_training.h |
    sed -n 's/^ *OP([A-Z_0-9]*, *\([a-z_0-9]*\),.*/\1/p')
[ "$(echo "$ops" | wc -l)" -ge 13 ] || { echo "too few ops found in ops.h: has the form of its table changed?"; fail=1; }
for op in $ops; do
    if [ -f "fallback/training/$op.c" ]; then
        files="kernels/training/$op.cu tests/training/test_$op.c"
    else
        files="fallback/$op.c kernels/$op.cu tests/ops/test_$op.c"
    fi
    for f in $files; do
        [ -f "$f" ] || { echo "op $op has no $f"; fail=1; }
    done
done
exit $fail
