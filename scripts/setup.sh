# setup.sh - sourced by the other scripts.
# need PACKAGE...: installs those Debian packages that are missing, or exits and says what to install if not root.
need() {
    missing=
    for package in "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" != 0 ]; then
        echo "These packages are missing; as root, run: apt-get install$missing" >&2
        exit 1
    fi
    echo "installing$missing ..." >&2
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    { apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 ||
        { apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing >/dev/null; }; } ||
        { echo "Could not install$missing: is this machine offline?" >&2; exit 1; }
}

BUILD_PACKAGES="gcc libc6-dev cmake ninja-build pkg-config libpcre2-dev libedit-dev libjansson-dev libevent-dev"
# nvcc compiles host code with g++.
if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then BUILD_PACKAGES="$BUILD_PACKAGES g++"; fi
