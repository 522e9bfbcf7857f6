#!/bin/sh
# Fails if a directory includes a header of a layer that it may not use, or if an op lacks a kernel file or a test.
#   layering.sh SOURCE_DIR
cd "$1" || exit 1
fail=0
check() { # directory, regex of the quoted includes that are allowed
    bad=$(grep -rnE '#include "' --include=*.c --include=*.h --include=*.cu --include=*.cuh "$1" | grep -vE "#include \"($2)\"")
    [ -z "$bad" ] || { echo "$1 may not include:"; echo "$bad"; fail=1; }
}
check include 'reprise/[a-z]+\.h'
check graph 'reprise/[a-z]+\.h|graph/[a-z_0-9]+\.h'
check fallback 'reprise/(kernel|check|quants|philox|step|yarn)\.h|fallback/[a-z_0-9]+\.h'
check kernels 'reprise/(kernel|check|loop|step|yarn|blas)\.h|kernels/[a-z_0-9]+\.(h|cuh)'
check executor 'reprise/[a-z]+\.h|executor/(cuda/)?[a-z_0-9]+\.h|graph/plan\.h'
check model 'reprise/[a-z]+\.h|model/[a-z_0-9]+\.h'
check cli 'reprise/[a-z]+\.h|cli/[a-z_0-9]+\.h'
check examples 'reprise/[a-z]+\.h'

ops=$(sed -n '/define RP_KERNEL_OPS/,/define RP_VIEW_OPS/s/^ *OP([A-Z_0-9]*, *\([a-z_0-9]*\),.*/\1/p' include/reprise/ops.h)
[ "$(echo "$ops" | wc -l)" -ge 13 ] || { echo "too few ops found in ops.h: has the form of its table changed?"; fail=1; }
for op in $ops; do
    for f in "fallback/$op.c" "kernels/$op.cu" "tests/test_$op.c"; do
        [ -f "$f" ] || { echo "op $op has no $f"; fail=1; }
    done
done
exit $fail
