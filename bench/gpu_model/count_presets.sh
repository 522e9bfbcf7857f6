#!/bin/sh
# Counts a decode step of every preset into bench/counts/, for `reprise bench launches --predict bench/counts`, and other steps
# into ours/, for beside_ggml.py only. It takes some minutes. Run it again after a change of kernels, passes or presets, and
# then beside_ggml.py PROGRAM --write.
#   bench/gpu_model/count_presets.sh build/reprise-sim
set -e
program=$1
folder=$(dirname "$0")
count() { # file, options of `bench counts`
    file=$folder/$1.json
    shift
    "$program" bench counts "$@" --json -q > "$file.new"
    mv "$file.new" "$file"
    echo "$file"
}
step() { # file, preset, type, further options
    file=$1 preset=$2 type=$3
    shift 3
    count "$file" --preset "$preset" --type "$type" --phase decode "$@"
}
mkdir -p "$folder/../counts" "$folder/ours/prefill"
for preset in $("$program" bench launches --all-presets --json | tr '{' '\n' | sed -n 's/^"name":"\([^"]*\)".*/\1/p'); do
    step "../counts/$preset" "$preset" Q8_0
done
for preset in llama3-8b qwen3-30b-a3b nn-6.9b; do
    step "../counts/$preset-q4_k_m" "$preset" Q4_K_M
done
step ../counts/llama3.2-1b-bf16 llama3.2-1b BF16
step ../counts/gpt-oss-20b-mxfp4 gpt-oss-20b MXFP4

for type in Q6_K Q5_K_S Q4_0 MXFP4; do
    step "ours/llama3-8b-$(echo $type | tr A-Z a-z)" llama3-8b $type
done
step ours/mixtral-8x7b-32000 mixtral-8x7b Q8_0 --pos 32000
step ours/mixtral-8x7b-32000-q8_0 mixtral-8x7b Q8_0 --pos 32000 --kv q8_0
for type in Q8_0 Q4_K_M; do
    suffix=$(echo "-$type" | tr A-Z a-z | sed 's/^-q8_0$//')
    count "ours/prefill/llama3-8b$suffix" --preset llama3-8b --type $type --phase prefill --chunk 512 --blocks 8
    count "ours/prefill/llama3-8b$suffix-int8" --preset llama3-8b --type $type --phase prefill --chunk 512 --blocks 8 --capability 89 --sms 128
done
