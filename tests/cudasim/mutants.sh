#!/bin/sh
# Plants one bug after the other in a copy of the CUDA kernels: each must be caught by the tests of the op on the simulated
# device, built with every access checked.
#   mutants.sh SOURCE_DIR RACE_BUILD_DIR
set -eu
source=$(cd "$1" && pwd) build=$(cd "$2" && pwd)
objects=$build/tests/cudasim/CMakeFiles
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
include=$(cat "$build/tests/cudasim/cuda_headers.txt")
caught=0 missed=0

mutant() { # op, file, sed expression, what it is
    rm -rf "$temp/kernels"
    cp -r "$source/kernels" "$temp/kernels"
    sed -i "$3" "$temp/kernels/$2"
    if cmp -s "$source/kernels/$2" "$temp/kernels/$2"; then
        echo "$4: the expression changes nothing in kernels/$2"; missed=$((missed + 1)); return
    fi
    clang++ -std=c++17 -O2 -w -fsanitize=thread -ffp-contract=off -DRP_CUDASIM -DSIM_RACE -D_GNU_SOURCE -xc++ \
        -include "$source/tests/cudasim/sim_cuda.h" -I"$temp" -I"$source" -I"$source/tests/cudasim" \
        -I"$source/include" -I"$build/include" -isystem "$include" -c "$temp/kernels/$1.cu" -o "$temp/mutant.o"
    others=
    for object in $(find "$objects/rp_kernels_sim.dir" "$objects/cudasim.dir" -name '*.o' ! -name "$1.cu.o"); do
        name=$(basename "$object" .o) # what an older build has left behind is not linked
        if [ -f "$source/kernels/$name" ] || [ -f "$source/tests/cudasim/$name" ]; then others="$others $object"; fi
    done
    # shellcheck disable=SC2046,SC2086
    clang++ "$temp/mutant.o" $others $(find "$objects/cudasim_$1.dir" -name '*.o') "$build"/librp_model.a \
        "$build"/librp_executor.a "$build"/librp_fallback.a "$build"/librp_kernels.a "$build"/librp_graph.a \
        $(pkg-config --libs libpcre2-8 criterion) -lm -lpthread -o "$temp/test"
    if "$temp/test" -j1 >"$temp/log" 2>&1; then
        echo "NOT CAUGHT: $4 ($1)"; missed=$((missed + 1))
    else
        caught=$((caught + 1))
    fi
}

mutant rms_norm device.cuh 's/__syncthreads();//' "no barriers in a sum over a block"
mutant attention attention.cu '/state.put(/,/float \*to/s/__syncthreads();//' "no barrier before the warps' parts are added"
mutant attention attention.cu '/bool arrives_last/,/^}/s/__threadfence();//' "no fence about the arrival of a split"
mutant attention attention.cu '/bool arrives_last/,/threadIdx.x == 0/s/__syncthreads();//' "no barrier before the arrival of a split"
mutant attention attention.cu 's/atomicInc(counter, (unsigned)r.active - 1)/atomicAdd(counter, 1u)/' "a counter that stays for the next launch"
mutant top_k top_k.cu '/a shuffle orders no memory/d' "no barrier between reading and writing what is taken"
mutant top_k top_k.cu 's/at < \*index/at > *index/' "ties to the higher index"
mutant mul_mat gemv.cuh 's/m < job.rows \&\&/m <= job.rows \&\&/' "a row past the end"
mutant mul_mat gemv.cuh 's/if (u0 > 0) __syncthreads();//' "no barrier before the next piece of the columns"
mutant mul_mat gemv.cuh '/if (job.split == 1) return;/,/const int at/s/__syncthreads();//' "no barrier before the warps of a row are added"
mutant silu map.cuh 's/if (i >= n \*/if (i > n */' "an element past the end"
mutant copy copy.cu 's/row >= y.ne\[1\]/row > y.ne[1]/' "a store past the last position"
mutant mul_mat_id mul_mat_id.cu 's/id < p.w.ne\[2\]/id <= p.w.ne[2]/' "an expert past the last"
mutant mul_mat gemv.cuh 's/scale\[group \/ 2\]/scale[group \/ 4]/' "the scale of another block"
mutant mul_mat quants.cuh 's/20 \* p.blocks/16 * p.blocks/' "a plane in another's place"
mutant get_rows quants.cuh 's/192 \* p.blocks/200 * p.blocks/' "a plane past its place"
mutant rope rope.cu 's/at < 0 ? 0 : at/0/' "a position that does not move"
echo "$caught of $((caught + missed)) planted bugs caught"
[ "$missed" = 0 ]
