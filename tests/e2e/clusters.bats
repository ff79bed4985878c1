#!/usr/bin/env bats
# resources.clusters on two real clusters that share a database: every command of dlrun reaches the
# cluster of the spec. The file has a testbed of its own.
# timeout: 300
# shellcheck disable=SC2030,SC2031 # bats: each test is a subshell

load helpers

setup_file() {
    local separate_dir=$DLRUN_TESTBED_DIR.two
    # This testbed also has its own user, whose list of runs has no run of another test file.
    forget_testbed
    export DLRUN_TESTBED_DIR=$separate_dir
    "$testbed/down" # A test run that was killed may have left a testbed.
    "$BATS_TEST_DIRNAME/fixture" up --nodes 1 --accounting --second other
    load_testbed
    dir=$(fresh_dir)
    export dir
    make_loggers
}

teardown_file() {
    "$testbed/down"
}

# Wraps each Slurm command in a script that logs the command's arguments. The script does not log
# commands inside an allocation, because an allocation knows its cluster.
make_loggers() {
    local program
    mkdir "$dir/loggers"
    for program in sbatch salloc srun squeue sacct scancel scontrol sinfo; do
        cat >"$dir/loggers/$program" <<SH
#!/bin/bash
[[ -n \${SLURM_JOB_ID-} ]] || printf '%s %s\n' $program "\${*//\$'\n'/ }" >>$dir/calls
exec $(command -v "$program") "\$@"
SH
    done
    chmod 755 "$dir/loggers"/*
}

setup() {
    cat >"$dir/job.yaml" <<YAML
name: job
resources: {nodes: 1, tasks_per_node: 1, time: 5m, clusters: other}
launch:
  preset: plain
  command: [bash, -c, 'echo on \$SLURM_CLUSTER_NAME; until [[ -e go ]]; do sleep 0.1; done']
YAML
    rm -f "$dir/go" "$dir/calls"
    as_user touch "$dir/calls"
}

teardown() {
    end_test
    scancel -M other -f -u "$DLRUN_TESTBED_USER"
    wait_until 30 no_jobs_on other
    rm -rf "$dir/runs"
}

no_jobs_on() { [[ -z $(squeue -h -M "$1" -u "$DLRUN_TESTBED_USER" -o %i) ]]; }
count_jobs_on() { squeue -h -M "$1" -u "$DLRUN_TESTBED_USER" -o %i | grep -c '^[0-9]'; }
state() { dl status "$1" --json | jq -r .state; }
is_state() { [[ $(state "$1") == "$2" ]]; }
dl_with_loggers() {
    as_user bash -c 'cd "$1" && PATH=$1/loggers:$PATH && shift && exec dlrun "$@"' - "$dir" "$@"
}

# Checks that every logged call has the option -M or --clusters with the cluster `other`, and then
# empties the log. Ignores calls that concern only this machine.
check_and_empty_call_log() {
    local calls
    calls=$(grep -Ev '^srun --(mpi=list|help)$|^[a-z]+ --version$' "$dir/calls")
    : >"$dir/calls"
    echo "$calls"
    [ -n "$calls" ]
    ! grep -Ev -- '(-M|--clusters?)[ =]?other( |$)' <<<"$calls"
}

@test "each command reaches the job on the other cluster, although the local cluster has a job with the same id" {
    run dl submit job.yaml --json
    [ "$status" -eq 0 ]
    id=$(jq -r .run <<<"$output") job=$(jq -r .job <<<"$output")
    [ "$(jq -r .cluster <<<"$output")" = other ]
    here_job=$(as_user sbatch --parsable --hold --time=1 --wrap true)
    while ((here_job < job)); do
        here_job=$(as_user sbatch --parsable --hold --time=1 --wrap true)
    done
    wait_until 60 is_state "$id" running
    [ "$(count_jobs_on other)" -eq 1 ]
    [ "$(dl ls --json | jq -r '.[0].state')" = running ]
    as_user touch "$dir/go"
    run dl wait "$id"
    [ "$status" -eq 0 ]
    [[ $(dl logs "$id") == *"on other"* ]]
    rm "$dir/go"
    second=$(dl submit job.yaml --json | jq -r .run)
    dl cancel "$second"
    wait_until 60 is_state "$second" cancelled
    [ "$(job_state "$here_job")" = PENDING ]
}

@test "every Slurm command that dlrun calls for the run gets the run's cluster as an option" {
    dl_with_loggers submit job.yaml
    check_and_empty_call_log
    wait_until 60 is_state last running
    for words in "status last" "ls" "attach last -- true" "check job.yaml" \
        "submit job.yaml --test-only" "doctor -M other" "doctor -M other --site-file"; do
        : >"$dir/calls"
        # shellcheck disable=SC2086 # splits the words
        dl_with_loggers $words </dev/null
        check_and_empty_call_log
    done
    dl_with_loggers cancel last
    check_and_empty_call_log
    dl_with_loggers wait last || true
    [ ! -s "$dir/calls" ] || check_and_empty_call_log
    dl_with_loggers interactive job.yaml -- bash -c 'echo on $SLURM_CLUSTER_NAME' \
        </dev/null >"$dir/out"
    grep -q '^on other$' "$dir/out"
    check_and_empty_call_log
}

@test "if sbatch dies before it replies, the job is found on its cluster and exists once" {
    cat >"$dir/loggers/sbatch" <<SH
#!/bin/bash
$(command -v sbatch) "\$@" >/dev/null
kill -KILL \$\$
SH
    run dl_with_loggers submit job.yaml --json
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(jq -r .cluster <<<"$output")" = other ]
    [ "$(count_jobs_on other)" -eq 1 ]
    no_jobs_on testbed
    check_and_empty_call_log
}

@test "doctor -M queries the cluster of this option" {
    run dl doctor -M other --json
    [ "$(jq -r .cluster <<<"$output")" = other ]
    [ "$(jq -r '.partitions[0].gpus_per_node' <<<"$output")" = 0 ]
    run dl doctor -M other
    [[ $output == *"dlrun doctor -M other --site-file > "* && $output != *"dlrun init"* ]]
    run dl doctor -M nosuch
    [ "$status" -ne 0 ]
    [[ $output == *nosuch* ]]
}
