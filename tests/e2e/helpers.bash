# shellcheck shell=bash
# Functions that the end-to-end tests share. Every .bats file loads them with `load helpers`. The
# comment at the top of tests/e2e/on_testbed explains how to run a single file by hand.
#
#   as_user COMMAND...           runs the command as the testbed's ordinary user on the login node,
#                                in that user's clean environment, with the installed programs on
#                                its PATH
#   dl ARGUMENTS...              runs dlrun as that user in the directory $dir of the test
#   wait_until SECONDS COMMAND.. waits until the command succeeds; after SECONDS, prints its last
#                                output and fails
#   fresh_dir                    creates an empty directory that belongs to the user and is shared
#                                by the login node and the compute nodes, and prints its path;
#                                CTest's fixture removes it with the testbed
#   job_state JOBID              prints Slurm's state of a job (PENDING, RUNNING, COMPLETED, ...)
#   has_fields_of NAME           checks the JSON on standard input against the schema NAME or
#                                NAME#DEFINITION in docs/json
#   cancel_jobs                  ends every job of the user and waits until they are gone
#   end_test                     ends the user's jobs; after a failed test, first prints the state
#                                of the cluster and repairs it. Every teardown calls it
#
# A failing test is tried again up to DLRUN_TEST_RETRIES times (CMake sets 1), because its time
# limits are real time on a machine that others also use. A second try is never silent: scripts/test
# lists these tests in its summary, and the log contains the output of the first try.

: "${DLRUN_SOURCE_DIR:=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}"
testbed=$DLRUN_SOURCE_DIR/tests/testbed

# Prints the folder with the copies of those source files that the testbed's user runs or reads: the
# Python programs of tests and tests/e2e, tests/stand_ins and configs/examples. `fixture` makes it.
user_source() { echo "${DLRUN_TESTBED_DIR:-/run/dlrun-testbed}/source"; }

# Sets the variables of the running testbed, such as DLRUN_TESTBED_USER, DLRUN_TESTBED_HOME and
# SLURM_CONF.
load_testbed() {
    local state=${DLRUN_TESTBED_DIR:-/run/dlrun-testbed}
    # shellcheck disable=SC1091 # `up` writes these files
    source "$state/env" && source "$state/login"
}
[[ ! -e ${DLRUN_TESTBED_DIR:-/run/dlrun-testbed}/up ]] || load_testbed

# Unsets the variables of the shared testbed, before a test file starts a testbed of its own. Keeps
# only the variable that chooses one of the installed Slurm versions.
forget_testbed() {
    local slurm=${DLRUN_TESTBED_SLURM:-}
    unset "${!DLRUN_TESTBED_@}"
    [[ -z $slurm ]] || export DLRUN_TESTBED_SLURM=$slurm
}

# The folder of the testbed's Slurm commands, for tests that wrap these commands.
# shellcheck disable=SC2034 # the tests use it
slurm_bin=${DLRUN_TESTBED_SLURM:-/usr}/bin

# shellcheck disable=SC2034 # bats reads it
BATS_TEST_RETRIES=${DLRUN_TEST_RETRIES:-0}

# Does the same as the command tests/testbed/as_user, without starting a shell for it.
# shellcheck disable=SC2154 # load_testbed sets testbed_home and testbed_login
as_user() {
    if ((EUID == 0)); then
        env -i --chdir="$testbed_home" ${TERM:+TERM="$TERM"} "${testbed_login[@]}" "$@"
    else
        "$testbed/as_user" "$@"
    fi
}
# shellcheck disable=SC2154 # the test sets dir
dl() { as_user env --chdir="${dir:-.}" dlrun "$@"; }

wait_until() {
    local deadline=$((${EPOCHREALTIME/./} + $1 * 1000000)) limit=$1 last tries=0
    shift
    until last=$("$@" 2>&1); do
        if ((${EPOCHREALTIME/./} >= deadline)); then
            printf 'not within %s s: %s\n%s\n' "$limit" "$*" "$last" >&2
            return 1
        fi
        # Most waits end soon. A longer wait calls the command less often, to leave the processors
        # to other tests.
        if ((++tries < 10)); then sleep 0.1; else sleep 0.3; fi
    done
}

fresh_dir() {
    local name=${BATS_TEST_DESCRIPTION:-dir}
    as_user mktemp -d "$DLRUN_TESTBED_HOME/${name//[^a-zA-Z0-9]/-}.XXXXXX"
}

has_fields_of() { python3 "$DLRUN_SOURCE_DIR/tests/json_fields.py" "$1"; }

job_state() { scontrol show job --oneliner "$1" | sed -n 's/.* JobState=\([A-Z_]*\).*/\1/p'; }

no_jobs() { [[ -z $(squeue -h -u "$DLRUN_TESTBED_USER") ]]; }
cancel_jobs() {
    scancel -f -u "$DLRUN_TESTBED_USER"
    wait_until 20 no_jobs
}

end_test() {
    [[ ${BATS_TEST_COMPLETED:-} == 1 ]] || print_failure_and_repair 2>&1 | sed 's/^/# /' >&3
    cancel_jobs
}
teardown() { end_test; }

print_failure_and_repair() {
    echo "try $BATS_TEST_TRY_NUMBER failed: $BATS_TEST_DESCRIPTION"
    cat "$BATS_OUT"
    echo "the output of the last \`run\`: ${output:-}"
    echo "nodes, jobs, and the end of slurmctld's log:"
    timeout 20 sinfo -h -N -p batch -o '%N %T %E'
    timeout 20 squeue -h -o '%i %T %r %N %j'
    tail -n 10 "${DLRUN_TESTBED_DIR:-/run/dlrun-testbed}/log/slurmctld.log"
    # This starts dead daemons again and brings back nodes that are down.
    timeout 60 "$testbed/up" --again
}

# Prints the number of a TCP port that is free on this machine.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])'; }
