#!/bin/sh
# Tests the bindings of Rust and Go with libraries that are built already.
#
#   scripts/test-rust-go.sh [BUILD]       BUILD: folder with libreprise.so and libreprise_nn.so; default: build
#
# It installs the toolchains on Debian. Tests are skipped, with the reason, where a toolchain is missing and cannot be
# installed, and where the build has no simulated device. The exit status is then 77, if nothing failed.
set -eu
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build}")
. scripts/setup.sh
passed=0 failed=0 skipped=0
PATH=/usr/bin:$PATH # Debian's toolchains: the oldest that must do
export LD_LIBRARY_PATH="$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" REPRISE_SOURCE="$PWD" REPRISE_THREADS=1

check() { # title, command...
    title=$1
    shift
    if "$@" >"$log" 2>&1; then
        passed=$((passed + 1)); echo "ok      $title"
    else
        failed=$((failed + 1)); echo "FAILED  $title"; tail -60 "$log"
    fi
}
skip() {
    skipped=$((skipped + 1)); echo "SKIPPED $1"
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT TERM

# The simulated device in the place of libreprise_nn: the tests of streams and buffers find a device then.
sim=$build/tests/libreprise_nn_sim.so
on_device() { # command of the tests, whose output names the device
    "$@" && grep -q "computed on" "$log"
}

for library in libreprise.so libreprise_nn.so; do
    [ -e "$build/$library" ] || { echo "$build has no $library: build it first, or name the folder"; exit 1; }
done
check "generated bindings: those of the headers" python3 bindings/generator/generate.py
check "generator of bindings" python3 bindings/generator/test_generator.py

if (need cargo rustc) 2>"$log"; then
    export REPRISE_LIB_DIR="$build" CARGO_TARGET_DIR="$build/bindings/rust" CARGO_NET_OFFLINE=true RUSTFLAGS="-D warnings"
    rust() { (cd bindings/rust && RUSTC=/usr/bin/rustc cargo test --locked "$@"); }
    check "Rust: $(rustc --version)" rust
    if [ -e "$sim" ]; then
        machine=$(rustc -vV | sed -n 's/^host: //p' | tr a-z- A-Z_)
        check "Rust: nn on the simulated device" on_device env "CARGO_TARGET_${machine}_RUNNER=env LD_PRELOAD=$sim" \
            sh -c 'cd bindings/rust && cargo test --locked -p reprise --test suite nn:: -- --nocapture'
    else
        skip "Rust: nn on the simulated device, which $build does not have"
    fi
else
    skip "Rust: $(tail -1 "$log")"
fi

if (need golang-go) 2>"$log"; then
    export GOCACHE="$build/bindings/go" GOFLAGS=-mod=mod GOPROXY=off GOTOOLCHAIN=local CGO_ENABLED=1
    export PKG_CONFIG_PATH="$build/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
    go_in() { (cd bindings/go && go "$@"); }
    formatted() { test -z "$(gofmt -l bindings/go | tee /dev/stderr)"; }
    check "Go: gofmt" formatted
    check "Go: vet" go_in vet ./...
    readme() { # the program of the README prints a reply
        mkdir -p "$build/bindings/readme"
        sed -n '/^```go$/,/^```$/{/^```/d;p}' bindings/go/README.md >"$build/bindings/readme/main.go"
        go_in build -o "$build/bindings/readme/main" "$build/bindings/readme/main.go" &&
            "$build/bindings/readme/main" | grep .
    }
    check "Go: README" readme
    check "Go: $(go version)" go_in test -count=1 ./...
    if [ -e "$sim" ]; then
        go_in test -c -o "$build/bindings/nn.test" ./nn
        check "Go: nn on the simulated device" on_device env "LD_PRELOAD=$sim" "$build/bindings/nn.test" -test.v
    else
        skip "Go: nn on the simulated device, which $build does not have"
    fi
else
    skip "Go: $(tail -1 "$log")"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] || exit 1
[ "$skipped" = 0 ] || exit 77
