#!/bin/sh
# Measures and checks a build on a machine with an NVIDIA GPU: bandwidths, gaps between kernels, decode and prefill of
# several models, then results against the CPU, the tests of every op, and compute-sanitizer (tools/gpu_check.py). After
# each step OUTPUT_DIR/<gpu>-<date>.md and .json are written anew. Without a GPU: NOT RUN, exit status 77.
#
#   scripts/gpu-check.sh [options] [OUTPUT_DIR]       (default: bench/results)
#
#   --build-only     only build; needs no GPU. The programs in build/gpu-programs need nothing but the C library of the
#                    system and can be carried to another machine, with the sources
#   --no-build       use the programs in build/gpu-programs as they are
#   --arch LIST      build for these architectures: 90, or "90;120". Default: the GPU of this machine, with --build-only
#                    sm_80, sm_90 and PTX
#   --deadline MIN   leave out what would not end within MIN minutes, default 8; the most important steps come first
#   --only WORD      only the steps whose name contains WORD
#   --models DIR     folder for the models that are written, default: a temporary one. They take up to 45 GB
#   --dry-run BUILD  run every step on the simulated device of the build folder BUILD, with a tiny model
set -eu
cd "$(dirname "$0")/.."
build=build/gpu programs=build/gpu-programs only_build='' no_build='' dry='' arch='' out=''
usage() { sed -n '2,17s/^# \{0,1\}//p' "$0"; exit 2; }
left=$# # options of gpu_check.py move behind the others
while [ $left -gt 0 ]; do
    case $1 in
    --arch | --dry-run | --deadline | --only | --models) [ $left -ge 2 ] || usage ;;
    esac
    case $1 in
    --build-only) only_build=1 ;;
    --no-build) no_build=1 ;;
    --arch) arch=$2; shift; left=$((left - 1)) ;;
    --dry-run) dry=$2; shift; left=$((left - 1)) ;;
    --deadline | --only | --models) set -- "$@" "$1" "$2"; shift; left=$((left - 1)) ;;
    -*) usage ;;
    *) out=$1 ;;
    esac
    shift
    left=$((left - 1))
done

if [ -n "$dry" ]; then
    exec python3 tools/gpu_check.py --simulated "$dry" "$@" "${out:-$dry/gpu-check}"
fi
if [ -z "$only_build" ] && ! nvidia-smi -L >/dev/null 2>&1; then
    echo "NOT RUN: there is no NVIDIA GPU (nvidia-smi -L)"
    exit 77
fi
if [ -z "$no_build" ]; then
    echo "== build =="
    PATH=$PATH:/usr/local/cuda/bin
    generator=$(command -v ninja >/dev/null && echo Ninja || echo "Unix Makefiles")
    [ -n "$arch" ] || arch=$([ -n "$only_build" ] && echo portable || echo auto)
    mkdir -p "$build" "$programs"
    cmake -S . -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=Release -DRP_TESTS=ON -DRP_GPU_TESTS=ON -DRP_PORTABLE=ON \
        -DRP_CUDA_ARCHITECTURES="$arch" >"$build/log" 2>&1 || { tail -20 "$build/log"; exit 1; }
    cmake --build "$build" -j "$(nproc)" --target reprise_cli gpu_tests bench_cuda_gaps bench_cuda_read >"$build/log" 2>&1 ||
        { tail -40 "$build/log"; exit 1; }
    for program in reprise gpu_tests bench_cuda_gaps bench_cuda_read; do
        strip -o "$programs/$program" "$build/$program"
    done
    { git describe --always --dirty 2>/dev/null || echo unknown; } >"$programs/revision"
fi
if [ -n "$only_build" ]; then
    du -ch "$programs"/* | sed 's/^/  /'
    exit 0
fi
[ -x "$programs/reprise" ] || { echo "gpu-check.sh: $programs has no programs: --build-only makes them"; exit 1; }
exec python3 tools/gpu_check.py --programs "$programs" "$@" "${out:-bench/results}"
