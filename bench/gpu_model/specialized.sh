#!/bin/sh
# Predicts decode at position 2047 with the shipped kernels and with those that NVRTC specialises (docs/source-kernels.md), and
# prints the table of docs/gpu-kernels.md. It takes some minutes and needs NVRTC.
#   bench/gpu_model/specialized.sh build/reprise-sim
set -e
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
predicted() { # preset, type, GPU, options of `bench counts`: tok/s and share of the bandwidth
    file=$folder/$1-$2$4.json
    # shellcheck disable=SC2086
    [ -s "$file" ] || "$program" bench counts --preset "$1" --type "$2" --phase decode $4 --json -q >"$file"
    "$program" bench launches --predict "$file" --gpu "$3" --json |
        sed -n 's/.*"tok_s":\([0-9.]*\).*"percent_of_bandwidth":\([0-9.]*\).*/\1 \2/p' | awk '{ printf "%.0f (%.0f %%)", $1, $2 }'
}
echo "| model | H100 | H200 | RTX 4090 |"
echo "|---|---|---|---|"
for row in llama3-8b:Q8_0 llama3-8b:Q6_K llama3-8b:Q5_K_S llama3-8b:Q4_K_M llama3-8b:Q4_0 llama3-8b:MXFP4 llama3.2-1b:BF16 \
    qwen3-30b-a3b:Q4_K_M gpt-oss-20b:MXFP4 nn-6.9b:Q8_0 mixtral-8x7b:Q8_0 qwen2.5-0.5b:Q8_0; do
    preset=${row%:*} type=${row#*:} line="| ${row%:*} ${row#*:} |"
    for gpu in h100 h200 4090; do
        line="$line $(predicted "$preset" "$type" $gpu "") -> $(predicted "$preset" "$type" $gpu --specialized) |"
    done
    echo "$line"
done
