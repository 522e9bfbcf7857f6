#!/bin/sh
# Installs missing packages, builds, and runs the tests of the release build, with the CUDA kernels on a simulated device. One
# of three groups of slow builds follows, in turn by the number of commits:
#
#   tsan, aarch64, spills    the thread sanitizer; aarch64 in qemu; register spills of the kernels
#   asan                     address and undefined behaviour sanitizers; fuzzing
#   race                     every access of the kernels checked; planted bugs
#
# asan is the longest group. With it every second suite runs in its build instead of the release build. The next time the
# other suites do. The release build has no CUDA then, and the kernels run on the simulated device.
#
#   scripts/test.sh [--quick | --all | --slow BUILD...]
#                                          --quick: the release build only, without the bindings
#                                          --slow: these of asan, tsan, aarch64, spills and race instead of those whose
#                                          turn it is
#                                          --all: all of them, and tests that take long, for every night: PTX of sm_75 and sm_80, tiny
#                                          models of every family from PTX, bugs planted in PTX, every call of the program
#                                          failing, perplexity of every window, failing calls in qemu, agents against the
#                                          server, the HTML book, the packages in a clean root, ten minutes of fuzzing
set -eu
cd "$(dirname "$0")/.."
quick='' all='' limit=3600 without_long='-LE long' ptx=90 half='' # limit: seconds of a suite that hangs
slow_builds='asan tsan aarch64 race spills'
commits=$(git rev-list --count HEAD 2>/dev/null || echo 0)
turn() { shift $((commits % $#)); echo "$1"; }
slow=$(turn 'tsan aarch64 spills' asan race)
case ${1-} in
--slow) shift; slow="$*"
        for build in $slow; do
            case " $slow_builds " in *" $build "*) ;; *) echo "scripts/test.sh --slow $build: must be one of $slow_builds"; exit 2 ;; esac
        done ;;
--quick) quick=1 slow='' without_long='-LE long|bindings' ;;
--all) all=1 slow=$slow_builds limit=14400 without_long='' ptx='90;75;80'; export REPRISE_TEST_EVERY_CALL=1 REPRISE_TEST_EVERY_WINDOW=1
        export REPRISE_TEST_EVERY_MODEL=1 REPRISE_TEST_EVERY_WORKERS=1 REPRISE_TEST_EVERY_ORDER=1 REPRISE_TEST_WANDB=1 REPRISE_TEST_TORCH=1 ;;
'') [ "$slow" != asan ] || half=$((commits / 3 % 2)) ;; # 1: suites with odd numbers run in that build, 0: even ones
*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
. scripts/setup.sh

# shellcheck disable=SC2086
need $BUILD_PACKAGES g++ ccache clang-format-14 libcriterion-dev systemtap-sdt-dev nodejs abigail-tools python3 python3-numpy python3-pip python3-venv \
    python3-selenium graphviz
passed=0 failed=0 skipped=0 names=
skip() { # number of tests, what they test: named again at the end
    echo "SKIPPED: $2" >&2
    skipped=$((skipped + $1)) names="$names
  skipped: $2"
}
log=$(mktemp) builder=
stop() {
    [ -z "$builder" ] || kill "$builder" 2>/dev/null || true
    rm -f "$log" "$log".*
}
trap stop EXIT
trap 'exit 130' INT TERM

began=$(date +%s)
wanted() { case " $slow " in *" $1 "*) ;; *) return 1 ;; esac; } # a slow build
step() { echo; echo "== $* (after $((($(date +%s) - began) / 60)) min) =="; }

# Packages of the slow builds and of tests. They are installed while the release build runs, which needs none of them.
install_more() {
    [ -z "$quick" ] || return 0
    if wanted aarch64; then
        { (need gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static) && scripts/arm64-libs.sh >/dev/null; } || touch "$log.no-aarch64"
    fi
    need clang libclang-rt-14-dev lld
    # The tests of a binding whose toolchain is missing are skipped, and those of the chat page without a browser.
    (need cargo rustc golang-go) || true
    (need nginx-light) || true # the example of a proxy
    [ -z "$all" ] || (need bpftrace linux-perf gdb) || true # probes
    (need chromium chromium-driver) || true
}

# The simulated device needs only the headers of the CUDA toolkit.
headers=
if [ ! -f /usr/local/cuda/include/cuda_runtime_api.h ] && ! command -v nvcc >/dev/null; then
    step "CUDA headers"
    headers=$(scripts/cuda-headers.sh) || skip 1 "tests of the CUDA kernels, whose headers could not be fetched"
fi

# Without a GPU the PTX of one architecture, with source lines, is interpreted (sim/ptx). Its machine code, which takes half of
# the time of nvcc, shows that the kernels have no register spills.
one_arch=
if ! command -v nvidia-smi >/dev/null; then
    architecture=90-virtual
    ! wanted spills || architecture=90
    one_arch="-DRP_CUDA_ARCHITECTURES=$architecture -DCMAKE_CUDA_FLAGS=-lineinfo"
fi
[ -z "$half" ] || one_arch="-DRP_CUDA=OFF -DRP_PTX=OFF"

# The suites of the race build that run as they are, and those that find planted bugs, which
# tests/planted_bugs/kernels.sh runs without a bug and with each.
race_suites() { # further options of ctest
    ctest --test-dir build/race -R cudasim -E "session|faults|bind|blas|^cudasim_($(tests/planted_bugs/kernels.sh --suites | paste -sd'|'))\$" "$@"
}
race_targets() {
    race_suites -N | sed -n 's/.*: \(cudasim_[a-z_0-9]*\)$/\1/p'
    tests/planted_bugs/kernels.sh --suites | sed 's/^/cudasim_/'
}

# The race build compiles the C sources with the options of the release build: it takes their objects from a cache.
export CCACHE_DIR="$PWD/build/ccache"

build() { # preset, build folder
    preset=$1 folder=$2 fresh='' targets='' launcher=''
    case $preset in release | race) launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache ;; esac
    # A folder of another generator, as of a plain `cmake -B build`, is configured anew.
    grep -qs '^CMAKE_GENERATOR:INTERNAL=Ninja$' "$folder/CMakeCache.txt" || fresh=--fresh
    set --
    # shellcheck disable=SC2086
    [ "$preset" = race ] || set -- $one_arch -DRP_PTX_ARCHITECTURES="$ptx" ${all:+-DRP_PTX=ON}
    # The race build checks the accesses and the undefined behaviour of the kernels.
    [ "$preset" != asan ] || [ ! -d build/sim ] || set -- "$@" -DRP_SIM_KERNELS_FROM="$PWD/build"
    # shellcheck disable=SC2086
    cmake $fresh --preset "$preset" $launcher ${headers:+-DRP_CUDA_HEADERS="$PWD/$headers"} "$@"
    touch "$log.$preset.configured"
    if [ "$preset" = race ]; then
        [ -d "$folder/sim/planted" ] || exit 0
        targets=$(race_targets)
    fi
    # shellcheck disable=SC2086
    exec nice -n 4 ninja -C "$folder" $targets
}

# Builds run ahead of the tests at a low priority: they use the time in which tests leave a core idle. Not
# at the lowest: beside other busy programs they would get no time. The log of a build is $log.PRESET, its status $log.PRESET.rc.
build_all() { # preset...
    child=
    trap '[ -z "$child" ] || kill "$child"; exit 1' TERM
    for preset in "$@"; do
        folder=build/$preset rc=0
        [ "$preset" != release ] || folder=build
        while [ "$preset" != release ] && [ ! -e "$log.installed" ]; do sleep 1; done
        [ "$preset" != aarch64 ] || [ ! -e "$log.no-aarch64" ] || continue
        build "$preset" "$folder" >"$log.$preset" 2>&1 &
        child=$!
        wait "$child" || rc=$?
        echo "$rc" >"$log.$preset.rc"
        [ "$rc" = 0 ] || break
    done
}
await() { # preset: waits for its build
    while [ ! -s "$log.$1.rc" ]; do
        kill -0 "$builder" 2>/dev/null || [ -s "$log.$1.rc" ] || { echo "the build of $1 was stopped"; exit 1; }
        sleep 0.2
    done
    [ "$(cat "$log.$1.rc")" = 0 ] || { tail -60 "$log.$1"; exit 1; }
}
presets=release
for preset in $slow; do
    [ "$preset" = spills ] || presets="$presets $preset"
done
# shellcheck disable=SC2086
build_all $presets &
builder=$!
install_more
touch "$log.installed"

# Real models. If one cannot be fetched, the tests that need it are skipped.
step "models"
for model in smollm2 gemma3 minilm; do
    scripts/get-model.sh "$model" || skip 1 "tests with $model, which could not be fetched"
done

slowest() { # log of ctest: the suites that dominate its time
    echo "slowest suites:"
    sed -n 's/.*Test *#[0-9]*: *\([a-z_0-9]*\) .* \([0-9.]*\) sec.*/\2 s  \1/p' "$1" | sort -rn | head -5 | sed 's/^/  /'
}

suite() { # preset, title, build folder, further options of ctest; tests inherit the environment
    step "$2"
    await "$1"
    # shellcheck disable=SC2086
    ctest --test-dir "$3" $without_long ${4-} -j$(($(nproc) + 1)) --output-on-failure --timeout $limit 2>&1 | tee "$log" | grep -vE '^ *(Start|Test project|Internal)' || true
    ran=$(sed -n 's/.* \([0-9][0-9]*\) tests failed out of \([0-9][0-9]*\)/\1 \2/p' "$log")
    [ -n "$ran" ] || { echo "ctest did not finish"; exit 1; }
    failed=$((failed + ${ran% *}))
    not_run=$(sed -n 's/.*Test *#[0-9]*: *\([a-z_0-9]*\) .*\*\*\*Skipped.*/\1/p' "$log" | paste -sd' ')
    passed=$((passed + ${ran#* } - ${ran% *}))
    # shellcheck disable=SC2086
    if [ -n "$not_run" ]; then
        set -- "$1" $not_run
        passed=$((passed - $# + 1))
        skip $(($# - 1)) "of the $1 build: $not_run"
    fi
    slowest "$log"
}

# Workers that wait sleep after a microsecond: the suites that run have more workers than there are cores, and spinning took
# a third of their time. test_executor spins as users do.
export REPRISE_SPIN_US=1
checked='' only_there='' # suites that run in the build with the address sanitizer; those that run in no other build
if [ -n "$half" ]; then
    await release
    # Until the build is configured, ctest finds no suites or only some.
    until [ -e "$log.asan.configured" ] || [ -s "$log.asan.rc" ]; do sleep 1; done
    checked=$(ctest --test-dir build/asan -N | sed -n 's/^ *Test *#[0-9]*: *//p' | awk "NR % 2 == $half")
    real='test_(models|tokenizer|chat|hf_encoders)|cli_(text|terminal)' # they need real models
    only_there=$(echo "$checked" | grep -vxE "$real" | paste -sd'|')
    checked=$(echo "$checked" | paste -sd'|')
    [ -n "$checked" ] || { tail -60 "$log.asan"; echo "the build with the address sanitizer has no suites"; exit 1; }
fi
# recipe_add_an_op compiles a copy of the tree.
suite release "release build, warnings as errors" build ${half:+"-E ^(recipe_add_an_op|$only_there)\$"}
if [ -n "$all" ] && [ -d build/ptx/90 ]; then
    step "bugs planted in PTX"
    if tests/planted_bugs/ptx.sh build; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
fi
if [ -z "$quick" ]; then
    # Real models take too long there; the tiny models of every family run.
    slow_suite() { REPRISE_MODELS=/nonexistent suite "$@"; }
    ! wanted asan || slow_suite asan "address and undefined behaviour sanitizers" build/asan ${half:+"-R ^($checked)\$"}
    ! wanted tsan || slow_suite tsan "thread sanitizer" build/tsan

    if [ -e "$log.no-aarch64" ]; then
        skip 1 "tests on aarch64: no cross compiler, qemu or libraries"
    elif wanted aarch64; then
        slow_suite aarch64 "aarch64, run in qemu" build/aarch64
    fi

    if wanted race; then
        step "CUDA kernels on the simulated device with every access checked; mutation tests"
        await race
        if [ -d build/race/sim/planted ]; then
            if race_suites -j$(($(nproc) + 1)) --output-on-failure >"$log" 2>&1; then
                tail -3 "$log"; passed=$((passed + 1))
            else
                tail -60 "$log"; failed=$((failed + 1))
            fi
            if tests/planted_bugs/kernels.sh build/race; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
            if tests/planted_bugs/executor.sh . build; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
        else
            skip 3 "race checks and planted bugs: no CUDA headers"
        fi
    fi

    if [ -n "$all" ]; then
        step "HTML book of the documentation"
        if scripts/docs.sh; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
        step "packages of Debian, Python, Rust and Go, in a clean root"
        rc=0
        scripts/packages.sh >"$log" 2>&1 || rc=$?
        cat "$log"
        case $rc in
        0) passed=$((passed + 1)) ;;
        77) skip 1 "the packages: $(sed -n 's/^SKIPPED: //p' "$log")" ;;
        *) failed=$((failed + 1)) ;;
        esac
    fi

    if wanted asan; then
        step "fuzzing"
        # shellcheck disable=SC2012
        targets=$(ls tests/fuzz/fuzz_*.c | wc -l) bad=0
        if [ -n "$all" ]; then scripts/fuzz.sh 10 || bad=$?; else scripts/fuzz.sh --gate || bad=$?; fi
        [ "$bad" -le "$targets" ] || bad=$targets # the targets did not build
        passed=$((passed + targets - bad)) failed=$((failed + bad))
    fi
fi
echo
echo "$passed passed, $failed failed, $skipped skipped, in $((($(date +%s) - began) / 60)) min$names"
[ -n "$quick$all" ] || echo "of the slow builds: ${slow:-none}; scripts/test.sh --all has each"
[ "$failed" = 0 ]
