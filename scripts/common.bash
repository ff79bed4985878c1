# shellcheck shell=bash
# Functions that the scripts share. A script that sources this file ends at the first error, and its
# working directory is the root of the repository.

set -euo pipefail
shopt -s inherit_errexit nullglob
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ -t 1 && -z ${NO_COLOR:-} ]]; then bold=$'\e[1m' plain=$'\e[0m'; else bold='' plain=''; fi

step() { echo "${bold}==> $*${plain}"; }
die() {
    echo "${0##*/}: $*" >&2
    exit 1
}
# usage CODE: prints the comment at the top of the script and exits with CODE.
usage() {
    sed -n '2,/^[^#]/{/^#/s/^# \?//p}' "$0"
    exit "$1"
}

# configure_and_build PRESET [-DNAME=VALUE...] [TARGET...]: configures with the options and builds
# the targets (default: all). Prints the log of CMake only if configuring fails.
configure_and_build() {
    local preset=$1 options=() log
    shift
    while [[ ${1:-} == -D* ]]; do
        options+=("$1")
        shift
    done
    if command -v ccache >/dev/null; then
        options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
        export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
    fi
    mkdir -p build
    log=build/$preset.configure.log
    cmake --preset "$preset" "${options[@]}" >"$log" 2>&1 ||
        { cat "$log" >&2 && die "configuring '$preset' failed"; }
    cmake --build "build/$preset" ${1:+--target "$@"} || die "building '$preset' failed"
}
