#!/bin/bash
# Mutation test of the CUDA executor. Plants one bug at a time in a copy of the executor and the kernels it uses: its
# tests on the simulated device must fail. Only the changed file is compiled; it is linked as in the build.
#   executor.sh SOURCE_DIR BUILD_DIR [WORD]      WORD: only the bugs whose description contains it
#   executor.sh --apply SOURCE_DIR               fails if an expression changes nothing; builds nothing
set -eu
apply='' only=''
if [ "$1" = --apply ]; then
    apply=1 source=$(cd "$2" && pwd)
else
    source=$(cd "$1" && pwd) build=$(cd "$2" && pwd) only=${3-}
fi
all=$(mktemp -d) started=0 cores=$(nproc)
trap 'rm -rf "$all"' EXIT
export REPRISE_SPECIALIZE=off # but where a test sets it

compile() { # source file
    ninja -C "$build" -t commands cudasim_bind | grep -e " -c $source/$1\$" | tail -1 |
        sed "s| -M[DTF]* [^ ]*CMakeFiles[^ ]*||g; s| -MD||; s| -MT [^ ]*||; s| -MF [^ ]*||; s| -o [^ ]*| -o $temp/mutant.o|
             s| -c $source/$1| -c $temp/$1|; s| -I$source | -I$temp -I$source |; s| -Werror||; s| -O3 | -O1 |" >"$temp/compile"
    grep -q "$temp/$1" "$temp/compile" || { echo "$1 is not compiled into the tests"; return 1; }
    (cd "$build" && sh "$temp/compile")
}

# The original object is left out of the link command. If it is a member of an archive, the mutant comes first and is
# taken.
link() { # source file, test
    ninja -C "$build" -t commands "cudasim_$2" | tail -1 |
        sed "s| [^ ]*/$1\.o | |; s| -o tests/cudasim_$2 | $temp/mutant.o -o $temp/test |" >"$temp/link"
    (cd "$build" && sh "$temp/link")
}

# Prints one line, which begins with "caught" if the tests fail as they should.
plant() { # source file to compile, file to change, sed expression, tests, description
    cp -r "$source/${1%%/*}" "$temp/${1%%/*}"
    while read -r expression; do # one a line
        cp "$temp/$2" "$temp/before"
        sed -i "$expression" "$temp/$2"
        if cmp -s "$temp/before" "$temp/$2"; then
            echo "$5: this changes nothing in $2: $expression"; return
        fi
    done <<<"$3"
    if [ -n "$apply" ]; then echo "caught nothing yet"; return; fi
    if ! compile "$1" >"$temp/log" 2>&1; then
        echo "$5: does not compile"; tail -5 "$temp/log"; return
    fi
    for test in $4; do
        link "$1" "$test"
        [ "$test" != special ] || export REPRISE_SIM=ptx
        # Each test is a process of its own, and the first that fails ends the program. So a test that never ends is caught
        # by the limit of its processor time, which others on the machine do not change, or, if it mostly sleeps, after the
        # 120 s of hang.h.
        if ! (ulimit -t 60; REPRISE_TEST_HANG_S=120 SIM_FUSED=1 timeout 3600 "$temp/test" -j1 --fail-fast) >"$temp/log" 2>&1; then echo "caught $5"; return; fi
    done
    echo "NOT CAUGHT: $5 ($4)"
}

# As many at a time as there are cores, each in a folder of its own.
mutant() {
    case $5 in *"$only"*) ;; *) return 0 ;; esac
    started=$((started + 1))
    temp=$all/$started
    mkdir "$temp"
    plant "$@" >"$temp/result" 2>&1 &
    [ "$started" -lt "$cores" ] || wait -n
}

cuda=executor/cuda
mutant $cuda/capture.c $cuda/capture.c '/^static RpStatus record/,/^}/ s/RP_TRY(launch_now/if (r->step != 5) RP_TRY(launch_now/' \
    bind "a node left out of the capture"
mutant $cuda/capture.c $cuda/capture.c '/^static RpStatus record/,/^}/ s/RP_TRY(launch_now/if (r->step != 5) RP_TRY(launch_now/
    s/if (n != (size_t)(kernels + copies + mirrors))/if (n == 0)/' \
    bind "a node left out, and nodes are not counted"
mutant $cuda/capture.c $cuda/capture.c '/^static RpStatus enqueue/,/^}/ s/RP_TRY(rp_cuda_enqueue_inputs(c));//
    s/if (n != (size_t)(kernels + copies + mirrors))/if (n == 0)/' bind "inputs that a replay does not copy"
mutant $cuda/enqueue.c $cuda/enqueue.c '/^RpStatus rp_cuda_enqueue_outputs/,/^}/ s/if (!m->is_input)/if (m->is_input)/' \
    bind "outputs that are not copied"
mutant $cuda/enqueue.c $cuda/enqueue.c '/^RpStatus rp_cuda_enqueue_outputs/,/^}/ s/c->base.step != NULL/c->base.step == NULL/' \
    bind "the token of a replay that is not copied"
mutant $cuda/executor.c $cuda/executor.c '/^static RpStatus zeroed/,/^}/ s/cudaMemsetAsync([^)]*)/cudaSuccess/' \
    bind "states (KV cache) that are not zeroed"
mutant $cuda/executor.c $cuda/executor.c '/^static RpStatus run_cuda/,/^}/ s/rp_cuda_wait_after(c, st, "run of the plan")/st/' \
    bind "a run that is not waited for"
mutant $cuda/bind.c $cuda/bind.c 's/if (c->exec != NULL) RP_TRY(repoint_all(c));//' bind \
    "captured nodes that are not repointed"
mutant $cuda/bind.c $cuda/bind.c '/^static RpStatus repoint_all/,/^}/ s/c->base.step == NULL/c->n_captured > 0/' bind \
    "the sampled token of another step state"
mutant $cuda/held.c $cuda/held.c 's/n_words \* sizeof \*c->extra/(n_words - n_words) * 4/' held "a mask that is not copied"
mutant $cuda/held.c $cuda/held.c 's/const bool before = rp_traced_call(e);/const bool before = rp_traced_call(e); st = rp_cuda_wait_steps(c, "");/' held \
    "a mask that is made when the step has ended"
mutant $cuda/bind.c $cuda/bind.c 's/if (n->front == NULL) return RP_OK;/if (r != NULL) return RP_OK;/' held_runs \
    "captured nodes before the sampler that are not repointed"
mutant model/structured.c model/structured.c 's/x->asked = x->ready = false;/x->asked = false;/' held "the mask of an earlier state"
mutant model/reply.c model/reply.c 's/s->has_extra *= true;//' held "a mask that stays for the next reply"
mutant model/reply.c model/reply.c 's/return rp_session_reply_end(s); .*/return RP_OK;/' held "a forced token that the step state on the device lacks"
mutant model/engine/step.c model/engine/step.c 's/rp_executor_run_while(r->executor, .*)/rp_executor_run(r->executor))/' held_runs \
    "masks of an engine that are made when the step has ended"
mutant executor/executor.c executor/executor.c 's/^    point_to_states(e, before);$//' rebind "some states bound, some not"
mutant executor/executor.c executor/executor.c 's/memcmp(x->args.params, y->args.params, bytes) != 0/false/' \
    bind "weights of a plan with other parameters"
mutant executor/reply.c executor/backend.h 's/ \&\& e->bound == NULL//' bind "a loop that ignores which states are bound"
mutant executor/reply.c executor/reply.c 's/if (r->end\[i\] == token) return true;//' bind "a host that ignores end tokens"
mutant executor/launch.c executor/backend.h 's/ \&\& e->bound == NULL//' rebind "a loop that is reported and not used"
mutant $cuda/executor.c $cuda/executor.c 's/ \&\& c->old_code == 0//' overlap "PDL of kernels whose code cannot wait"
mutant kernels/loop.cu kernels/loop.cu 's/^    rp_pdl_wait();//; s/^\(    cudaGraphSetConditional.*\)$/    rp_pdl_wait();\n\1/' loop \
    "a token that is read before the wait"
mutant kernels/sample.cu kernels/device/sample.cuh 's/a.step->pos = s.pos + 1/a.step->pos = s.pos/' bind "a position that does not advance"
mutant kernels/loop.cu kernels/loop.cu 's/ || stop != 0//' rebind "a loop that cannot be stopped"
mutant kernels/loop.cu kernels/loop.cu 's/ | (uint32_t)token//' bind "a ring slot that has the number but not the token"
mutant kernels/loop.cu kernels/loop.cu 's/c->number++;//' bind "ring slots that are not numbered"
mutant kernels/loop.cu kernels/loop.cu '/c->end\[i\] == token/d' bind "a loop that ignores end tokens"
mutant kernels/loop.cu kernels/loop.cu 's/l.step->pos >= c->n_ctx/false/' rebind "a loop past the context"
mutant $cuda/loop.c $cuda/loop.c 's/c->loop.next += (uint32_t)c->loop.in_launch;//' rebind "tokens of the previous reply"
mutant $cuda/loop.c $cuda/loop.c 's/if (now != cudaErrorNotReady) return.*//' faults "a loop that goes on when the device is lost"
mutant $cuda/loop.c $cuda/loop.c 's/l->running = d->looping = true/l->running = true/' rebind "a run while a loop runs"
mutant $cuda/watchdog.c $cuda/watchdog.c 's/rp_cuda_watches(d) ? poll(d, over) : //' watchdog "a watchdog that waits for ever"
mutant $cuda/watchdog.c $cuda/watchdog.c 's/n_done == w->n_done ? w->idle/true ? w->idle/' watchdog "a watchdog with a limit for the whole run"
mutant $cuda/watchdog.c $cuda/watchdog.c 's/ \&\& cudaStreamQuery(d->stream) != cudaErrorNotReady/ \&\& false/' watchdog \
    "a watchdog that never sees a late end"
mutant $cuda/watchdog.c $cuda/watchdog.c 's/(n - l->first) + 1/(l->next - l->first) + 1/' watchdog \
    "a watchdog that counts the tokens that were read"
mutant $cuda/enqueue.c $cuda/enqueue.c 's/++w->n_done/w->n_done++/' watchdog "a watchdog whose marks are one step late"
mutant $cuda/device.c $cuda/device.c 's/if (rp_cuda_hangs(index, why, sizeof why))/if (false)/' watchdog \
    "a watchdog that lets others open the device"
mutant $cuda/memory.c $cuda/memory.c 's/if (!rp_cuda_hangs(m->device.index, NULL, 0))/if (true)/' watchdog \
    "a watchdog that frees memory of the program"
mutant executor/executor.c executor/executor.c 's/    if (hangs(e)) {/    if (false) {/' watchdog "a watchdog that frees executors"
mutant executor/executor.c executor/executor.c 's/ \&\& !hangs(s->maker)//' watchdog "a watchdog that frees states"
mutant $cuda/profile.c $cuda/profile.c 's/st = rp_executor_put_step(e, step);/st = RP_OK;/' bind "a profile that changes the step state"
mutant $cuda/verify.c $cuda/verify.c 's/(char \*)w->args.src\[k\].data + w->src\[k\].offset/on->src[k].data/' rebind \
    "a comparison with the device's own weights"
mutant $cuda/device.c $cuda/device.c 's/cudaEventSynchronize(u->done\[k\])/cudaSuccess/' upload \
    "a piece of a weight that overwrites the one before"
mutant $cuda/device.c $cuda/device.c '/cudaEventRecord(u->done/ s/u->streams\[k\]/u->streams[0]/' upload \
    "an event that is reached before the copy of the other stream"
mutant $cuda/device.c $cuda/device.c 's/u->streams\[k\] != NULL) (void)cudaStreamDestroy/false) (void)cudaStreamDestroy/' upload "streams that stay open"
mutant $cuda/call.c $cuda/call.c 's/ \&\&$/ \&\& now < 0 \&\&/' faults "a lost device that is not noticed"
mutant $cuda/call.c $cuda/call.c 's/ \&\&$/ ||/' faults "an invalidated capture taken for a lost device"
mutant model/reply.c model/reply.c 's/st == RP_OK || st == RP_E_ARG/st == RP_OK/' faults "a token that was run but is not counted"
mutant kernels/fused/linear.cu kernels/device/weights.cuh 's/return f(QuantType<RP_##ID>/return f(QuantType<RP_##ID == RP_Q4_0 ? RP_Q5_0 : RP_##ID>/' bind \
    "the kernel of another quant type"
# constants of a device
mutant $cuda/tune.c $cuda/tune.c 's/gain > least/gain > 0.0/' tune "a gain of one percent that counts"
mutant $cuda/tune.c $cuda/tune.c 's/gain > noise\[0\] && gain > noise\[k\]/true/' tune "a gain within the noise that counts"
mutant $cuda/tune.c $cuda/tune.c 's/ && out->us\[k\] < out->us\[best\]//' tune "the last candidate that is faster instead of the fastest"
mutant $cuda/tune.c $cuda/tune.c 's/ driver, runtime,$/ 0, 0,/' tune "constants of another driver"
mutant $cuda/tune.c $cuda/tune.c 's/&& rp_seconds() < deadline; t->rounds/; t->rounds/' tune "rounds that do not end"
mutant $cuda/tune.c $cuda/tune.c 's/if (rp_seconds() < deadline) RP_TRY/RP_TRY/' tune "a measurement after its time"
mutant $cuda/tune.c $cuda/tune.c 's/    apply(d, d->tuned.constants);/    ;/' tune "cached constants that are not used"
mutant $cuda/executor.c $cuda/executor.c 's/ && !slower//' tune "kernels that overlap although they are slower so"
mutant $cuda/tune_bench.c $cuda/tune_bench.c '/^void rp_tune_bench_close/,/^}/ s/(void)cudaFree(b->memory);/(void)0;/' tune "memory of a measurement that stays"
# kernels of source text
mutant $cuda/source.c $cuda/source.c '/^void rp_cuda_sources_close/,/^}/ s/rp_cuda_library_unload(.*);/;/' source "libraries that are not unloaded"
mutant $cuda/source.c $cuda/source.c 's/(info->source->flags & RP_SOURCE_WAITS) != 0/true/' source "a kernel that does not wait starts early"
mutant $cuda/source.c $cuda/source.c 's/if (threads > (unsigned)a.maxThreadsPerBlock)/if (false)/' source "more threads than the registers allow"
mutant $cuda/source.c $cuda/source.c 's/l->block\[2\] <= 64/true/' source "a block that no device allows"
mutant executor/plan_walk.c executor/plan_walk.c '/ctx->op  *= /d' source "a launch without its op"
mutant $cuda/code_cache.c $cuda/code_cache.c 's/h.key == key_bytes && memcmp(b->symbol + h.symbol, key, key_bytes) == 0/true/' \
    source_cache "an entry of another key is used"
mutant $cuda/code_cache.c $cuda/code_cache.c 's/memcmp(check, h->check, sizeof check) == 0/true/' source_cache "a checksum that is not compared"
mutant $cuda/code_cache.c $cuda/code_cache.c 's/(s->st_mode & (S_IWGRP | S_IWOTH)) == 0/true/' source_cache "code that others can write to is used"
mutant $cuda/compile.c $cuda/compile.c 's/ && !rp_cuda_code_includes_files(&j->code)//' source_cache "a source that includes files is kept"
# specialised kernels
mutant $cuda/special.c $cuda/special.c 's/k->words\[i\] != words\[i\]/false/' special "a kernel with the constants of another launch"
mutant $cuda/special.c $cuda/special.c 's/s->addresses\[n_addresses++\] = words\[i\]/s->addresses[n_addresses++] = k->words[i]/' \
    special "a kernel with the addresses of another layer"
mutant $cuda/compile.c $cuda/compile.c 's/atomic_store(&b->cancelled, true)/(void)b/' special "an open that cannot be cancelled"

wait
cat "$all"/*/result | grep -v '^caught' || true
caught=$(cat "$all"/*/result | grep -c '^caught' || true)
[ -n "$apply" ] || echo "$caught of $started planted bugs caught"
[ "$caught" = "$started" ]
