#!/bin/sh
# Makes the HTML book of the documentation, with references of the C and Python APIs: build/book/html/index.html.
# The first run installs mkdocs (docs/requirements.txt) into build/book/venv; later runs need no network.
#
#   scripts/docs.sh
set -eu
cd "$(dirname "$0")/.."
case ${1-} in
-h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
venv=build/book/venv
if ! cmp -s docs/requirements.txt "$venv/requirements.txt"; then
    python3 -c 'import ensurepip' 2>/dev/null || { . scripts/setup.sh && need python3-venv; }
    mkdir -p build/book
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --requirement docs/requirements.txt
    cp docs/requirements.txt "$venv/"
fi
"$venv/bin/python" tools/book.py build/book/pages
NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --quiet --strict --config-file docs/mkdocs.yml
echo "$PWD/build/book/html/index.html"
