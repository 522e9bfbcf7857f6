#!/bin/sh
# Runs a suite of tests/server with clients of PyPI. The packages of the requirements.txt beside the suite, else of
# tests/server/api/requirements.txt, are kept in BUILD/api-clients, or agents-clients, until that file changes.
#
#   test-api-clients.sh SOURCE_DIR BUILD_DIR SUITE [ARGUMENT ...]    such as api/test_clients.py; PYTHON: the interpreter
#
# Exit status 77: skipped, with the reason.
set -eu
source=$(cd "$1" && pwd) build=$(cd "$2" && pwd) suite=$3
shift 3
wants=$(dirname "$source/tests/server/$suite")/requirements.txt
[ -f "$wants" ] || wants=$source/tests/server/api/requirements.txt
folder=$build/$(basename "$(dirname "$wants")")-clients
venv=$folder/python python=$(command -v "${PYTHON:-python3}")
pip() { "$python" -m pip --python "$venv/bin/python" "$@"; }
skip() { echo "skipped: $*"; exit 77; }
mkdir -p "$folder"
unset PYTHONPATH
export PYTHONPYCACHEPREFIX="$folder/pycache" PIP_DISABLE_PIP_VERSION_CHECK=1

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip "Python 3.10 or newer is needed"
wanted=$("$python" -VV; cat "$wants")
if [ "$(cat "$venv/wanted" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$venv"
    "$python" -m venv --without-pip "$venv" >"$folder/pip.log" 2>&1 || skip "python3-venv is missing"
    pip --version >"$folder/pip.log" 2>&1 || skip "pip 22.3 or newer is needed"
    if ! pip install -q --no-deps --no-compile -r "$wants" >"$folder/pip.log" 2>&1; then
        pip download -q --no-deps --no-cache-dir -d "$folder/probe" sniffio >/dev/null 2>&1 || skip "PyPI cannot be reached"
        cat "$folder/pip.log"
        exit 1
    fi
    echo "$wanted" >"$venv/wanted"
fi
exec "$venv/bin/python" "$source/tests/server/$suite" "$@"
