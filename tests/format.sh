#!/bin/sh
# Fails if a C, C++ or CUDA source is not as clang-format leaves it, or if a line of a comment is longer than its ColumnLimit.
# Other versions than 14, that of Debian 12, format differently.
#   format.sh SOURCE_DIR             exit status 77 if there is no clang-format 14
#   format.sh SOURCE_DIR --write     formats the sources
cd "$1" || exit 1
format=$(command -v clang-format-14 || command -v clang-format) || { echo "no clang-format 14: skipped"; exit 77; }
case $("$format" --version) in
*'version 14.'*) ;;
*) echo "$("$format" --version) instead of 14: skipped"; exit 77 ;;
esac
limit=$(sed -n 's/^ColumnLimit: //p' .clang-format)
rooms=$(sed -n 's/^# rooms: //p' .clang-format)
# shellcheck disable=SC2086
sources() { find $rooms \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' \) -not -path '*/target/*' -print0; }
if [ "${2-}" = --write ]; then
    sources | xargs -0 -P "$(nproc)" -n 40 "$format" -i
fi
fail=0 log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! sources | xargs -0 -P "$(nproc)" -n 40 "$format" --dry-run -Werror >"$log" 2>&1; then
    head -60 "$log"
    echo "tests/format.sh . --write formats the sources. If clang-format crashes on a table, put it between"
    echo "/* clang-format off */ and /* clang-format on */."
    fail=1
fi
long=$(sources | xargs -0 awk -v limit="$limit" 'length($0) > limit && /^ *(\/\*|\*|\/\/)/ {print FILENAME ":" FNR ": " $0}')
[ -z "$long" ] || { echo "lines of comments longer than $limit columns:"; echo "$long"; fail=1; }
exit $fail
