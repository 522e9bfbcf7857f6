#!/bin/sh
# Plants bugs in the CUDA kernels: each must be caught by the tests of the op on the simulated device, built with every
# access checked.
#   kernels.sh RACE_BUILD_DIR [SUITE...]           SUITE: only the bugs that these suites find
#   kernels.sh --suites                            prints the suites that find planted bugs
#   kernels.sh --plant SOURCE_DIR FOLDER           writes FOLDER/kernels, the kernels with the bugs; fails if one changes nothing
#
# The race build compiles the kernels with all bugs planted. Each is a sed expression in which `@` stands for the condition
# that selects the bug:
#   s/id < n/(@ ? id <= n : id < n)/        becomes        (sim_bug(3) ? id <= n : id < n)
# and SIM_BUG=3 in the environment selects it. With none selected the tests must pass. SIM_FUSED: butterflies
# over a warp in one step, which takes less time; without a bug the shuffles run.
set -eu
export REPRISE_SPECIALIZE=off
bugs() { # op | file | sed expression | description
    cat <<'BUGS'
soft_max|device/device.cuh|s/__syncthreads();/if (!@) &/|no barriers in a sum over a block
rms_norm|device/rms_norm.cuh|s/__syncthreads();/if (!@) &/|no barriers in the sum of a norm
rms_norm|device/portable.cuh|/void rp_begin/,/^}/s/rp_pdl_wait();/if (!@) &/|a kernel that does not wait for earlier ones
attention|device/portable.cuh|s/limit, 0, ACQ_REL)/limit, 0, @ ? 0 : ACQ_REL)/|an arrival of a split without memory order
attention|device/attention_rows.cuh|/state->.*scale_scores/,/state->put_weights/s/__syncthreads();/if (!@) &/|no barrier between the maxima of the warps and their readers
attention|device/attention_rows.cuh|/values.put_scales(/,/const bool specials/s/__syncthreads();/if (!@) &/|no barrier before the weights of a tile are read
attention|device/attention_tile.cuh|s/acc\[group\]\[c\]\[e\] \*= rescale/acc[group][c][e] *= (@ ? 1.0f : rescale)/|accumulators that are not rescaled
attention|device/attention_tile.cuh|s/first + (warp_index() \* S::N_TILES + n) \* 8 + lane_in_group() \* 2 + e/& + (@ ? 1 : 0)/|the mask of the next position
attention|device/attention_kv.cuh|s/lane_in_group() \* 2 + e % 2 + e \/ 2 \* 8/lane_in_group() * 2 + e % 2 + e \/ 2 * (@ ? 4 : 8)/|values of another row of the fragment
attention|device/attention_q8_0.cuh|s/last_word ? 0x3254u/last_word \&\& !@ ? 0x3254u/|the last word of a rotated block without quants 30 and 31
attention|device/attention_tile.cuh|s/k\.rotates(i) ?/!@ \&\& &/|queries that are not rotated with the quants
attention|device/attention_q8_0.cuh|/scales.put(shared_scales);/,/#pragma/s/__syncwarp();/if (!@) &/|scales read before all lanes have written them
attention|device/attention_q8_0.cuh|s/p\[0\] - permute_to_float<0x1044u, 0u>(high)/(@ ? 0.0f : &)/|weights without their low parts
attention|device/attention_merge.cuh|s/rescale_factor(before, after)/(@ ? 1.0f : &)/|splits that are merged without a rescale
attention|device/arrive.cuh|/bool rp_arrives_last/,/threadIdx.x == 0/s/__syncthreads();/if (!@) &/|no barrier before the arrival of a split
attention|device/arrive.cuh|s/rp_arrive(counter, blocks - 1)/(@ ? atomicAdd(counter, 1u) : &)/|a counter that is not zero for the next launch
attention|device/quantize.cuh|s/2 \* b + lane \/ 16/(@ ? 2 * b : &)/|one activation sum for both halves of a block
attention_prefill|attention_prefill.cu|/PrefillRows<SIZE>::N_TILES\]\[4\];/,/values.start(first)/s/__syncthreads();/if (!@) &/|no barrier before keys are multiplied
attention_prefill|attention_prefill.cu|/rows->hide(first, s);/,/keys.start(first/s/__syncthreads();/if (!@) &/|no barrier before values are added
attention_prefill|device/attention_prefill.cuh|s/\*= rescale\[i % 4/*= @ ? 1.0f : rescale[i % 4/|accumulators of a prefill that are not rescaled
attention_prefill|device/attention_prefill.cuh|s/(RP_ALL_LANES, any))/(RP_ALL_LANES, any) \&\& !@)/|a prefill without rescaling
attention_prefill|device/attention_prefill.cuh|s/ceilf(most)/(@ ? most - 20.0f : ceilf(most))/|weights of a prefill that overflow
attention_prefill|device/attention_prefill.cuh|s/(unsigned)max(seen/(@ ? 1u : 0u) + (unsigned)max(seen/|a prefill that sees the next position
attention_prefill|device/attention_prefill.cuh|s/y - high_y/@ ? 0.0f : y - high_y/|queries and weights without a low part
attention_prefill|attention_prefill.cu|s/rows->add_specials/if (!@) &/|infinities of a prefill left out
attention_prefill|attention_prefill.cu|s/acc\[at + i\]) \* keep\[i % 4 \/ 2\]/acc[at + i]) * (@ ? 1.0f : keep[i % 4 \/ 2])/|splits of a prefill that are merged without a rescale
attention_prefill|device/attention_prefill.cuh|s/min(max(i, least), most)/(@ ? i : min(max(i, least), most))/|positions past the end of the context
attention_prefill|attention_prefill.cu|s/!rows->is_finite()/(!@ \&\& !rows->is_finite())/|a prefill that does not look for infinities
attention_prefill|attention_prefill.cu|s/maximum\[0\] == -INFINITY/(& || @)/;s/maximum\[1\] == -INFINITY/(& || @)/|a prefill of one split without its sink
attention_prefill|device/quantize.cuh|s/t == 0 ? sum0 : sum1/(t == 0) != @ ? sum0 : sum1/|sums of a fragment swapped
top_k|device/top_k.cuh|/rp_best_of_warp(&key, &index);/,/lane == 0/s/__syncwarp();/if (!@) &/|no barrier between reading and marking the elements already chosen
top_k|device/top_k.cuh|s/at < \*index/(@ ? at > *index : &)/|ties to the higher index
gemm|gemm.cu|/a.store(of_a, slice)/,/a.load(/s/__syncthreads();/if (!@) &/|no barrier between storing and reading a slice
gemm|gemm.cu|s/k + e \* k_step < n/(@ ? k + e * k_step <= n : k + e * k_step < n)/|a term past the last one
mul_mat|device/gemv.cuh|s/m + r < rows \&\&/(@ ? m + r <= rows : m + r < rows) \&\&/|a row past the end
mul_mat|device/gemv_quant.cuh|s/if (held >= 0) __syncthreads();/if (held >= 0 \&\& !@) __syncthreads();/|no barrier before the next slice of the columns
mul_mat|device/gemv.cuh|/if (work.split == 1) return;/,/if (warp/s/__syncthreads();/if (!@) &/|no barrier before the partial sums of a row are added
mul_mat|device/gemv_quant.cuh|s/rest + 2 \* at/rest + (@ ? 4 : 2) * at/|the scale of another block
mul_mat|device/quants/q5.cuh|s/RP_PLANE(p, Q5_0, d)/(@ ? RP_PLANE(p, Q5_0, qh) : &)/|a plane at the offset of another one
tile_int8|device/tile_int8.cuh|s/if (k0 > 0) __syncthreads();/if (k0 > 0 \&\& !@) __syncthreads();/|no barrier before the next stage of a tile is stored
tile_int8|device/tile_int8.cuh|/stage.store(w, shared, k0);/,/if (k0 + S/s/__syncthreads();/if (!@) &/|no barrier before a stage of a tile is multiplied
tile_int8|device/tile_int8.cuh|s/m < w.rows \&\& c < w.columns/(@ ? m <= w.rows : m < w.rows) \&\& c < w.columns/|a row of a tile past the end
tile_int8|device/tile_int8.cuh|s/(w.columns + 7) \/ 8 \* 8/(@ ? w.columns \/ 8 * 8 : (w.columns + 7) \/ 8 * 8)/|the last columns of a tile left out
tile_int8|device/tile_int8.cuh|s/(2 \* s + lane \/ 16) ^ (row \& 7)/(2 * s + lane \/ 16) ^ (@ ? 0 : row \& 7)/|rows of a tile read in another order than stored
tile_f16|device/tile_f16.cuh|s/if (k0 > 0) __syncthreads();/if (k0 > 0 \&\& !@) __syncthreads();/|no barrier before the next stage of an f16 tile is stored
tile_f16|device/tile_f16.cuh|/rp_cp_async_wait<0>();/,/const char \*now/s/__syncthreads();/if (!@) &/|no barrier before a stage of an f16 tile is multiplied
tile_f16|device/tile_f16.cuh|s/if (m < w.rows) to\[m\]/if (@ ? m <= w.rows : m < w.rows) to[m]/|a row of an f16 tile past the end
tile_f16|device/tile_f16.cuh|s/(w.columns + 15) \/ 16 \* 16/(@ ? w.columns \/ 16 * 16 : (w.columns + 15) \/ 16 * 16)/|the last columns of an f16 tile left out
tile_f16|device/tile_f16.cuh|s/lane % 16, lane \/ 16)/lane % 16, @ ? 0 : lane \/ 16)/|rows of an f16 tile read in another order than stored
tile_f16|device/tile_f16.cuh|s/rp_cp_async_wait<0>();/if (!@) &/|a stage of columns that is not waited for
tile_f16|device/tile_f16.cuh|s/half ^= 1;/half ^= (@ ? 0 : 1);/|the next columns copied over those that are multiplied
tile_f16|tile_f16.cu|s/i % 8 \/ 2 + i % 2 \* 4 : i/(@ ? i % 8 : i % 8 \/ 2 + i % 2 * 4) : i/|columns in another order than the weights of K types
silu|device/map.cuh|s/if (i >= n \*/if ((@ ? i : i + 1) > n */|an element past the end
copy|copy.cu|s/row >= y.ne\[1\]/(@ ? row > y.ne[1] : &)/|a store past the last position
mul_mat_id|mul_mat_id.cu|s/id < p.w.ne\[2\]/(@ ? id <= p.w.ne[2] : &)/|an expert past the last
mul_mat_id|mul_mat_id.cu|s/? id : p.n_expert;/? id : (@ ? 0 : p.n_expert);/|ids of no expert listed for the first one
mul_mat_id|mul_mat_id.cu|/atomicAdd(&before\[1\]/,/const int tiles/s/__syncthreads();/if (!@) &/|no barrier before the columns of earlier experts are known
mul_mat_id|mul_mat_id.cu|/of_warp\[warp\] = mine;/,/for (int i = tid; i < e/s/__syncthreads();/if (!@) &/|no barrier before the columns are counted
mul_mat_id|mul_mat_id.cu|s/at += of_warp\[i\]/at += of_warp[@ ? 0 : i]/|the columns of a warp listed over those of another
get_rows|device/quants/q6_k.cuh|s/RP_PLANE(p, Q6_K, scales)/(@ ? 8 * p.blocks : 0) + &/|a plane at too large an offset
get_rows|get_rows.cu|s/scaled(rp_float_at(.*), scale)/(@ ? rp_float_at(T, (const char *)(v + k), 0) : &)/|float rows that are not scaled
rope|device/rope.cuh|s/pos < 0 ? 0 : pos/(@ ? 0 : &)/|every position taken as 0
linear|linear.cu|s/v = __fadd_rn(v, residual\[i\])/v = (@ ? v : __fadd_rn(v, residual[i]))/|no residual
linear|linear.cu|s/v = __fadd_rn(v, p.sum_residual\[i\])/v = (@ ? v : __fadd_rn(v, p.sum_residual[i]))/|no second residual
linear|linear.cu|s/residual != nullptr ? __fadd_rn(v, residual\[i\]) : v/(@ ? v : &)/|no residual before the norm of the sum
linear|linear.cu|s/p.one_factor ? 0 : i/(@ ? 0 : (&))/|the factor of the first row for all rows
linear|linear.cu|s/weight = p.sum_weight/weight = @ ? weight : p.sum_weight/|the weight of the post-norm for the norm of the sum
linear|linear.cu|/if (p.sum_norm)/,/rp_rms_scale/s/__syncthreads();/if (!@) &/|no barrier before the norm of the sum
linear|linear.cu|s/if (p.act != RP_LINEAR_ACT_NONE)/if (!@ \&\& p.act != RP_LINEAR_ACT_NONE)/|no activation
linear|device/arrive.cuh|s/== blocks - 1;/== (@ ? blocks - 2 : blocks - 1);/|the block that arrives second to last finishes the work
linear|device/arrive.cuh|s/rp_arrive(counter, blocks - 1)/(@ ? atomicAdd(counter, 1u) : &)/|a counter that is not zero for the next launch
linear|device/column.cuh|s/v\[k\] \*= w\[k\]/v[k] *= (@ \&\& k == 2 ? 1.0f : w[k])/|an element that is not multiplied by the weight of the norm
linear|device/column.cuh|s/block \* grid.turns + (block < grid.rest ? block : grid.rest)/block * grid.turns + (@ ? 0 : (block < grid.rest ? block : grid.rest))/|a block that computes the rows of other blocks
linear|device/quantize.cuh|s/__dp4a((int)high, ONES, 0)), 2)/__dp4a((int)high, ONES, 0)), @ ? 4 : 2)/|an activation sum over 32 elements instead of 16
linear|device/gemv.cuh|s/if (work.early >= 0) rp_pdl_wait();/if (!@ \&\& work.early >= 0) rp_pdl_wait();/|a product that does not wait for earlier kernels after its prefetch
gate_up|device/gemv.cuh|s/if (early < 0) rp_pdl_wait();/if (!@ \&\& early < 0) rp_pdl_wait();/|a product without a prefetch that does not wait for earlier kernels
gate_up|gate_up.cu|s/p.ids == nullptr \&\& (ctx/(p.ids == nullptr || @) \&\& (ctx/|expert ids read before the wait for earlier kernels
gate_up|gate_up.cu|s/half\[i\] += p.bias\[i\]/half[i] += p.bias[@ ? 0 : i]/|the bias of gate added to up
gate_up|gate_up.cu|s/id < p.w\[0\].ne\[2\]/(@ ? id <= p.w[0].ne[2] : &)/|an expert past the last
gate_up|gate_up.cu|s/RP_GEMV_WARPS \/ work.split, first, end)/RP_GEMV_WARPS \/ work.split, first, end - (@ ? RP_ACT_BLOCK - 1 : 0))/|a block of the result quantised before all of it is computed
gate_up|gate_up.cu|s/p.counters + blockIdx.y \* p.n_counters/p.counters + (@ ? 0 : blockIdx.y * p.n_counters)/|one arrival counter for all experts
gate_up|gate_up.cu|s/sums\[i\] = 0.0f/sums[i] = @ \&\& i >= 2 ? 1.0f : 0.0f/|products of a missing expert zeroed in the first row only
gate_up|gate_up.cu|/void finish_rows/,/threadIdx/s/__syncthreads();/if (!@) &/|no barrier before the rows of a block are finished
qkv|qkv.cu|/void store_pairs/,/^}/s/__syncthreads();/if (!@) &/|no barrier before the sums of rotated rows are read
qkv|qkv.cu|s/pair < p.rope.p.n_dims \/ 2; pair += THREADS/pair < (@ ? 1 : p.rope.p.n_dims \/ 2); pair += THREADS/|the rotation of the first pair alone
qkv|qkv.cu|s/r.first + n_dims/r.first + (@ ? 1 : n_dims)/|a row that rotates with the wrong one
qkv|qkv.cu|s/p.norm == RP_HEAD_NORM_WHOLE ? h \* d : 0/(@ ? 0 : (&))/|norm weights of the first head used for all heads
qkv|qkv.cu|s/(const float \*)s.norm->data/(const float *)(@ ? args->qkv.q_norm.data : s.norm->data)/|keys normalised with the weights of the queries
qkv|qkv.cu|s/row >= 0 \&\& row/(@ || row >= 0) \&\& row/|a store at a negative position
qkv|qkv.cu|s/h \* d, (h + 1) \* d)/h * d, (h + 1) * d - (@ ? d - 1 : 0))/|a head finished before its last block has arrived
qkv|qkv.cu|s/rotates *= which != V/rotates = @ || which != V/|values that are rotated
qkv|qkv.cu|s/which == V ? p.value_norm : /which == V ? !@ \&\& p.value_norm : /|values that are not normed
qkv|qkv.cu|s/proj.counters + h/proj.counters + (@ ? 0 : h)/|one arrival counter for all heads
qkv|qkv.cu|s/rows \/ d; h++)/rows \/ d - (@ ? 1 : 0); h++)/|the last head of a norm over the whole row left out
cross_entropy|device/log_sum.cuh|s/sum \*= top == to/sum *= @ || top == to/|sums that are not rescaled
cross_entropy_backward|training/cross_entropy_backward.cu|s/i == target ? p - 1.0f : p/@ ? p : &/|a gradient without the target
linear_cross_entropy|training/linear_cross_entropy.cu|s/before.rescale(top), s.rescale(top);/if (!@) { & }/|sums of chunks that are not rescaled
linear_cross_entropy_backward|training/linear_cross_entropy_backward.cu|s/i == at ? y - 1.0f : y/@ ? y : &/|a gradient of a chunk without the target
grad_norm|training/grad_norm.cu|s/__syncthreads();/if (!@) &/|no barrier between the sums of the warps and their reader
grad_norm|training/grad_norm.cu|s/to < n ? to : n/@ ? to : &/|elements past the end
grad_clip|device/four.cuh|s/i + 4 <= n/(@ ? i < n : &)/|four elements where fewer are left
adamw|training/adamw.cu|s/__syncthreads();/if (!@) &/|no barrier between the powers and their readers
adamw|training/adamw.cu|s/step % 2 != 0/(@ || &)/|powers of a step with all bits set
mul_mat_id_backward|training/mul_mat_id_backward.cu|/stage(p.x, k/,/rp_outer_products/s/__syncthreads();/if (!@) &/|no barrier before the staged columns are multiplied
mul_mat_id_backward|training/mul_mat_id_backward.cu|/rp_outer_products(dy/,/^        }/s/__syncthreads();/if (!@) &/|no barrier before the next columns are staged
mul_mat_id_backward|training/mul_mat_id_backward.cu|s/v.ne\[1\] > 1 ? list/v.ne[1] > 1 \&\& !@ ? list/|the first choice of a token for all of them
mul_mat_id_backward|training/mul_mat_id_backward.cu|s/e < left)/(@ ? e <= left : e < left))/|an element past the end of a column
mul_mat_id_backward|training/mul_mat_id_backward.cu|s/i < p.dw.ne\[1\] \&\&/(@ ? i <= p.dw.ne[1] : i < p.dw.ne[1]) \&\&/|a row of a gradient past the last
mul_mat_id_backward|device/expert_columns.cuh|/found.next = \*at/,/int place/s/__syncthreads();/if (!@) &/|no barrier before the counts of the warps are added
mul_mat_id_backward|device/expert_columns.cuh|/found.next = column/,/count = all/s/__syncthreads();/if (!@) &/|no barrier before the columns found are read
mul_mat_id_backward|device/expert_columns.cuh|s/w < warp ? found/w < warp \&\& !@ ? found/|the columns of a warp listed over those of another
mul_mat_id_backward|device/expert_columns.cuh|s/place == RP_COLUMNS_MOST)/place == RP_COLUMNS_MOST \&\& !@)/|columns that do not fit into a list left out
mul_mat_id_transposed|training/mul_mat_id_transposed.cu|/stage_w(p.w, e/,/rp_outer_products/s/__syncthreads();/if (!@) &/|no barrier before the staged terms are multiplied
mul_mat_id_transposed|training/mul_mat_id_transposed.cu|/rp_outer_products(x/,/^        }/s/__syncthreads();/if (!@) &/|no barrier before the next terms are staged
mul_mat_id_transposed|training/mul_mat_id_transposed.cu|s/c < n \&\& m < x.ne/c < n \&\& (@ ? m - 1 : m) < x.ne/|a term past the end of a column
mul_mat_id_transposed|training/mul_mat_id_transposed.cu|s/m < w.ne\[1\] \&\& j/(@ ? m <= w.ne[1] : m < w.ne[1]) \&\& j/|a row of weights past the last
mul_mat_id_transposed|training/mul_mat_id_transposed.cu|s/e < p.ids.n_expert ?/(@ || e < p.ids.n_expert) ?/|weights for columns without an expert
mul_mat_id_transposed|training/mul_mat_id_transposed.cu|s/p.y, found\[0\].list\[c\] % k/p.y, @ ? 0 : found[0].list[c] % k/|results of all choices stored over those of the first
mul_mat_id_transposed|device/outer_tile.cuh|s/fmaf(r\[e\], c\[f\], sum/fmaf(r[@ ? f : e], c[@ ? e : f], sum/|rows and columns of a thread's results swapped
fill|training/fill.cu|s/i + EACH <= n/(@ ? i < n : &)/|four elements where fewer are left
fill|training/fill.cu|s/e < n; e++/(@ ? e + 1 < n : e < n); e++/|the last element left out
swiglu_oai_backward|training/swiglu_oai_backward.cu|s/if (i >= p.dgate/if ((@ ? i - 1 : i) >= p.dgate/|an element past the end
swiglu_oai_backward|training/swiglu_oai_backward.cu|s/up > p.limit || up < -p.limit ? 0/up > p.limit || (!@ \&\& up < -p.limit) ? 0/|a gradient of up below the limit
swiglu_oai_backward|training/swiglu_oai_backward.cu|s/= gate > p.limit ? 0/= !@ \&\& gate > p.limit ? 0/|a gradient of a gate above the limit
swiglu_oai_backward|training/swiglu_oai_backward.cu|s/i \/ v.ne\[0\]) + i/@ ? 0 : i \/ v.ne[0]) + i/|every row taken for the first
attention_backward|training/attention_backward.cu|/i = i0 + threadIdx.x;/,/i < keys.end/s/__syncthreads();/if (!@) &/|no barrier before the next keys
attention_backward|training/attention_backward.cu|/ds\[threadIdx.x\] = g.scale \* p/,/for (int j/s/__syncthreads();/if (!@) &/|no barrier before the slopes of the keys are read
attention_backward|training/attention_backward.cu|/t = t0 + threadIdx.x, row/,/t < see.end/s/__syncthreads();/if (!@) &/|no barrier before the next queries
attention_backward|training/attention_backward.cu|/ds\[threadIdx.x\]  = g.scale \* of_p/,/for (int j/s/__syncthreads();/if (!@) &/|no barrier before the slopes of the queries are read
attention_backward|training/attention_backward.cu|s/j < THREADS \&\& i0 + j < keys.end/j < THREADS \&\& (@ || i0 + j < keys.end)/|keys past the last that a query sees
attention_backward|training/attention_backward.cu|s/j < THREADS \&\& t0 + j < see.end/j < THREADS \&\& (@ ? t0 + j < g.q.ne[1] : t0 + j < see.end)/|queries past the last that see a key
attention_backward|training/attention_backward.cu|s/at(g.v, i, h \/ g.group/at(g.v, i, @ ? 0 : h \/ g.group/g|values of the first head for all heads
attention_backward|training/attention_backward.cu|s/i - g.ahead + g.window : n_q/i - g.ahead + g.window + (@ ? 1 : 0) : n_q/|a query whose window is past
attention_backward|training/attention_backward.cu|s/t + n_q \* (h + g.q.ne\[2\] \* b)/t + n_q * (h + (@ ? 0 : g.q.ne[2] * b))/|the statistics of the first batch for all
attention_backward|training/attention_backward.cu|s/= -p \* delta/= (@ ? p : -p) * delta/|the gradient of a sink with the other sign
attention_backward|training/attention_backward.cu|s/if (g.sinks != nullptr \&\& threadIdx/if (!@ \&\& g.sinks != nullptr \&\& threadIdx/|a sum of exponentials without the sink
router|router.cu|s/rp_route(probs, n/rp_route(@ ? values : probs, n/|routing weights that include the selection bias
router|router.cu|/taken\[i\]  = 0;/,/tid >= RP_WARP/s/__syncthreads();/if (!@) &/|no barrier before the experts are selected
router|device/top_k.cuh|/keys\[i\] = taken\[i\]/,/mine = /s/__syncthreads();/if (!@) &/|no barrier before ranks are counted
router|device/top_k.cuh|s/(j < i ? 1 : 0) > mine/(!@ \&\& j < i ? 1 : 0) > mine/|equal scores with the same rank
router|router.cu|s/stage(0, n, (char \*)quantized)/stage(@ ? 32 : 0, n, (char *)quantized)/|a quantised column that begins with the second block
gate_up|gate_up.cu|s/w.data = p.shared\[i\]/w.data = p.shared[@ ? 0 : i]/|the gate of a shared expert for its up
gate_up|gate_up.cu|s/p.shared\[0\] != nullptr \&\& blockIdx/p.shared[0] != nullptr \&\& !@ \&\& blockIdx/|an expert past the last for the shared one
projections|projections.cu|s/b < third ? 1/b < third ? (@ ? 0 : 1)/|rows of the second product computed by the weights of the first
projections|projections.cu|s/y\[m + r\] = v\[r\]/y[m + r] = v[@ ? 0 : r]/|the first row of a pair stored twice
projections|projections.cu|s/y += w->ne\[1\]/y += w->ne[@ ? 0 : 1]/|results of a product behind those of another length
latent|latent.cu|s/if (blockIdx.x == 0) rotate_query/if (blockIdx.x == 0 \&\& !@) rotate_query/|queries that are not rotated
latent|latent.cu|s/p.kv\[i\] \* scale/p.kv[i] * (@ ? 1.0f : scale)/|a latent vector without its norm
latent|latent.cu|s/to < 0 || to/(to < 0 \&\& !@) || to/|the latent vector of a padding token stored
latent_attention|latent_attention.cu|s/factor \* high_and_low/(@ ? latent_factor : factor) * high_and_low/|rotated scores by the factor of the others
latent_attention|latent_attention.cu|/state->scale_scores/,/state->put_weights/s/__syncthreads();/if (!@) &/|no barrier between the maxima of the warps and their readers
latent_attention|latent_attention.cu|s/(empty ? 0.0f : \*at) \* keep/(empty ? 0.0f : *at) * (@ ? 1.0f : keep)/|splits of latents that are merged without a rescale
kv_blocks|device/attention_kv.cuh|s/(block - (int)i)/(block - (@ ? 0 : (int)i))/|a block that begins where the positions before it end
kv_blocks|device/attention_table.cuh|s/t.seq\[first + n\] == t.seq\[first\]/(@ || &)/|tokens of two sequences in one run
kv_blocks|device/attention_table.cuh|s/before > 0 && first < end/!@ \&\& &/|no run but the first one of the tokens of a block
kv_blocks|attention_blocks.cu|s/first \* a.per_kv + row0/(@ ? 0 : first) * a.per_kv + row0/|rows of the first token for all
kv_blocks|latent_attention.cu|s/(size_t)first \* p.q_rope.nb\[1\]/(@ ? 0 : &)/|rotated queries of the first token for all
causal_conv|recurrent/causal_conv.cu|s/gated(sum, open, t, c)/(@ ? sum : &)/|results without their gate
causal_conv|recurrent/causal_conv.cu|s/__fmul_rn(x, /__fmul_rn(x, @ ? 1.0f : /|inputs without their gate
causal_conv|device/slots.cuh|s/starts\[run.end\] == RP_SLOT_FOLLOWS/!@ \&\& &/|a sequence that ends with its first token
gated_delta|device/slots.cuh|s/block > 0 \&\& starts\[block\]/!@ \&\& &/|each token computed as the first one of a sequence
ssm_scan|ssm_scan.cu|s/min(rp_last_slot(slot, tokens), run.end)/(@ ? rp_last_slot(slot, tokens) : &)/|a sequence that goes on into the next one
router|router.cu|s/__ldcg(p.scores + p.w.ne\[1\])/__ldcg(p.scores + (@ ? 0 : p.w.ne[1]))/|a shared expert opened by the score of the first expert
router|router.cu|s/p.open != nullptr ? 4 : 2) \* p.p/!@ \&\& p.open != nullptr ? 4 : 2) * p.p/|a quantised column over the gate of a shared expert
experts_down|experts_down.cu|s/__fmul_rn(shares\[count\], own)/(@ ? own : &)/|a shared expert without its gate
experts_down|experts_down.cu|s/last ? chosen - j0 : count/last \&\& !@ ? chosen - j0 : count/|a shared expert counted among the chosen ones
router|router.cu|s/p.y\[k + j\]/p.y[@ ? k + k - 1 - j : k + j]/|routing weights in reversed order
experts_down|experts_down.cu|s/for (int i = 0; i < count; i++) sum/for (int n = 0, i = @ ? count - 1 : 0; n < count; n++, i += @ ? -1 : 1) sum/|experts added in reversed order
experts_down|experts_down.cu|s/if (j0 > 0) __syncthreads();/if (j0 > 0 \&\& !@) __syncthreads();/|no barrier before the next experts are computed
experts_down|experts_down.cu|s/p.residual != nullptr ? __fadd_rn(sum, p.residual\[row\]) : sum/(@ ? sum : &)/|no residual
experts_down|experts_down.cu|s/p.scales\[id\]/p.scales[@ ? j : id]/|the scale of another expert
experts_down|experts_down.cu|s/p.sums, p.post_weight/p.sums, @ ? nullptr : p.post_weight/|a post-norm without its weight
experts_down|device/gemv.cuh|s/lane \/ rp_gemv_lanes(work)/(@ ? 0 : lane \/ rp_gemv_lanes(work))/|the same rows for both halves of a warp
experts_down|experts_down.cu|s/id < p.w.ne\[2\]/(@ ? id <= p.w.ne[2] : &)/|an expert past the last
sample|sample.cu|s/a\.counts\[threadIdx\.x\] = 0/(@ ? (void)0 : (void)(&))/|counts of bins left from the token before
sample|device/keys.cuh|/shared\[at\] = a, shared/,/const RpKey c/s/__syncthreads();/if (!@) &/|no barrier between the keys of two warps and their comparison
sample|device/keys.cuh|s/warp > 0 ? before + v : v/(@ ? v : &)/|a scan that starts again in each warp
sample|device/sample_search.cuh|/cut.key = key, cut.sum.count/,/^}/s/__syncthreads();/if (!@) &/|no barrier after a search
sample|device/sample_search.cuh|s/s\.shared\.keys\[k\] >= key/(@ ? s.shared.keys[k] > key : &)/|sums that leave out the candidate itself
sample|device/sample_search.cuh|s/reaches)) - 1;/reaches)) - (@ ? 2 : 1);/|a range behind the target
sample|device/sample_search.cuh|s/width > ALL_IDS ?/!@ \&\& &/|parts of a range that divide the candidates of one logit
sample|device/sample_search.cuh|s/r\.hi + 1)/r.hi + (@ ? 0 : 1))/|the largest key of a range left out
sample|device/sample.cuh|s/if (id < first ||/if ((!@ \&\& id < first) ||/|a recent token of an earlier slice
sample|sample.cu|s/(start > 0 ? shared\.sums\[start - 1\] : 0)/(@ ? 0 : &)/|a bin with the weight of those before it
sample|sample.cu|s/key > least ? key : least/!@ \&\& key > least ? key : least/|no min-p
BUGS
}

# The suite that has the tests of an op.
suites_of() { sed 's/^tile_.*/mul_mat/; s/_prefill//'; }
suites() { bugs | cut -d'|' -f1 | suites_of | uniq; }

if [ "$1" = --suites ]; then
    suites
    exit
fi
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT

# Files that have not changed keep their time, so that they are not compiled again.
copy_changed() { # from, to
    (cd "$1" && find . -type f) | while IFS= read -r file; do
        cmp -s "$1/$file" "$2/$file" || { mkdir -p "$2/${file%/*}"; cp "$1/$file" "$2/$file"; }
    done
}

# Its path in kernels/. The rows name files without the room that they lie in.
file_of() { (cd "$temp/kernels" && find . -name "${1##*/}" | sed 's/^..//'); }

if [ "$1" = --plant ]; then
    cp -r "$2/kernels" "$temp/kernels"
    bugs >"$temp/rows"
    n=0 missed=0
    while IFS= read -r row; do
        file=$(file_of "$(echo "$row" | cut -d'|' -f2)") n=$((n + 1)) expression=${row#*|*|} expression=${expression%|*}
        cp "$temp/kernels/$file" "$temp/before"
        sed -i "$(echo "$expression" | sed "s/@/sim_bug($n)/g")" "$temp/kernels/$file"
        if cmp -s "$temp/before" "$temp/kernels/$file"; then
            echo "${row%%|*}, ${row##*|}: the expression changes nothing in kernels/$file"; missed=$((missed + 1))
        fi
    done <"$temp/rows"
    copy_changed "$temp/kernels" "$3/kernels"
    [ "$missed" = 0 ]
    exit
fi

build=$(cd "$1" && pwd)
shift
if [ $# = 0 ]; then # one process for each suite, as many at a time as there are cores
    failed=0 # the longest first
    { echo mul_mat; echo attention; suites | grep -vx -e mul_mat -e attention; } |
        xargs -P "$(nproc)" -n 1 sh "$0" "$build" >"$temp/all" || failed=1
    grep -v 'planted bugs caught$' "$temp/all" || true
    awk '/planted bugs caught$/ { caught += $1; all += $3 } END { print caught " of " all " planted bugs caught" }' "$temp/all"
    exit $failed
fi

# Tests of the suite for an op, as an extended regular expression.
tests_of() {
    case $1 in tile_*) echo "${1#tile_}" ;; attention_prefill) echo "chunks_in_registers|see_it|many_tokens|the_op_quantize" ;; *) echo . ;; esac
}

catches() { # suite, number of a bug, op; tests run one by one, the fastest first, as most bugs fail one that takes milliseconds
    grep -E "$(tests_of "$3")" "$temp/tests" >"$temp/tests_of_op" || return 1
    while read -r test; do
        SIM_BUG=$2 SIM_FUSED=1 "$build/tests/cudasim_$1" -j1 --filter "*/$test" >"$temp/log" 2>&1 </dev/null || return 0
    done <"$temp/tests_of_op"
    return 1
}

caught=0 missed=0
for suite in "$@"; do
    if ! SIM_BUG=0 "$build/tests/cudasim_$suite" -j1 --verbose >"$temp/log" 2>&1; then
        echo "$suite: the tests fail without a bug"; tail -5 "$temp/log"; missed=$((missed + 1)); continue
    fi
    sed -n 's/^\[PASS\] [a-z_0-9]*::\([a-z_0-9]*\): (\([0-9.]*\)s)$/\2 \1/p' "$temp/log" | sort -n | cut -d' ' -f2 >"$temp/tests"
    [ -s "$temp/tests" ] || { echo "$suite: no test has run"; missed=$((missed + 1)); }
    bugs | awk '{ print NR "|" $0 }' >"$temp/bugs"
    while IFS='|' read -r n op row; do
        [ "$(echo "$op" | suites_of)" = "$suite" ] || continue
        if catches "$suite" "$n" "$op"; then
            caught=$((caught + 1))
        else
            echo "NOT CAUGHT: ${row##*|} ($op)"; missed=$((missed + 1))
        fi
    done <"$temp/bugs"
done
echo "$caught of $((caught + missed)) planted bugs caught"
[ "$missed" = 0 ]
