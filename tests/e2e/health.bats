#!/usr/bin/env bats
# The checks of nodes before a job's programs start (health.preflight), as far as Slurm affects
# them. tests/unit/agent_node_check_test.cc and tests/unit/agent_attempt_health_test.cc test
# single checks.

load helpers

setup() { dir=$(fresh_dir); }
write_spec() { as_user tee "$dir/$1.yaml" >/dev/null; }
# write_spec_of_failing_check CHECK RESOURCES: writes CHECK.yaml, a job whose nodes all fail this
# check. The job must not restart, although retry.on lists node_failure
write_spec_of_failing_check() {
    write_spec "$1" <<YAML
name: $1
resources: {$2, time: 5m}
launch: {command: [touch, started]}
health: {preflight: [$1]}
retry: {max: 3, on: [node_failure, failure]}
YAML
}
json() { dl status "$1" --json 2>/dev/null; }
events() { jq -c "select(.event == \"$1\")" "$(json "$2" | jq -r .path)/events.jsonl"; }

@test "preflight: if all nodes fail a check, none is blamed, and the check gloo covers all ranks" {
    for check in gpu nccl; do
        write_spec_of_failing_check "$check" 'nodes: 2, tasks_per_node: 1, gpus_per_node: 1'
    done
    write_spec_of_failing_check disk 'nodes: 2, tasks_per_node: 2'
    write_spec warned <<'YAML'
name: warned
resources: {nodes: 1, time: 5m}
environment: {vars: {TMPDIR: /proc/nowhere}}
launch: {command: [bash, -c, 'echo "TMPDIR=$TMPDIR"']}
YAML
    write_spec gloo <<'YAML'
name: gloo
resources: {nodes: 2, tasks_per_node: 2, time: 5m}
launch: {command: [bash, -c, 'echo "checked $DLRUN_RANK"']}
health: {preflight: [gloo, disk]}
YAML
    dl submit disk.yaml --set environment.vars.TMPDIR=/proc/nowhere
    for name in gpu warned nccl gloo; do dl submit "$name.yaml"; done
    for name in gpu disk nccl; do
        run dl wait "$name"
        [ "$status" -eq 5 ]
        echo "$output"
        [ "$(events ended "$name" | jq -r .code)" -eq 80 ]
        [ -z "$(events restarting "$name")" ]
    done
    all_fail='all 2 nodes fail the same check'
    [[ $(json gpu | jq -r .detail) == "$all_fail: gpu: "*nvidia-smi*"(health.preflight)" ]]
    tmpdir_note="(TMPDIR of environment.vars; Slurm has put '/tmp' in its place)"
    disk_failure='disk: cannot create a file in /proc/nowhere: '
    [[ $(json disk | jq -r .detail) == *"$disk_failure"*"$tmpdir_note"* ]]
    [[ $(json nccl | jq -r .detail) == "$all_fail: nccl: "* ]]
    [ ! -e "$dir/started" ]
    dl wait gloo
    [ "$(events checked gloo | jq -r .ranks)" -eq 4 ]
    [[ $(dl logs --rank 3 gloo) == *"checked 3"* ]]
    dl wait warned
    [[ $(dl logs --rank 0 warned) == *TMPDIR=/tmp* ]]
    [[ $(events warning warned | jq -r .message) == *"Slurm has put '/tmp' in its place"* ]]
}

@test "preflight: the user's own check runs once on each node, and a node that fails it is bad" {
    as_user tee "$dir/check.sh" >/dev/null <<'SH'
echo "$(hostname) $DLRUN_SECRET" >>checked
[[ $(hostname) != n2 ]] || { echo "no scratch on $(hostname)"; exit 7; }
SH
    write_spec own <<'YAML'
name: own
resources: {nodes: 2, tasks_per_node: 2, nodelist: "n[1-2]", time: 5m}
launch: {command: [touch, started]}
health: {preflight: [{run: bash check.sh}], known_bad: 1d}
YAML
    dl submit own.yaml
    run dl wait own
    [ "$status" -eq 5 ]
    # The check does not get DLRUN_SECRET, lead's secret for its ranks.
    [ "$(sort "$dir/checked")" = $'n1 \nn2 ' ]
    [[ $(json own | jq -r .detail) == *"n2 is not fit for the job: run: 'bash check.sh' ended with 7 [no scratch on n2]"* ]]
    [ ! -e "$dir/started" ]
    [ "$(dl nodes --json | jq -r '.nodes[].node')" = n2 ]
    [[ $(dl nodes --json | jq -r '.nodes[0].reason') == *"no scratch on n2"* ]]
    # If all nodes fail in the same way, dlrun blames no node.
    run dl submit own.yaml --set 'health.preflight=[{run: exit 9}]' --set resources.nodelist=null
    dl wait own || true
    [[ $(json own | jq -r .detail) == "all 2 nodes fail the same check: run: 'exit 9' ended with 9"* ]]
}
