#!/usr/bin/env bats
# Runs whose jobs the controller has forgotten. dlrun reads the end of such a run from the run's
# record, or else from accounting. If neither has the end, the state is unknown. These tests have a
# testbed of their own, which forgets a job two seconds after its end.
# timeout: 300
# shellcheck disable=SC2030,SC2031 # bats: each test is a subshell

load helpers

setup_file() {
    local testbed_dir=$DLRUN_TESTBED_DIR.purged
    # This testbed also has its own user, whose list of runs has no run of another test file.
    forget_testbed
    export DLRUN_TESTBED_DIR=$testbed_dir
    "$testbed/down" # A test run that was killed may have left a testbed.
    "$BATS_TEST_DIRNAME/fixture" up --nodes 1 --accounting --conf MinJobAge=2
    load_testbed
    dir=$(fresh_dir)
    export dir
    # This sacct prints the error of a cluster without accounting.
    as_user mkdir "$dir/bin"
    as_user tee "$dir/bin/sacct" >/dev/null <<'SH'
#!/bin/bash
echo "Slurm accounting storage is disabled" >&2
exit 1
SH
    as_user chmod 755 "$dir/bin/sacct"
    for name in recorded agentless; do
        as_user tee "$dir/$name.yaml" >/dev/null <<YAML
name: $name
resources: {nodes: 1, tasks_per_node: 1, time: 5m}
launch:
  preset: plain
  agent: $([[ $name == recorded ]] && echo true || echo false)
  command: [bash, -c, 'until [[ -e go ]]; do sleep 0.1; done; exit 3']
YAML
    done
}

teardown_file() {
    "$testbed/down"
}

without_accounting() { as_user env -C "$dir" PATH="$dir/bin:$(as_user printenv PATH)" dlrun "$@"; }
is_forgotten() { ! squeue -h -j "$1" >/dev/null 2>&1; }
# state_and_code RUN FUNCTION: calls `FUNCTION status RUN`, where FUNCTION is dl or
# without_accounting; prints the state, the exit code, and whether the state is only the last known
# one
state_and_code() {
    "${@:2}" status "$1" --json 2>/dev/null |
        jq -r '[.state, (.code | tostring), .last_known | tostring] | join(" ")'
}

@test "a purged job's state comes from its run's record, else from accounting, else is unknown" {
    dl submit recorded.yaml
    dl submit agentless.yaml
    dl submit recorded.yaml --set name=lost
    dl submit recorded.yaml --set name=waiting --set resources.begin=now+1hour
    for name in recorded agentless lost waiting; do
        declare "$name=$(dl status "$name" --json | jq -r .job)"
    done
    # shellcheck disable=SC2317 # called by wait_until
    is_running() { [[ $(state_and_code "$1" dl) == running* ]]; }
    wait_until 60 is_running lost
    wait_until 60 is_running recorded
    # shellcheck disable=SC2317 # called by wait_until
    has_started() { dl status lost --json | jq -e '.attempt == 0'; }
    wait_until 60 has_started
    # Lead is killed, so that no process can write an end.
    kill -KILL "$(jq -r 'select(.event == "claimed").pid' \
        "$(dl status lost --json | jq -r .path)/events.jsonl")"
    as_user touch "$dir/go"
    dl cancel waiting
    # shellcheck disable=SC2154 # declared above
    for job in "$recorded" "$agentless" "$lost" "$waiting"; do
        wait_until 90 is_forgotten "$job"
    done

    for command in dl without_accounting; do
        [ "$(state_and_code recorded "$command")" = "failed 3 false" ]
        [[ $(state_and_code waiting "$command") == "cancelled "*" false" ]]
    done
    [ "$(state_and_code agentless dl)" = "failed 3 false" ]
    [[ $(state_and_code lost dl) == @(failed|cancelled)" "* ]] # Accounting has one of these states.
    for name in agentless lost; do
        [ "$(state_and_code "$name" without_accounting)" = "unknown null false" ]
        message="the run's own record has no end"
        message+=' (accounting: Slurm accounting storage is disabled)'
        [[ $(without_accounting status "$name") == *"Slurm no longer knows job "*"$message"* ]]
        run without_accounting wait "$name"
        [ "$status" -eq 6 ]
    done
}
