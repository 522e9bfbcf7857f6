#!/bin/sh
# Makes the packages and tests each of them in a clean Debian root, without the source tree:
#
#   libreprise0, libreprise-dev, reprise    Debian packages           installed, the program and a C program run
#   reprise-VERSION-py3-none-....whl        wheel for Python          used by the Python of Debian, where there is no compiler
#   reprise-sys, reprise                    crates for Rust           used by a new program with libreprise-dev, no flags
#   reprise-go-VERSION.tar.gz               module for Go             used by a new program with libreprise-dev, no flags
#
#   scripts/packages.sh [OUT]      OUT: folder of the packages, default build/packages
#   REPRISE_CUDA=ON                with CUDA, if the toolkit is found; default OFF
#
# It needs root for the tests, the Debian packages of the tools, and debootstrap, which fetches Debian's packages. If one of these is
# missing, a line that begins with SKIPPED says which, and the exit status is 77.
set -eu
cd "$(dirname "$0")/.."
source=$PWD
out=$(realpath -m "${1:-build/packages}")
. scripts/setup.sh
need_or_skip() { (need "$@") || { echo "SKIPPED: one of the packages $* is missing"; exit 77; }; }
# shellcheck disable=SC2086
need_or_skip $BUILD_PACKAGES dpkg-dev python3 python3-pip python3-venv
work=$source/build/packages-work cuda=${REPRISE_CUDA:-OFF}
mkdir -p "$out" "$work"
rm -f "$out"/*.deb "$out"/*.whl "$out"/*.crate "$out"/*.tar.gz
version=$(sed -n 's/^project(reprise VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
step() { echo "== $*"; }

step "Debian packages"
cmake -S . -B "$work/deb" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DRP_TESTS=OFF -DRP_CUDA="$cuda" \
    -DRP_BLAS=off >"$work/log" 2>&1 && ninja -C "$work/deb" >>"$work/log" 2>&1 || { tail -20 "$work/log"; exit 1; }
(cd "$work/deb" && rm -f ./*.deb && cpack -G DEB >>"$work/log" 2>&1) || { tail -20 "$work/log"; exit 1; }
cp "$work"/deb/*.deb "$out"

step "wheel"
[ -d "$work/python" ] || python3 -m venv "$work/python"
"$work/python/bin/pip" wheel -q --no-deps -w "$out" ./bindings/python --config-settings=build-dir="$work/wheel" \
    --config-settings=cmake.define.RP_CUDA="$cuda"

step "crates and Go module"
for crate in reprise-sys reprise; do
    mkdir -p "$work/$crate-$version"
    git archive HEAD "bindings/rust/$crate" | tar -x --strip-components=3 -C "$work/$crate-$version"
    tar -C "$work" -czf "$out/$crate-$version.crate" "$crate-$version"
done
git archive --prefix="reprise-go-$version/" HEAD:bindings/go | gzip -9 >"$out/reprise-go-$version.tar.gz"
ls -l "$out"

[ "$(id -u)" = 0 ] || { echo "SKIPPED: tests in a clean root: not root"; exit 77; }
need_or_skip debootstrap
root=$(mktemp -d)
clean() {
    umount "$root/developer/proc" 2>/dev/null || true
    rm -rf --one-file-system "$root"
}
trap clean EXIT
trap 'exit 130' INT TERM
. /etc/os-release
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\).*/\2/p' | head -1)

step "a clean root of Debian $VERSION_CODENAME"
debootstrap --variant=minbase "$VERSION_CODENAME" "$root/user" "$mirror" >"$work/log" 2>&1 ||
    { tail -5 "$work/log"; echo "SKIPPED: debootstrap failed: is this machine offline?"; exit 77; }
cp -a "$root/user" "$root/developer"
mount -t proc proc "$root/developer/proc" # rustc needs it; the packages for users are tested without
inside() { # root, command: with apt's settings and the name server of this machine
    name=$1
    shift
    mkdir -p "$root/$name/packages"
    cp "$out"/* "$root/$name/packages"
    cp /etc/resolv.conf "$root/$name/etc/resolv.conf"
    rm -f "$root/$name/etc/apt/sources.list"
    cp -r /etc/apt/. "$root/$name/etc/apt"
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        chroot "$root/$name" sh -eux -c "$*"
}
passed=0
check() { # title, root, command
    title=$1
    shift
    if inside "$@" >"$work/log" 2>&1; then
        echo "ok      $title"
        passed=$((passed + 1))
    else
        echo "FAILED  $title"; tail -30 "$work/log"; exit 1
    fi
}
install='apt-get update -qq && apt-get install -y -qq --no-install-recommends'

check "reprise: the program and the demo model" user "$install /packages/reprise_*.deb
    reprise --version && test -n \"\$(reprise generate -p 'In the beginning' -n 8 -q)\" && test -s /usr/share/man/man1/reprise.1"
check "wheel: Python of Debian, no compiler" user "$install python3-numpy python3-pip
    ! command -v gcc && python3 -m pip install -q --no-index --break-system-packages /packages/*.whl
    cd / && python3 -c 'import reprise; text = reprise.Model().generate(\"In the beginning\", max_tokens=8).text
assert text, text
import numpy; assert abs(reprise.nn.silu(numpy.ones(3, numpy.float32))[0] - 0.7310586) < 1e-6'"

sed -n '/^```rust/,/^```$/{/^```/d;p}' bindings/rust/README.md >"$root/developer/main.rs"
sed -n '/^```go$/,/^```$/{/^```/d;p}' bindings/go/README.md >"$root/developer/main.go"
cp examples/graph.c "$root/developer"
demo='mkdir -p assets && cp /usr/share/reprise/demo.gguf assets'
check "libreprise-dev: a C program by pkg-config" developer "$install gcc libc6-dev pkg-config /packages/*.deb
    cc /graph.c \$(pkg-config --cflags --libs reprise) -o /graph && /graph && ldd /graph | grep -q libreprise.so.0"
check "crates: a new program, no flags" developer "$install cargo
    mkdir -p /rust && cd /rust && for c in /packages/*.crate; do tar -xf \$c; done
    cargo new -q --vcs none app && cd app && $demo && cp /main.rs src
    sed -i 's|path = \"../reprise-sys\"|path = \"../reprise-sys-$version\"|' ../reprise-$version/Cargo.toml
    echo 'reprise = { path = \"../reprise-$version\" }' >>Cargo.toml
    test -n \"\$(cargo run --offline)\""
check "Go: a new module, no flags" developer "$install golang-go
    mkdir -p /go/app && cd /go && tar -xf /packages/reprise-go-*.tar.gz && cd app && $demo && cp /main.go .
    go mod init app && go mod edit -require=reprise@v0.0.0 -replace=reprise=/go/reprise-go-$version
    test -n \"\$(GOFLAGS=-mod=mod GOPROXY=off go run .)\""
echo "$passed passed, 0 failed, 0 skipped"
