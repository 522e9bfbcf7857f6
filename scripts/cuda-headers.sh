#!/bin/sh
# Fetches the headers of the CUDA toolkit from Python packages. The tests of the CUDA kernels on a simulated device need
# these headers, but neither nvcc nor a GPU.
#
#   scripts/cuda-headers.sh [DIRECTORY]     (default: build/cuda-headers)
#
# Prints the folder with cuda_runtime_api.h. Does nothing if it is there already.
set -eu
fail() { echo "cuda-headers.sh: $*" >&2; exit 1; }
dir=${1:-build/cuda-headers}
if [ ! -f "$dir/include/cuda_runtime_api.h" ]; then
    python3 -m pip --version >/dev/null 2>&1 || fail "python3 with pip is needed (apt-get install python3-pip)"
    temp=$(mktemp -d)
    trap 'rm -rf "$temp"' EXIT
    python3 -m pip download -q --no-deps --only-binary :all: -d "$temp" \
        'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-cuda-cccl==13.0.*' ||
        fail "the packages could not be fetched: is this machine offline?"
    for wheel in "$temp"/*.whl; do python3 -m zipfile -e "$wheel" "$temp/all"; done
    found=$(find "$temp/all" -name cuda_runtime_api.h | head -1)
    [ -n "$found" ] || fail "cuda_runtime_api.h is not in the packages"
    rm -rf "$dir"
    mkdir -p "$dir"
    cp -r "$(dirname "$found")" "$dir/include"
fi
echo "$dir/include"
