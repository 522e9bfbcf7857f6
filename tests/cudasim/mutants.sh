#!/bin/sh
# Plants one bug after the other in a copy of the CUDA kernels: each must be caught by the tests of the op on the simulated
# device, built with every access checked.
#   mutants.sh SOURCE_DIR RACE_BUILD_DIR [OP...]      of these ops only
set -eu
source=$(cd "$1" && pwd) build=$(cd "$2" && pwd)
objects=$build/tests/cudasim/CMakeFiles
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
include=$(cat "$build/tests/cudasim/cuda_headers.txt")
shift 2
only=" $* " caught=0 missed=0

mutant() { # op, file, sed expression, what it is
    case $only in "  " | *" $1 "*) ;; *) return ;; esac
    rm -rf "$temp/kernels"
    cp -r "$source/kernels" "$temp/kernels"
    sed -i "$3" "$temp/kernels/$2"
    if cmp -s "$source/kernels/$2" "$temp/kernels/$2"; then
        echo "$4: the expression changes nothing in kernels/$2"; missed=$((missed + 1)); return
    fi
    clang++ -std=c++17 -O2 -w -fsanitize=thread -fno-slp-vectorize -fno-vectorize -ffp-contract=off -DRP_CUDASIM -DSIM_RACE -D_GNU_SOURCE -xc++ \
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
    if "$temp/test" -j1 --fail-fast >"$temp/log" 2>&1; then
        echo "NOT CAUGHT: $4 ($1)"; missed=$((missed + 1))
    else
        caught=$((caught + 1))
    fi
}

mutant soft_max device.cuh 's/__syncthreads();//' "no barriers in a sum over a block"
mutant rms_norm rms_norm.cuh 's/__syncthreads();//' "no barriers in the sum of a norm"
mutant attention attention.cu '/state.put(/,/float \*to/s/__syncthreads();//' "no barrier before the warps' parts are added"
mutant attention arrive.cuh 's/__threadfence();//' "no fence about the arrival of a split"
mutant attention arrive.cuh '/bool rp_arrives_last/,/threadIdx.x == 0/s/__syncthreads();//' "no barrier before the arrival of a split"
mutant attention arrive.cuh 's/atomicInc(counter, blocks - 1)/atomicAdd(counter, 1u)/' "a counter that stays for the next launch"
mutant attention quantize.cuh 's/2 \* b + lane \/ 16/2 * b/' "one sum for both halves of a block"
mutant top_k top_k.cuh '/a shuffle orders no memory/d' "no barrier between reading and writing what is taken"
mutant top_k top_k.cuh 's/at < \*index/at > *index/' "ties to the higher index"
mutant mul_mat gemv.cuh 's/m + r < rows \&\&/m + r <= rows \&\&/' "a row past the end"
mutant mul_mat gemv.cuh 's/if (held >= 0) __syncthreads();//' "no barrier before the next piece of the columns"
mutant mul_mat gemv.cuh '/if (job.split == 1) return;/,/if (warp/s/__syncthreads();//' "no barrier before the warps of a row are added"
mutant silu map.cuh 's/if (i >= n \*/if (i > n */' "an element past the end"
mutant copy copy.cu 's/row >= y.ne\[1\]/row > y.ne[1]/' "a store past the last position"
mutant mul_mat_id mul_mat_id.cu 's/id < p.w.ne\[2\]/id <= p.w.ne[2]/' "an expert past the last"
mutant mul_mat gemv.cuh 's/scale\[group \/ 2\]/scale[group \/ 4]/' "the scale of another block"
mutant mul_mat quants.cuh 's/20 \* p.blocks/16 * p.blocks/' "a plane in another's place"
mutant get_rows quants.cuh 's/192 \* p.blocks/200 * p.blocks/' "a plane past its place"
mutant get_rows get_rows.cu 's/scaled(rp_float_at(T, row, i), scale)/rp_float_at(T, row, i)/' "rows of floats that are not scaled"
mutant rope rope.cuh 's/pos < 0 ? 0 : pos/0/' "a position that does not move"

mutant linear linear.cu 's/p.residual != nullptr ? __fadd_rn(sum, p.residual\[i\]) : sum/sum/' "no residual"
mutant linear linear.cu 's/__fadd_rn(v, p.residual\[i\])/v/' "no residual behind a post-norm"
mutant linear arrive.cuh 's/== blocks - 1;/== blocks - 2;/' "the last block but one ends the work"
mutant linear arrive.cuh 's/atomicInc(counter, blocks - 1)/atomicAdd(counter, 1u)/' "a counter that stays for the next launch"
mutant linear column.cuh 's/v.z \*= w.z,//' "an element without the norm's weight"
mutant linear gemv.cuh 's/job.block + turn \* job.step/job.block + turn/' "turns of a block that are others'"
mutant linear quantize.cuh 's/rp_sum_of_lanes(q0 + q1 + q2 + q3, 4)/rp_sum_of_lanes(q0 + q1 + q2 + q3, 8)/' "a sum of 32 for one of 16"
mutant linear gemv.cuh 's/^    rp_wait_for_earlier();//' "a product that does not wait for earlier kernels"
mutant rms_norm portable.cuh '/void rp_begin/,/^}/s/rp_wait_for_earlier();//' "a kernel that does not wait for earlier ones"
mutant gate_up gate_up.cu 's/p.ids == nullptr \&\& (ctx/(ctx/' "chosen experts that are not waited for"
mutant gate_up gate_up.cu 's/half\[i\] += p.bias\[i\]/half[i] += p.bias[0]/' "the bias of gate for up"
mutant gate_up gate_up.cu 's/id < p.w\[0\].ne\[2\]/id <= p.w[0].ne[2]/' "an expert past the last"
mutant gate_up gate_up.cu 's/(end - first) \/ per_block)/(end - first) \/ per_block - 1)/' "a group that is rounded too early"
mutant gate_up gate_up.cu 's/blockIdx.y \* p.groups + g/g/' "a counter of all the experts"
mutant gate_up gate_up.cu 's/rp_gemv_begin(job, turn) + threadIdx.x, 0, none/rp_gemv_begin(job, 0) + threadIdx.x, 0, none/' "zeros for the first turn only"
mutant qkv qkv.cu 's/p.norm == RP_HEAD_NORM_WHOLE ? h \* d : 0/0/' "the norm's weights of the first head"
mutant qkv qkv.cu 's/args->src\[11 + i\]/args->src[11]/' "keys with the queries' norm"
mutant qkv qkv.cu 's/pos >= 0 \&\& pos/pos/' "a store before the first position"
mutant qkv qkv.cu 's/ - h \* d \/ own + 1;/ - h * d \/ own;/' "a head that ends before its last block"
mutant qkv qkv.cu 's/turns = which != V/turns = true/' "values that are turned"
mutant qkv qkv.cu 's/part.counters + h/part.counters/' "one counter for all heads"
mutant qkv qkv.cu 's/rows \/ d; h++)/rows \/ d - 1; h++)/' "the last head of a whole row is left out"
mutant router router.cu 's/rp_route(probs, n/rp_route(values, n/' "weights with the bias of the choice"
mutant router router.cu '/taken\[i\]  = 0;/,/tid >= RP_WARP/s/__syncthreads();//' "no barrier before the choice"
mutant router router.cu 's/p.y\[k + j\]/p.y[k + k - 1 - j]/' "weights of other experts"
mutant experts_down experts_down.cu 's/for (int i = 0; adds \&\& i < count; i++)/for (int i = count - 1; adds \&\& i >= 0; i--)/' "experts in another order"
mutant experts_down experts_down.cu '/the experts before have been read by all/d' "no barrier before the next experts"
mutant experts_down experts_down.cu 's/p.residual != nullptr ? __fadd_rn(sum, p.residual\[row\]) : sum/sum/' "no residual"
mutant experts_down experts_down.cu 's/id < p.w.ne\[2\]/id <= p.w.ne[2]/' "an expert past the last"
echo "$caught of $((caught + missed)) planted bugs caught"
[ "$missed" = 0 ]
