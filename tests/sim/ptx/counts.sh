#!/bin/sh
# Compares the counts of tiny models with tests/sim/ptx/counts.txt, so that a change which costs instructions shows. Run it in
# the source directory; with --write it writes the file instead. Ends with 77 if the file was made by another nvcc.
#   tests/sim/ptx/counts.sh REPRISE_SIM PTX_FOLDER [--write]
program=$1
export REPRISE_PTX="$2"
table=tests/sim/ptx/counts.txt

count() { "$program" bench counts --json --no-registers --blocks 0 -q "$@"; }
print() {
    sed -n 's/.*Cuda compilation tools, //p' "$REPRISE_PTX/add.ptx" | head -n 1
    for model in llama-mix qwen3moe-mix gpt-oss-mxfp4; do
        count -m "tests/golden/tiny/$model.gguf" --phase decode --pos 20 || exit 1
    done
    count -m tests/golden/tiny/llama-mix.gguf --phase prefill --chunk 32 || exit 1
    for type in Q8_0 Q4_K_M; do
        "$program" bench counts --json --no-registers -q --preset llama3-8b --type $type --phase decode --blocks 4 || exit 1
    done
}
found=$(print) || exit 1
if [ "$3" = --write ]; then
    printf '%s\n' "$found" >"$table"
    exit 0
fi
if [ "$(printf '%s\n' "$found" | head -n 1)" != "$(head -n 1 "$table")" ]; then
    echo "$table was made by $(head -n 1 "$table")"
    exit 77
fi
# One counter a line, with its kernel and node.
fields() { awk -F'"' '/^{"name"/ { gsub(/,"/, "\n" $4 " (" $8 ") \""); print }'; }
[ "$found" = "$(cat "$table")" ] && exit 0
old=$(mktemp)
fields <"$table" >"$old"
printf '%s\n' "$found" | fields | diff "$old" -
rm -f "$old"
echo "the counts have changed; if that is wanted: sh tests/sim/ptx/counts.sh $1 $2 --write"
exit 1
