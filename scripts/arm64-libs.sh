#!/bin/sh
# Fetches the libraries that a build for aarch64 links, from the Debian packages for arm64. They are unpacked into a
# folder, not installed, and apt keeps its arm64 lists in a temporary folder. Installed packages do not change.
#
#   scripts/arm64-libs.sh [DIRECTORY]     (default: build/arm64-libs)
#
# Prints the folder. Does nothing if the libraries are there already.
set -eu
fail() { echo "arm64-libs.sh: $*" >&2; exit 1; }
dir=${1:-build/arm64-libs}
missing=
for header in pcre2.h jansson.h event2/http.h; do [ -f "$dir/usr/include/$header" ] || missing=1; done
if [ -n "$missing" ]; then
    command -v apt-get >/dev/null || fail "apt-get is needed"
    temp=$(mktemp -d)
    trap 'rm -rf "$temp"' EXIT
    chmod 755 "$temp"
    mkdir -p "$temp/lists/partial" "$temp/cache/archives/partial"
    : >"$temp/status"
    apt() {
        apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$temp" \
            -o Dir::State::status="$temp/status" -o Dir::Cache="$temp/cache" -o Debug::NoLocking=1 \
            -o APT::Sandbox::User= "$@" >&2
    }
    apt update || echo "arm64-libs.sh: some package sources do not answer" >&2
    (cd "$temp" && apt download libpcre2-dev libpcre2-8-0 libjansson-dev libjansson4 libevent-dev libevent-2.1-7) ||
        fail "the packages could not be fetched: is this machine offline?"
    mkdir -p "$dir"
    for package in "$temp"/*.deb; do dpkg -x "$package" "$dir"; done
fi
echo "$dir"
