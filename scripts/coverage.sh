#!/bin/sh
# Finds the branches that the tests take, and the functions and lines that they never run. It builds the C code with gcov in
# build/coverage, runs the suites that need no GPU, and prints the share of lines and branches per directory, then what never
# ran. The host code for CUDA is counted where it is compiled: for the simulated device.
#
#   scripts/coverage.sh [OPTIONS OF CTEST]     e.g. -R 'train|cli'; default: every suite but bindings, PTX and packaging
#   scripts/coverage.sh --cpu [OPTIONS...]     without the simulated device, in half the time
#   scripts/coverage.sh --report               reports what the last run counted, without running anything
#
# The report goes to build/coverage/never-run.txt too. JOBS: how many compilers and suites run at a time, default: one per core.
set -eu
cd "$(dirname "$0")/.."
build=build/coverage jobs=${JOBS:-$(nproc)} cpu=

report() { python3 tools/coverage.py "$build" | tee "$build/never-run.txt"; }

case ${1-} in
--report) report; exit ;;
--cpu) shift; cpu="-DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON -DRP_CUDA_HEADERS=" ;;
--help) sed -n '2,10p' "$0" | sed 's/^# \{0,1\}//'; exit 2 ;;
esac
. scripts/setup.sh
# shellcheck disable=SC2086
need $BUILD_PACKAGES gcc g++ python3
# Children of tests end by _exit, which writes no counts. A process of another user cannot write them, and one whose files may
# not grow would cut those of all others: it ends without, since gcov would add messages to its output.
mkdir -p "$build"
gcc -c -x c - -o "$build/exit.o" -D_GNU_SOURCE -DFOLDER="\"$PWD/$build\"" <<'EOF'
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
void __gcov_dump(void); void __real__exit(int); void __wrap__exit(int);
static int can_write(void) {
    struct rlimit l;
    return getrlimit(RLIMIT_FSIZE, &l) == 0 && l.rlim_cur == RLIM_INFINITY && euidaccess(FOLDER, W_OK) == 0;
}
static void at_exit(int status, void *none) {
    (void)none;
    if (!can_write()) fflush(NULL), __real__exit(status);
}
static __attribute__((constructor)) void begin(void) { on_exit(at_exit, NULL); }
void __wrap__exit(int status) {
    if (can_write()) __gcov_dump();
    __real__exit(status);
}
EOF
link="--coverage -Wl,--wrap=_exit $PWD/$build/exit.o"
# -O1 keeps the lines of a function apart and the kernels fast enough; -fno-inline counts every function by itself.
# shellcheck disable=SC2086
cmake -S . -B "$build" -G Ninja $cpu -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER=gcc -DRP_CUDA=OFF -DRP_PTX=OFF -DRP_TESTS=ON \
    -DCMAKE_C_FLAGS_DEBUG="-O1 -fno-inline --coverage" -DCMAKE_CXX_FLAGS_DEBUG=-O2 \
    -DCMAKE_EXE_LINKER_FLAGS="$link" -DCMAKE_SHARED_LINKER_FLAGS=--coverage -DCMAKE_MODULE_LINKER_FLAGS=--coverage >/dev/null
ninja -C "$build" -j "$jobs"
find "$build" -name '*.gcda' -delete
[ $# -gt 0 ] || set -- -E '^(bindings|abi|install|docs|gpu_model|gpu_check|planted|executor_bugs|layering|ptx)'
ctest --test-dir "$build" -j "$jobs" --timeout 3600 "$@" || echo "some suites failed; what they counted is reported"
report
