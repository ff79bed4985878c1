# shellcheck shell=bash
# Functions of the tests of packages. Each test makes its packages below a new folder, $work, and
# deletes this folder when it ends.
set -euo pipefail
shopt -s inherit_errexit nullglob
export LC_ALL=C.UTF-8

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=../../scripts/packages.bash
source "$source_dir/scripts/packages.bash"
# The PATH of an ordinary user may lack the folders of dpkg's and rpm's helpers.
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
work=$(mktemp -d "${TMPDIR:-/tmp}/dlrun-packages.XXXXXX")
chmod 755 "$work"
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT TERM
# dlrun keeps its list of runs below HOME. The tests do not change the user's list, and tests that
# run at the same time have lists of their own.
export HOME=$work/home
mkdir "$HOME"
unset "${!XDG_@}"

fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}
# expect TEXT PATTERN WHAT: fails unless the text matches the extended regular expression.
expect() { [[ $1 =~ $2 ]] || fail "$3: expected '$2' in: $1"; }
# refuse TEXT PATTERN WHAT: fails if the text matches the extended regular expression.
refuse() { [[ ! $1 =~ $2 ]] || fail "$3: did not expect '$2' in: $1"; }

# make_packages BUILD KIND FOLDER [OPTION...]: lets cpack make packages of this kind; fails if cpack
# fails or prints a warning.
make_packages() {
    local build=$1 kind=$2 folder=$3
    shift 3
    mkdir -p "$folder"
    if ! pack "$build" "$kind" "$folder" "$@" >"$folder/cpack.log" 2>&1; then
        cat "$folder/cpack.log" >&2
        fail "cpack -G $kind failed"
    fi
    ! grep -E 'CMake (Error|Warning)|CPack Error|CPackRPM:Warning' "$folder/cpack.log" >&2 ||
        fail "cpack -G $kind has warnings"
}

# the_file PATTERN...: prints the one file that the patterns match; fails if there is none, or more
# than one.
the_file() {
    [[ $# == 1 && -f ${1-} ]] || fail "expected one file, found: $*"
    echo "$1"
}

# can_be_root: succeeds if as_root works here. Some systems forbid user namespaces.
can_be_root() { ((EUID == 0)) || unshare --user --map-root-user true 2>/dev/null; }

# need_root: ends the test as skipped unless as_root works here.
need_root() {
    can_be_root && return
    echo "skipped: needs root, or a system that allows unshare --user"
    exit 77 # CMakeLists.txt: SKIP_RETURN_CODE
}

# as_root COMMAND...: runs a command that only root may run, such as a package manager, which gives
# files to root. If the test does not run as root, the command runs as root of a user namespace.
as_root() {
    if ((EUID == 0)); then "$@"; else unshare --user --map-root-user "$@"; fi
}

# run_hello DLRUN FOLDER: runs the example plain.yaml in FOLDER, and fails unless it completes.
run_hello() {
    local dlrun=$1 folder=$2 said
    mkdir -p "$folder"
    cp "$source_dir/configs/examples/plain.yaml" "$folder/"
    said=$(cd "$folder" && env -u DLRUN_RUNS -u DLRUN_SITE "$dlrun" run plain.yaml 2>&1) ||
        fail "$dlrun run: $said"
    expect "$said" 'rank 1 of 2 on ' "the output of $dlrun run"
}
