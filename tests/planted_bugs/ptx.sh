#!/bin/sh
# Plants bugs in the PTX of the kernels: each must be caught by a suite that runs from the changed PTX.
#   ptx.sh BUILD_DIR [SUITE...]      SUITE: only the bugs of these suites
#
# A row changes the lines of one file that match a pattern: all of them, or the nth. With nothing changed the suite passes.
#
# Changes that no test can see are not planted: the first barrier of rp_rms_scale guards a buffer that its first caller has
# not used yet, and the compensated sum of a norm gives the same result whatever way its parts are rounded.
set -eu
export REPRISE_SPECIALIZE=off
bugs() { # suite | file | n, 0: every line | pattern of the line | perl expression on it | description
    cat <<'BUGS'
rms_norm|rms_norm|2|bar\.sync|s/bar.sync.*//|no barrier between the sums of the warps and their reader
rms_norm|rms_norm|3|bar\.sync|s/bar.sync.*//|no barrier between the factor and its readers
rms_norm|rms_norm|0|add\.f32|s/add.f32/sub.f32/|the low parts of a sum subtracted
rms_norm|rms_norm|0|mul\.f32|s/mul.f32/mul.rm.f32/|products rounded down
rms_norm|rms_norm|0|setp\.lt\.s32|s/setp.lt/setp.gt/|a reversed comparison
rms_norm|rms_norm|0|griddepcontrol\.wait|s/griddepcontrol.wait;//|a kernel that does not wait for earlier ones
rms_norm|rms_norm|1|shfl\.sync\.bfly|s/(bfly\S*\s+\S+ \S+) \S+,/$1 8,/|a butterfly with a wrong distance
soft_max|soft_max|1|shfl\.sync|s/, %r\d+;$/, 65535;/|a shuffle with a mask of half the warp
soft_max|soft_max|2|bar\.sync|s/bar.sync.*//|no barrier in a sum over a block
soft_max|soft_max|0|ex2\.approx|s/ex2.approx(.ftz)?/rcp.approx$1/|another function
add|add|0|add\.(rn\.)?f32|s/add\.(rn\.)?f32/add.rz.f32/|sums rounded to zero
add|add|0|setp\.[lg][te]\.s64|s/setp.(lt|ge)/$1 eq "lt" ? "setp.le" : "setp.gt"/e|an element past the end
mul|mul|0|griddepcontrol\.wait|s/griddepcontrol.wait;//|no wait in a product of elements
mul|mul|0|mul\.(rn\.)?f32|s/mul\.(rn\.)?f32/mul.rm.f32/|products of elements rounded down
silu|silu|0|neg\.f32|s/neg.f32/mov.f32/|a sign left out
copy|copy|1|st\.global|s/\+(\d+)\]/"+".($1+2)."]"/e or s/\[(%rd\d+)\]/[$1+2]/|a store two bytes too far
quantize|quantize|0|add\.rn\.f32|s/add.rn/add.rz/|quants rounded to zero
quantize|quantize|1|shfl\.sync\.bfly|s/(bfly\S*\s+\S+ \S+) \S+,/$1 8,/|a maximum over other lanes
rope|rope|0|neg\.f32|s/neg.f32/mov.f32/|a cosine or sine without its sign
top_k|top_k|1|bar\.warp\.sync|s/bar.warp.sync.*//|no barrier of a warp before a mark is set
top_k|top_k|0|setp\.lt\.s32|s/setp.lt/setp.gt/|ties to the higher index
sample|sample|2|bar\.sync|s/bar.sync.*//|no barrier in the selection of a token
get_rows|get_rows|1|ld\.global\.(cs\.)?(nc\.)?v4|s/\[(%rd\d+)(\+\d+)?\]/[$1+32]/|an offset of two vectors
attention|attention|0|atom\.acq_rel|s/acq_rel/acquire/|an arrival of a split that releases nothing
attention|attention|0|atom\.acq_rel|s/acq_rel/release/|an arrival of a split that acquires nothing
attention|attention|0|atom\.acq_rel|s/inc/add/|a counter that is not zero for the next launch
attention|attention|2|bar\.sync|s/bar.sync.*//|no barrier before the keys of a tile in f32 are read
attention|attention|29|bar\.sync|s/bar.sync.*//|no barrier before the queries are read
attention|attention|30|bar\.sync|s/bar.sync.*//|no barrier before the maxima of the warps are read
attention|attention|0|mma\.sync|s/\}, \{(%r\d+), (%r\d+), (%r\d+), /}, {$1, $3, $2, /|wrong rows and columns of a fragment
linear|linear|0|atom\.acq_rel|s/acq_rel/relaxed/|an arrival without a memory order
linear|linear|2|bar\.sync|s/bar.sync.*//|no barrier in the norm of a product
mul_mat|mul_mat|0|dp4a|s/dp4a.s32.s32/dp4a.u32.s32/|quants without a sign
router|router|3|bar\.sync|s/bar.sync.*//|no barrier in the selection of experts
mma|mma_kernels|0|cp\.async\.wait_group|s/cp.async.wait_group.*//|no wait for asynchronous copies
mma|mma_kernels|0|ldmatrix.*x4\.shared|s/x4.shared/x4.trans.shared/|rows of a matrix fragment read as columns
mma|mma_kernels|0|bar\.sync|s/bar.sync.*//|no barriers around a tile in shared memory
mma|mma_kernels|0|mma\.sync.*bf16|s/bf16/f16/g|bf16 multiplied as f16
qkv|qkv|0|griddepcontrol\.wait|s/griddepcontrol.wait;//|products that do not wait for earlier kernels
BUGS
}

build=$(cd "$1" && pwd)
shift
only=" $* " caught=0 missed=0
ptx=$(find "$build/ptx" -maxdepth 1 -name "[0-9]*" | sort | tail -1)
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
rows=$temp/rows passed=" "
bugs >"$rows"

run() { # suite
    # Processor time, which others on the machine do not change, of a test that never ends.
    (ulimit -t 300
        export REPRISE_SIM=ptx SIM_CAPABILITY=${ptx##*/} REPRISE_PTX=$temp/ptx
        timeout 3600 "$build/tests/cudasim_$1" -j1 --fail-fast) >"$temp/log" 2>&1
}
not_caught() { echo "NOT CAUGHT: $*"; missed=$((missed + 1)); }

mkdir "$temp/ptx"
ln -s "$ptx"/*.ptx "$temp/ptx"
while IFS= read -r row; do
    suite=$(echo "$row" | cut -d'|' -f1) file=$(echo "$row" | cut -d'|' -f2) n=$(echo "$row" | cut -d'|' -f3) text=${row##*|}
    case $only in "  " | *" $suite "*) ;; *) continue ;; esac
    case $passed in
    *" $suite "*) ;;
    *)
        passed="$passed$suite "
        run "$suite" || not_caught "$suite fails without a bug"
        ;;
    esac
    pattern=$(echo "$row" | cut -d'|' -f4) expression=${row#*|*|*|*|} expression=${expression%|*}
    rm "$temp/ptx/$file.ptx"
    N=$n PATTERN=$pattern perl -pe "if (m{\$ENV{PATTERN}} && (\$ENV{N} == 0 || ++\$count == \$ENV{N})) { $expression }" \
        "$ptx/$file.ptx" >"$temp/ptx/$file.ptx"
    if cmp -s "$ptx/$file.ptx" "$temp/ptx/$file.ptx"; then
        not_caught "$text ($suite): the expression changes nothing"
    elif run "$suite"; then
        not_caught "$text ($suite)"
    elif grep -q 'ptx: PTX line' "$temp/log"; then
        not_caught "$text ($suite): the expression makes no valid PTX"
    else
        caught=$((caught + 1))
        [ -z "${VERBOSE-}" ] || echo "$suite, $text: $(grep -m1 -oE 'ptx: .*|(element|quant|sum) .*|depends on.*' "$temp/log" || tail -1 "$temp/log")"
    fi
    ln -sf "$ptx/$file.ptx" "$temp/ptx/$file.ptx"
done <"$rows"
echo "$caught of $((caught + missed)) bugs planted in PTX caught"
[ "$missed" = 0 ]
