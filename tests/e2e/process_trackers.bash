# shellcheck shell=bash
# For test files that run with both of Slurm's process trackers. The shared testbed tracks processes
# by control groups. In a second testbed, which exists while the test file runs, Slurm finds the
# processes of a job by their parents. Each test starts with `use_testbed cgroup` or `use_testbed
# linuxproc`.

setup_file() {
    export DLRUN_CGROUP_DIR=$DLRUN_TESTBED_DIR DLRUN_LINUXPROC_DIR=$DLRUN_TESTBED_DIR.linuxproc
    export DLRUN_TESTBED_DIR=$DLRUN_LINUXPROC_DIR
    # A test run that was killed may have left a testbed.
    "$DLRUN_SOURCE_DIR/tests/testbed/down"
    "$DLRUN_SOURCE_DIR/tests/e2e/fixture" up --proctrack linuxproc
}

teardown_file() {
    DLRUN_TESTBED_DIR=$DLRUN_LINUXPROC_DIR "$DLRUN_SOURCE_DIR/tests/testbed/down"
}

# use_testbed cgroup|linuxproc: selects the testbed for the following commands; sets dir to a new
# directory on it
use_testbed() {
    case $1 in
    cgroup) DLRUN_TESTBED_DIR=$DLRUN_CGROUP_DIR ;;
    linuxproc) DLRUN_TESTBED_DIR=$DLRUN_LINUXPROC_DIR ;;
    esac
    export DLRUN_TESTBED_DIR
    echo "on $1"
    load_testbed
    dir=$(fresh_dir)
}

# save_dir_of TRACKER: remembers dir, so that the test can select the other testbed while jobs
# continue on this one
# return_to TRACKER: selects the testbed of TRACKER again, with the remembered dir
declare -gA dir_on # bats reads the file in a function, so the array must be global.
save_dir_of() { dir_on[$1]=$dir; }
return_to() {
    use_testbed "$1"
    dir=${dir_on[$1]}
}

teardown() {
    for tracker in cgroup linuxproc; do
        use_testbed "$tracker" >/dev/null
        end_test
    done
}

# Succeeds if no process of the programs of eight ranks is alive. Each program locks a file with
# flock, and each of its processes inherits the open file and thereby the lock. The check therefore
# finds every process, whatever its name and session.
none_is_alive() {
    local rank
    for rank in {0..7}; do flock -n "$dir/alive-$rank" true || return 1; done
}
