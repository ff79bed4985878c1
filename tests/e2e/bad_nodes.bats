#!/usr/bin/env bats
# The list of bad nodes that runs share (health.known_bad), and spare nodes that replace a lost node
# (resources.spare_nodes). tests/unit/bad_nodes_test.cc tests the file of the list;
# tests/unit/plan_test.cc tests the plan.
# timeout: 240

load helpers

setup() { dir=$(fresh_dir); }
write_spec() { as_user tee "$dir/$1.yaml" >/dev/null; }
json() { dl status "$1" --json 2>/dev/null; }
events() { jq -c "select(.event == \"$1\")" "$(json "$2" | jq -r .path)/events.jsonl"; }
nodes_of() { scontrol show job --oneliner "$1" | sed -n 's/.* NodeList=\([^ ]*\).*/\1/p'; }

@test "the next submission excludes a bad node, and dlrun nodes lists and forgets it" {
    # The job needs n1, and another node may be free earlier. n1 is remembered as bad, because the job
    # cannot write its TMPDIR there.
    write_spec first <<'YAML'
name: first
resources: {nodes: 2, tasks_per_node: 1, time: 5m, nodelist: n1}
environment:
  # On n1 this path is a file, so no folder can be made there.
  setup_node: '[[ $(hostname) != n1 ]] || { rm -rf /tmp/scratch && touch /tmp/scratch; }'
  vars: {TMPDIR: /tmp/scratch}
launch: {command: [hostname]}
health: {preflight: [disk], known_bad: 1h}
YAML
    run dl submit first.yaml --watch
    echo "$output"
    [ "$status" -eq 5 ]
    [[ $output == *"n1 is remembered as bad; later submissions avoid it (\`dlrun nodes\`)"* ]]

    run dl nodes
    echo "$output"
    [[ $output \
        == *NODE*UNTIL*REASON*n1*testbed*first-*"n1 is not fit for the job: disk: cannot create"* ]]
    [ "$(dl nodes --json | jq -r '.nodes[] | [.node, .cluster, .run == null] | join(" ")')" \
        = "n1 testbed false" ]
    [ "$(dl nodes first.yaml --json | jq -r .file)" = "$dir/runs/known-bad.jsonl" ]

    # The list may contain a node that the cluster no longer has. sbatch would refuse a job that
    # excludes such a node.
    as_user python3 - "$dir/runs/known-bad.jsonl" <<'PY'
import json, sys, zlib
line = json.dumps({"node": "gone7", "cluster": "testbed", "reason": "lost", "since": 1,
                   "until": 4000000000})[:-1]
open(sys.argv[1], "a").write(f'{line},"crc":"{zlib.crc32(line.encode()):08x}"}}\n')
PY
    [ "$(dl nodes --json | jq '.nodes | length')" -eq 2 ]
    write_spec second <<'YAML'
name: second
resources: {nodes: 2, tasks_per_node: 1, time: 5m, exclude: n2}
launch: {command: [hostname]}
health: {known_bad: 1h}
YAML
    run dl check second.yaml
    [[ $output == *"n1 is excluded until "*"(health.known_bad)"*"first"* ||
        $output == *"n1 is excluded until "*"not fit"* ]]
    run dl submit second.yaml --watch
    echo "$output"
    [ "$status" -eq 0 ]
    forget_hint="\`dlrun nodes --forget n1\` lets jobs use it again"
    [[ $output == *"n1 is excluded until "*"(health.known_bad): "*"$forget_hint"* ]]
    [[ $output != *gone7* ]]
    [ "$(json second | jq -r .nodes)" = 'n[3-4]' ]
    run dl resubmit second --watch
    [ "$status" -eq 0 ]
    [[ $output == *"n1 is excluded until "* ]]
    [ "$(json last | jq -r .nodes)" = 'n[3-4]' ]
    run dl interactive second.yaml -- hostname
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"n1 is excluded until "*n3* ]]

    # A node in resources.nodelist is used even if it is bad, and dlrun warns about this node.
    run dl submit second.yaml --watch --set resources.nodelist=n1
    echo "$output"
    [[ $output == *"warning"*"n1 is remembered as bad"*"resources.nodelist asks for this node"* ]]
    [[ $(json last | jq -r .nodes) == *1* ]]

    run dl nodes --forget n1 --forget gone7
    [ "$status" -eq 0 ]
    [ "$(dl nodes --json | jq '.nodes | length')" -eq 0 ]
    run dl nodes --forget n1
    [ "$status" -eq 6 ]
    run dl submit second.yaml --watch
    [[ $output != *"is excluded"* ]]
}

@test "a spare node replaces a lost one in the allocation, with the same world size" {
    write_spec spare <<'YAML'
name: spare
resources:
  {nodes: 2, spare_nodes: 1, tasks_per_node: 2, cpus_per_task: 1, time: 5m, nodelist: 'n[1-3]'}
launch:
  preset: torch
  command:
    - bash
    - -c
    - |
      echo "world $WORLD_SIZE on $(hostname)"
      [[ $DLRUN_ATTEMPT == 1 ]] || sleep 120
retry: {max: 2, on: [node_failure]}
health: {known_bad: 1h}
YAML
    run dl submit spare.yaml
    echo "$output"
    [ "$status" -eq 0 ]
    job=$(json spare | jq -r .job)
    has_joined() { [[ -n $(events joined spare) ]]; }
    wait_until 30 has_joined
    used=$(events joined spare | jq -r .hosts)
    echo "used: $used; allocated: $(nodes_of "$job")"
    [[ $(nodes_of "$job") == 'n[1-3]' ]]
    "$testbed/fault" kill n2
    run dl wait spare
    echo "$output"
    "$testbed/up" --again
    [ "$status" -eq 0 ]
    [ "$(json spare | jq -c '[.state, .attempt, .restarts[0].cause]')" \
        = '["completed",1,"node_failure"]' ]
    [ "$(json spare | jq -r .job)" = "$job" ]
    for rank in 0 1 2 3; do
        dl logs --rank $rank --attempt 1 spare
    done | tee /dev/stderr | sort | uniq -c |
        awk '{ print $1, $2, $3, $5 }' | diff - <(printf '2 world 4 n1\n2 world 4 n3\n')
    [ "$(dl nodes --json | jq -r '[.nodes[].node] | join(" ")')" = n2 ]
}

@test "a run goes on if the list of bad nodes cannot be written or read" {
    write_spec locked <<'YAML'
name: locked
resources: {nodes: 1, time: 5m}
launch: {command: [hostname]}
health: {known_bad: {file: /proc/nowhere/known-bad}}
YAML
    run dl submit locked.yaml --watch
    echo "$output"
    [ "$status" -eq 0 ]
    as_user mkfifo "$dir/pipe"
    run timeout 20 "$testbed/as_user" \
        bash -c "cd '$dir' && dlrun submit locked.yaml --watch --set health.known_bad.file=pipe"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"health.known_bad: no bad node is excluded: $dir/pipe: is not a regular file"* ]]
}
