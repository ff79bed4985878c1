# shellcheck shell=bash
# What every command of the testbed shares: where its state lives, how it speaks, how it becomes root.
#
# One testbed is one state directory (a tmpfs of its own, so that nothing survives it). Whatever the testbed makes outside
# that directory carries a mark of its own by which it is found again, even when the state is lost: the bridge has the
# state directory as its alias, network namespaces and control groups have the bridge's name, the user has it in its GECOS field.

set -euo pipefail
shopt -s inherit_errexit nullglob
umask 022
export LC_ALL=C.UTF-8
PATH=$PATH:/usr/sbin:/sbin

testbed_source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
state=${DLRUN_TESTBED_DIR:-/run/dlrun-testbed}
[[ $state == /* && $state != / && $state != *[[:space:]]* ]] || {
    echo "testbed: DLRUN_TESTBED_DIR must be an absolute path without spaces, not '$state'" >&2
    exit 2
}

say() { echo "testbed: $*"; }
warn() { echo "testbed: $*" >&2; }
die() {
    warn "$*"
    exit 1
}

# Runs this command again as root where it is not root yet. The variables that choose a testbed go along.
become_root() {
    ((EUID == 0)) && return
    command -v sudo >/dev/null || die "needs root: namespaces, a bridge and device files are made (and there is no sudo)"
    exec sudo --preserve-env=DLRUN_TESTBED_DIR,DLRUN_TESTBED_SLURM,DLRUN_TESTBED_SUBNET,DLRUN_TESTBED_USER "$0" "$@"
}

# One command at a time per parent directory: the lock is on the directory itself, so that no lock file is left.
lock_state() {
    mkdir -p "${state%/*}"
    exec 9<"${state%/*}/."
    flock -w 120 9 || die "another testbed command has held the lock on ${state%/*} for two minutes"
}

is_up() { [[ -e $state/up ]]; }

# The settings of the running testbed (written by `up`, before anything is made).
load_settings() {
    [[ -r $state/settings ]] || die "no testbed in $state; bring it up with $testbed_source/up"
    source "$state/settings"
    use_slurm
}

# Puts the commands of the Slurm under $slurm (up's --slurm) before the machine's own; nothing where it is empty.
use_slurm() {
    [[ -z ${slurm:-} || :$PATH: == *:$slurm/bin:* ]] || PATH=$slurm/bin:$slurm/sbin:$PATH
}
slurm_path() { [[ -z ${slurm:-} ]] || echo "$slurm/bin:$slurm/sbin:"; }

slurm_version() {
    local version
    version=$(slurmctld -V)
    echo "${version##* }" # "slurm 26.05.3", "slurm-wlm 22.05.8"
}

# slurm_is VERSION: the testbed's Slurm is that version, such as 24.05, or a later one.
slurm_is() {
    [[ $(printf '%s\n%s\n' "$1" "$(slurm_version)" | sort --version-sort | head -n 1) == "$1" ]]
}

# wait_for SECONDS COMMAND...: runs the command every 50 ms until it succeeds; fails when the time is over.
wait_for() {
    local deadline=$((${EPOCHREALTIME/./} + $1 * 1000000))
    shift
    until "$@" >/dev/null 2>&1; do
        ((${EPOCHREALTIME/./} < deadline)) || return 1
        sleep 0.05
    done
}
