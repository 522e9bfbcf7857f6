#!/bin/sh
# Installs missing packages and builds. Then the demo model, which ships with the code, continues a sentence; this needs
# no network. Then SmolLM2-135M-Instruct, fetched once (93 MB), answers a question.
#
#   scripts/demo.sh [QUESTION]
#   scripts/demo.sh --offline        the demo model only
set -eu
cd "$(dirname "$0")/.."
offline=
case ${1-} in
-h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
--offline) offline=1; shift ;;
esac
. scripts/setup.sh

# shellcheck disable=SC2086
need $BUILD_PACKAGES python3 python3-pip
# Kernels for a GPU take minutes to compile; a machine without one does not need them.
cuda=
command -v nvidia-smi >/dev/null || cuda=-DRP_CUDA=OFF
# shellcheck disable=SC2086
[ -f build/CMakeCache.txt ] || cmake -S . -B build -G Ninja -DRP_TESTS=OFF $cuda >/dev/null
cmake --build build --target reprise_cli -j "$(nproc)" >&2

run() { echo "\$ $*" >&2; "$@"; echo; }
run build/reprise generate -p "In the beginning" -n 80 --temp 0.7 --top-p 0.9 --seed 4 --experts
[ -z "$offline" ] || exit 0
model=$(scripts/get-model.sh smollm2) || { echo "SmolLM2 could not be fetched; the demo model above needs no network" >&2; exit 1; }
run build/reprise generate "$model" --chat -n 200 -p "${1-Why is the sky blue?}"
