#!/bin/sh
# Trains assets/demo.gguf: a mixture of experts on the King James Bible, from Debian's package bible-kjv. The text has a blank
# line between chapters, so every twentieth chapter is held out. Takes a quarter of an hour to an hour on two cores.
#
#   apt-get install bible-kjv
#   scripts/train-demo.sh OUT.gguf [options of reprise train]
set -eu
[ $# -gt 0 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2; }
out=$1
shift
command -v bible >/dev/null || { echo "$0: the program bible is missing: apt-get install bible-kjv" >&2; exit 1; }
text=$(mktemp)
trap 'rm -f "$text"' EXIT
bible -f gen1:1-rev22:21 | awk '
    { chapter = $1; sub(/:.*/, "", chapter); sub(/^[^ ]+ +/, ""); sub(/ +$/, "") }
    NR > 1 { printf "%s", chapter == last ? " " : "\n\n" }
    { printf "%s", $0; last = chapter }
    END { print "" }' >"$text"
"$(dirname "$0")/../build/reprise" train --preset demo --text "$text" --seed 1 --batch 16 --seq 256 --steps 1000 --warmup 60 \
    --lr 2e-3 --lr-end 1e-4 --type Q6_K --output "$out" "$@"
