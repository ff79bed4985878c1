# shellcheck shell=bash
# For files whose tests run on both of Slurm's process trackers. The shared testbed tracks by control groups; a second one, up for
# the duration of the file, signals whole process trees. A file that loads this starts each test with `on cgroup` or `on linuxproc`.

setup_file() {
    export DLRUN_CGROUP_DIR=$DLRUN_TESTBED_DIR DLRUN_LINUXPROC_DIR=$DLRUN_TESTBED_DIR.linuxproc
    export DLRUN_TESTBED_DIR=$DLRUN_LINUXPROC_DIR
    "$DLRUN_SOURCE_DIR/tests/testbed/down" # what a run that was killed has left
    "$DLRUN_SOURCE_DIR/tests/e2e/fixture" up --proctrack linuxproc
}

teardown_file() {
    DLRUN_TESTBED_DIR=$DLRUN_LINUXPROC_DIR "$DLRUN_SOURCE_DIR/tests/testbed/down"
}

# on cgroup|linuxproc: the testbed of what follows; sets dir to a new directory on it
on() {
    case $1 in
    cgroup) DLRUN_TESTBED_DIR=$DLRUN_CGROUP_DIR ;;
    linuxproc) DLRUN_TESTBED_DIR=$DLRUN_LINUXPROC_DIR ;;
    esac
    export DLRUN_TESTBED_DIR
    echo "on $1"
    load_testbed
    dir=$(fresh_dir)
}

# keep_on TRACKER, again_on TRACKER: what was begun there goes on while the other has its turn
declare -gA dir_on # bats reads the file in a function
keep_on() { dir_on[$1]=$dir; }
again_on() {
    on "$1"
    dir=${dir_on[$1]}
}

teardown() {
    for tracker in cgroup linuxproc; do
        on "$tracker" >/dev/null
        end_test
    done
}

# Programs of eight ranks hold a lock that each of their processes inherits, so that none is overlooked, whatever its name and session.
none_is_alive() {
    local rank
    for rank in {0..7}; do flock -n "$dir/alive-$rank" true || return 1; done
}
