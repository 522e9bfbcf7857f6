#!/bin/sh
# On a machine with an NVIDIA GPU: builds for it, runs the tests on it, verifies every node of the models, checks for races
# and invalid accesses, and measures. Writes OUTPUT_DIR/<gpu>-<date>.md and .json. Without a GPU: NOT RUN, exit status 77.
#
#   scripts/gpu-check.sh [--quick] [--build-only] [OUTPUT_DIR]     (default: bench/results)
#
#   --quick        measure llama3-8b in Q8_0 only, no compute-sanitizer
#   --build-only   only build; needs no GPU. The programs in build/gpu (reprise, gpu_tests, bench_cuda_gaps) need only the C
#                  library of the system. Copied with the sources to a machine with a GPU, they are used instead of
#                  building there.
set -eu
cd "$(dirname "$0")/.."
quick='' only='' out=bench/results build=build/gpu
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=1 ;;
    --build-only) only=1 ;;
    -*) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2 ;;
    *) out=$1 ;;
    esac
    shift
done
step() { echo; echo "== $* =="; }

if [ -z "$only" ] && ! nvidia-smi -L >/dev/null 2>&1; then
    echo "NOT RUN: there is no NVIDIA GPU (nvidia-smi -L)"
    exit 77
fi
if [ -n "$only" ] || [ ! -x "$build/reprise" ] || [ -f "$build/CMakeCache.txt" ]; then
    step "build"
    PATH=$PATH:/usr/local/cuda/bin
    generator=$(command -v ninja >/dev/null && echo Ninja || echo "Unix Makefiles")
    mkdir -p "$build"
    cmake -S . -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=Release -DRP_TESTS=ON -DRP_GPU_TESTS=ON -DRP_PORTABLE=ON \
        -DRP_CUDA_ARCHITECTURES="$([ -n "$only" ] && echo portable || echo auto)" >"$build/log" 2>&1 ||
        { tail -20 "$build/log"; exit 1; }
    cmake --build "$build" -j "$(nproc)" --target reprise_cli gpu_tests bench_cuda_gaps >"$build/log" 2>&1 ||
        { tail -40 "$build/log"; exit 1; }
fi
[ -z "$only" ] || { echo "built in $build"; exit 0; }
reprise=$build/reprise
[ -x "$reprise" ] || { echo "gpu-check.sh: there is no nvcc, and $reprise was not built before"; exit 1; }

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
failed=0 lines=$temp/checks
note() { # passed|FAILED|skipped, name of the check
    printf '%-8s %s\n' "$1" "$2" | tee -a "$lines"
    [ "$1" != FAILED ] || failed=$((failed + 1))
}
check() { # name, command...
    name=$1
    shift
    if "$@" >"$temp/log" 2>&1; then note passed "$name"; else note FAILED "$name"; tail -15 "$temp/log"; fi
}

step "device"
"$reprise" devices --copy
"$reprise" devices --copy --json >"$temp/devices.json"

step "tests on the GPU"
for suite in $(sed -n 's/^    OP([A-Z_0-9]*, *\([a-z_0-9]*\),.*/\1/p' include/reprise/ops.h) golden generate blas; do
    [ -f "tests/ops/test_$suite.c" ] || [ -f "tests/test_$suite.c" ] || continue
    case $suite in blas) blas=auto ;; *) blas=off ;; esac
    REPRISE_BLAS=$blas REPRISE_DEVICE=cuda check "tests of $suite" timeout 300 "$build/gpu_tests" "$suite"
done

step "every node against the CPU kernel; eager, replay and loop against each other"
for model in tests/golden/tiny/*.gguf assets/demo.gguf models/*.gguf; do
    [ -f "$model" ] || continue
    check "verify $(basename "$model")" timeout 300 "$reprise" verify -m "$model" --require-cuda --require-graph
done
for preset in $("$reprise" synth list | awk '{ print $1 }'); do
    case $preset in tiny | smollm2-135m)
        "$reprise" synth "$preset" -q --type Q4_K_M -o "$temp/$preset.gguf"
        check "verify $preset" timeout 300 "$reprise" verify -m "$temp/$preset.gguf" --require-cuda
        rm -f "$temp/$preset.gguf" ;;
    esac
done

step "perplexity with cuBLASLt and without"
perplexity() { "$reprise" perplexity --require-cuda -f README.md --window 128 -q --json "$@" |
    sed 's/.*"perplexity":\([0-9.]*\).*/\1/'; }
off=$(REPRISE_BLAS=off perplexity || echo none) blas=$(perplexity || echo none)
if awk -v a="$off" -v b="$blas" 'BEGIN { exit !(a > 1 && b > 1 && (a - b) / a < 0.01 && (b - a) / a < 0.01) }'; then
    note passed "perplexity $blas with cuBLASLt, $off without"
else
    note FAILED "perplexity $blas with cuBLASLt, $off without"
fi

if [ -n "$quick" ] || ! command -v compute-sanitizer >/dev/null; then
    note skipped "compute-sanitizer (not installed, or --quick)"
else
    step "compute-sanitizer"
    for op in mul_mat mul_mat_id attention get_rows rms_norm top_k sample copy; do
        for tool in memcheck racecheck; do
            REPRISE_DEVICE=cuda check "$tool $op" timeout 300 compute-sanitizer --tool "$tool" --error-exitcode 9 \
                --target-processes all "$build/gpu_tests" "$op"
        done
    done
fi

step "boundaries between kernels"
if "$build/bench_cuda_gaps" >"$temp/gaps.json"; then cat "$temp/gaps.json"; else note FAILED "cuda_gaps"; echo '{}' >"$temp/gaps.json"; fi

step "decode and prefill"
wanted="llama3-8b:Q8_0 llama3-8b:Q4_K_M llama3-8b:F16 qwen3-30b-a3b:Q4_K_M nn-6.9b:Q4_K_M"
[ -z "$quick" ] || wanted=llama3-8b:Q8_0
echo '[' >"$temp/bench.json"
separator=
for pair in $wanted; do
    preset=${pair%:*} type=${pair#*:} model=$temp/model.gguf
    "$reprise" synth "$preset" -q --type "$type" -o "$model" || { note skipped "bench $pair (the model could not be written)"; continue; }
    if "$reprise" bench -m "$model" --require-cuda -p 512 -n 128 -r 3 --json >"$temp/one.json" &&
        "$reprise" bench launches -m "$model" --require-cuda -n 64 --json >"$temp/two.json"; then
        "$reprise" profile -m "$model" --require-cuda --pos 512 --json >"$temp/three.json" || echo '{}' >"$temp/three.json"
        note passed "bench $pair"
        printf '%s{"name":"%s","bench":%s,"launches":%s,"profile":%s}\n' "$separator" "$pair" "$(cat "$temp/one.json")" \
            "$(cat "$temp/two.json")" "$(cat "$temp/three.json")" >>"$temp/bench.json"
        separator=,
    else
        note FAILED "bench $pair"
    fi
    rm -f "$model"
done
echo ']' >>"$temp/bench.json"

mkdir -p "$out"
python3 tools/gpu_report.py "$temp" "$out"
echo
echo "$(grep -c ^passed "$lines") passed, $failed failed, $(grep -c ^skipped "$lines") skipped"
[ "$failed" = 0 ]
