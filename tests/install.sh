#!/bin/sh
# Installs into a temporary folder and builds the examples against it, once with pkg-config and once with CMake.
#   install.sh SOURCE_DIR BUILD_DIR COMPILER
set -eu
source=$1 build=$2 compiler=$3
flags=$(sed -n 's/^RP_SANITIZE:STRING=\(..*\)/-fsanitize=\1/p' "$build/CMakeCache.txt")
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
cmake --install "$build" --prefix "$temp/usr" >/dev/null
PKG_CONFIG_PATH=$(dirname "$(find "$temp/usr" -name reprise.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046,SC2086
"$compiler" -std=c17 -Wall -Werror $flags "$source/examples/graph.c" $(pkg-config --cflags --libs reprise) -o "$temp/graph"
"$temp/graph" | grep -q '^y\[1\] =   0.0000   1.7616' || { echo "the installed example gives another result"; exit 1; }

mkdir "$temp/project"
cat >"$temp/project/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.24)
project(user C)
find_package(reprise 0.1 REQUIRED)
add_executable(decode $source/examples/decode.c)
target_link_libraries(decode PRIVATE reprise::reprise)
CMAKE
cmake -S "$temp/project" -B "$temp/project/build" -DCMAKE_PREFIX_PATH="$temp/usr" -DCMAKE_C_COMPILER="$compiler" \
    -DCMAKE_C_FLAGS="$flags" >/dev/null
cmake --build "$temp/project/build" >/dev/null
"$temp/project/build/decode" "$source/tests/golden/tiny/llama-mix.gguf" >/dev/null
"$temp/usr/bin/reprise" --version
[ -n "$("$temp/usr/bin/reprise" generate -p "In the beginning" -n 8 -q)" ] || { echo "the installed demo model generates nothing"; exit 1; }
# Every public header compiles by itself, in C and in C++.
for header in "$temp"/usr/include/reprise/*.h; do
    printf "#include \"reprise/%s\"\nextern int used;\n" "$(basename "$header")" >"$temp/one.c"
    "$compiler" -std=c17 -Wall -Wextra -Wpedantic -Werror -I"$temp/usr/include" -fsyntax-only "$temp/one.c"
    c++ -x c++ -std=c++17 -Wall -Wextra -Werror -I"$temp/usr/include" -fsyntax-only "$temp/one.c"
done
echo "installed, found by pkg-config and CMake, every header compiles by itself"
