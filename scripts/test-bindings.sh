#!/bin/sh
# Tests the bindings of other languages against a build. Python: a virtual environment with the packages of requirements-test.txt
# (kept in BUILD/bindings until that file changes), the wheel made from the libraries of the build, mypy, pytest, the notebook.
#
#   test-bindings.sh SOURCE_DIR BUILD_DIR          exit status 77: skipped, with the reason; PYTHON: the interpreter;
#                                                  REPRISE_TEST_TORCH=1: with PyTorch, whose packages take 5 GB
set -eu
source=$(cd "$1" && pwd) build=$(cd "$2" && pwd)
package=$source/bindings/python folder=$build/bindings
venv=$folder/python python=$(command -v "${PYTHON:-python3}")
pip() { "$python" -m pip --python "$venv/bin/python" "$@"; }
skip() { echo "skipped: $*"; exit 77; }
mkdir -p "$folder"
unset PYTHONPATH REPRISE_BUILD
export PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1

"$python" "$source/tools/bindings_table.py" --check
"$python" "$package/generate.py"

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip "Python 3.10 or newer is needed"
wanted=$("$python" -VV; cat "$package/requirements-test.txt")
if [ "$(cat "$venv/wanted" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$venv"
    "$python" -m venv --without-pip "$venv" >"$folder/pip.log" 2>&1 || skip "python3-venv is missing"
    pip --version >"$folder/pip.log" 2>&1 || skip "pip 22.3 or newer is needed"
    if ! pip install -q --no-deps --no-compile -r "$package/requirements-test.txt" >"$folder/pip.log" 2>&1; then
        pip download -q --no-deps --no-cache-dir -d "$folder/probe" iniconfig >/dev/null 2>&1 ||
            skip "PyPI cannot be reached"
        cat "$folder/pip.log"
        exit 1
    fi
    echo "$wanted" >"$venv/wanted"
fi
[ -z "${REPRISE_TEST_TORCH-}" ] || pip install -q --no-compile torch==2.15.0
export PATH="$venv/bin:$PATH" REPRISE_BUILD="$build"
pip install -q --no-deps --no-compile --no-build-isolation --force-reinstall --config-settings=build-dir="$folder/wheel" "$package"
unset REPRISE_BUILD
cd "$package"
"$venv/bin/mypy" --cache-dir "$folder/mypy"
REPRISE_TEST_BUILD=$build "$venv/bin/pytest" -p no:cacheprovider --durations=3
