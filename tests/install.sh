#!/bin/sh
# Installs into a temporary folder and builds the examples against it: with pkg-config and with CMake, against the shared
# and against the static library. The programs find the shared library by their rpath, as the folder is not a system's.
#   install.sh SOURCE_DIR BUILD_DIR COMPILER
set -eu
source=$1 build=$2 compiler=$3
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
fail() { echo "install.sh: $*" >&2; exit 1; }
linked() { # program, "shared" or "static": whether it needs the shared library is as wanted
    kind=static
    readelf -d "$1" | grep -q 'NEEDED.*libreprise\.so\.0' && kind=shared
    [ "$kind" = "$2" ] || fail "$1 is linked with the $kind library"
}
cmake --install "$build" --prefix "$temp/usr" >/dev/null
PKG_CONFIG_PATH=$(dirname "$(find "$temp/usr" -name reprise.pc)")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir reprise)
cflags="-std=c17 -Wall -Werror $(pkg-config --cflags reprise)"

# shellcheck disable=SC2046,SC2086
"$compiler" $cflags "$source/examples/graph.c" $(pkg-config --libs reprise) -Wl,-rpath,"$libdir" -o "$temp/graph-shared"
mkdir "$temp/static" # without the shared library beside it, the linker takes the archive
cp "$libdir/libreprise.a" "$temp/static"
# shellcheck disable=SC2046,SC2086
"$compiler" $cflags "$source/examples/graph.c" -L"$temp/static" $(pkg-config --static --libs reprise | sed "s|-L$libdir ||") \
    -o "$temp/graph-static"
for kind in shared static; do
    linked "$temp/graph-$kind" $kind
    "$temp/graph-$kind" | grep -q '^y\[1\] =   0.0000   1.7616' || fail "the installed example gives another result"
done

mkdir "$temp/project"
cat >"$temp/project/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.24)
project(user C)
find_package(reprise 0.1 REQUIRED)
foreach(kind shared static)
  add_executable(decode-\${kind} $source/examples/decode.c)
endforeach()
target_link_libraries(decode-shared PRIVATE reprise::reprise)
target_link_libraries(decode-static PRIVATE reprise::static)
CMAKE
cmake -S "$temp/project" -B "$temp/project/build" -DCMAKE_PREFIX_PATH="$temp/usr" -DCMAKE_C_COMPILER="$compiler" >/dev/null
cmake --build "$temp/project/build" >/dev/null
for kind in shared static; do
    linked "$temp/project/build/decode-$kind" $kind
    "$temp/project/build/decode-$kind" "$source/tests/golden/tiny/llama-mix.gguf" >/dev/null
done
"$temp/usr/bin/reprise" --version
[ -n "$("$temp/usr/bin/reprise" generate -p "In the beginning" -n 8 -q)" ] || fail "the installed demo model generates nothing"
for page in man/man1/reprise.1 bash-completion/completions/reprise zsh/site-functions/_reprise fish/vendor_completions.d/reprise.fish; do
    [ -s "$temp/usr/share/$page" ] || fail "share/$page is not installed"
done

# The library of kernels alone.
cat >"$temp/nn.c" <<'NN'
#include "reprise/nn.h"
#include <stdio.h>
int main(void) {
    const float a[3] = {1.0f, 2.0f, 3.0f};
    float       y[3];
    if (rp_nn_cpu_add(a, a, y, 3, NULL) != 0) return 1;
    printf("%g %g %g\n", (double)y[0], (double)y[1], (double)y[2]);
    return rp_nn_cpu_add(a, NULL, y, 3, NULL) == RP_NN_INVALID_ARGUMENT ? 0 : 1;
}
NN
# shellcheck disable=SC2046,SC2086
"$compiler" $cflags "$temp/nn.c" $(pkg-config --libs reprise_nn) -Wl,-rpath,"$libdir" -o "$temp/nn-shared"
cp "$libdir/libreprise_nn.a" "$temp/static"
# shellcheck disable=SC2046,SC2086
"$compiler" $cflags "$temp/nn.c" -L"$temp/static" $(pkg-config --static --libs reprise_nn | sed "s|-L$libdir ||") -o "$temp/nn-static"
for kind in shared static; do
    [ "$("$temp/nn-$kind")" = "2 4 6" ] || fail "the installed library of kernels ($kind) gives another result"
done

# Every public header compiles by itself, in C and in C++.
for header in "$temp"/usr/include/reprise/*.h; do
    printf "#include \"reprise/%s\"\nextern int used;\n" "$(basename "$header")" >"$temp/one.c"
    "$compiler" -std=c17 -Wall -Wextra -Wpedantic -Werror -I"$temp/usr/include" -fsyntax-only "$temp/one.c"
    c++ -x c++ -std=c++17 -Wall -Wextra -Werror -I"$temp/usr/include" -fsyntax-only "$temp/one.c"
done
echo "installed; shared and static library found by pkg-config and CMake, every header compiles by itself"
