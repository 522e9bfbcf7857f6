#!/bin/sh
# Fails where a kernel that decodes spills registers at sm_90. Prints what each takes.
#   spills.sh SOURCE_DIR BUILD_DIR NVCC
cd "$1" || exit 1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for file in attention experts_down gate_up get_rows linear mul_mat mul_mat_id qkv quantize rms_norm rope router sample loop; do
    "$3" -std=c++17 -O3 -arch=sm_90 -cubin -I. -Iinclude -I"$2/include" -D_GNU_SOURCE -Xptxas -v -o /dev/null \
        "kernels/$file.cu" >"$log" 2>&1 || { cat "$log"; exit 1; }
    awk -v file="$file" '
        /bytes spill stores/ { kernels++; if ($5 > 0 || $9 > 0) { print file ": " $0; spills++ } }
        /Used [0-9]+ registers/ { match($0, /Used [0-9]+/); n = substr($0, RSTART + 5, RLENGTH - 5) + 0; if (n > most) most = n }
        END { printf "%-12s %3d kernels, at most %d registers\n", file, kernels, most; exit kernels == 0 || spills > 0 }' "$log" ||
        { echo "kernels/$file.cu spills, or ptxas said nothing of it"; exit 1; }
done
