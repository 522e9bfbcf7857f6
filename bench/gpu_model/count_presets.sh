#!/bin/sh
# Counts a decode step of every preset into bench/counts/, which `reprise bench launches --predict bench/counts` reads.
# Some minutes. Run it again after a change of kernels, passes or presets.
#   bench/gpu_model/count_presets.sh build/tests/cudasim_reprise
set -e
folder=$(dirname "$0")/../counts
count() { # program, preset, type, file
    "$1" bench counts --preset "$2" --type "$3" --phase decode --json -q > "$folder/$4.json.new"
    mv "$folder/$4.json.new" "$folder/$4.json"
    echo "$4"
}
mkdir -p "$folder"
for preset in $("$1" bench launches --all-presets --json | tr '{' '\n' | sed -n 's/^"name":"\([^"]*\)".*/\1/p'); do
    count "$1" "$preset" Q8_0 "$preset"
done
for preset in llama3-8b qwen3-30b-a3b nn-6.9b; do
    count "$1" "$preset" Q4_K_M "$preset-q4_k_m"
done
count "$1" llama3.2-1b BF16 llama3.2-1b-bf16
count "$1" gpt-oss-20b MXFP4 gpt-oss-20b-mxfp4
