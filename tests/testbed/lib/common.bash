# shellcheck shell=bash
# Functions of all testbed commands: the state directory, messages, becoming root.
#
# Each testbed has one state directory. This directory is a tmpfs of its own, so no file in it
# survives the end of the testbed. Everything that the testbed creates elsewhere can be found even
# if the state directory is lost: the bridge has the directory's path as its alias, network
# namespaces and control groups have the bridge's name in their names, and the user has the
# directory's path in the GECOS field.

set -euo pipefail
shopt -s inherit_errexit nullglob
umask 022
export LC_ALL=C.UTF-8
PATH=$PATH:/usr/sbin:/sbin

testbed_source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
state=${DLRUN_TESTBED_DIR:-/run/dlrun-testbed}
[[ $state == /* && $state != / && $state != *[[:space:]]* ]] || {
    echo "testbed: DLRUN_TESTBED_DIR is '$state', expected an absolute path other than /, without" \
        "white space" >&2
    exit 2
}

say() { echo "testbed: $*"; }
warn() { echo "testbed: $*" >&2; }
die() {
    warn "$*"
    exit 1
}

# Runs this command again as root, through sudo, unless this process is root already. Keeps the
# variables that choose a testbed, its Slurm and its containers.
become_root() {
    ((EUID == 0)) && return
    command -v sudo >/dev/null ||
        die "needs root: namespaces, a bridge and device files are made (and there is no sudo)"
    local names=DLRUN_TESTBED_DIR,DLRUN_TESTBED_SLURM,DLRUN_TESTBED_SUBNET,DLRUN_TESTBED_USER
    names+=,DLRUN_TESTBED_CONTAINERS_PREFIX
    exec sudo --preserve-env="$names" "$0" "$@"
}

# Allows one command at a time for all testbeds of one parent directory. Locks that directory
# itself, so that no lock file is left behind.
lock_parent_of_state() {
    mkdir -p "${state%/*}"
    exec 9<"${state%/*}/."
    flock -w 120 9 || die "another testbed command has held the lock on ${state%/*} for two minutes"
}

# Reads the settings of the running testbed, which `up` writes before it starts any daemon.
load_settings() {
    [[ -r $state/settings ]] || die "no testbed in $state; bring it up with $testbed_source/up"
    source "$state/settings"
    use_slurm
}

# Puts the commands of the Slurm under $slurm (up's --slurm) first in PATH; does nothing if $slurm
# is empty.
use_slurm() {
    [[ -z ${slurm:-} || :$PATH: == *:$slurm/bin:* ]] || PATH=$slurm/bin:$slurm/sbin:$PATH
}
# Prints the folders of the commands of the Slurm under $slurm, each with a colon after it, as the
# start of a PATH. Prints nothing if $slurm is empty.
slurm_path_prefix() { [[ -z ${slurm:-} ]] || echo "$slurm/bin:$slurm/sbin:"; }

slurm_version() {
    local version
    version=$(slurmctld -V)
    echo "${version##* }" # The text is "slurm 26.05.3" or "slurm-wlm 22.05.8".
}

# slurm_is_at_least VERSION: succeeds if the testbed's Slurm is this version, such as 24.05, or a
# later one.
slurm_is_at_least() {
    [[ $(printf '%s\n%s\n' "$1" "$(slurm_version)" | sort --version-sort | head -n 1) == "$1" ]]
}

# wait_for SECONDS COMMAND...: runs the command every 50 ms until it succeeds; fails after SECONDS.
wait_for() {
    local deadline=$((${EPOCHREALTIME/./} + $1 * 1000000))
    shift
    until "$@" >/dev/null 2>&1; do
        ((${EPOCHREALTIME/./} < deadline)) || return 1
        sleep 0.05
    done
}
