#!/bin/sh
# Installs what is missing, builds, fetches SmolLM2-135M-Instruct (93 MB, once) and lets it answer a question.
#
#   scripts/demo.sh [QUESTION]
set -eu
cd "$(dirname "$0")/.."
case ${1-} in -h | --help) sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
. scripts/setup.sh

# shellcheck disable=SC2086
need $BUILD_PACKAGES python3 python3-pip
[ -f build/build.ninja ] || cmake -S . -B build -G Ninja -DRP_TESTS=OFF >/dev/null
ninja -C build reprise_cli >/dev/null || { ninja -C build reprise_cli; exit 1; }
model=$(scripts/get-model.sh smollm2)
echo "build/reprise generate -m $model --chat -n 200 -p \"${1-What is the capital of France?}\"" >&2
exec build/reprise generate -m "$model" --chat -n 200 -p "${1-What is the capital of France?}"
