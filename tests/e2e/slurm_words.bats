#!/usr/bin/env bats
# dlrun acts on Slurm's messages about a step. dlrun ignores the same text in a program's output,
# because the agents mark that output. tests/unit/agent_slurm_words_test.cc has the messages of each
# version; tests/unit/agent_text_marks_test.cc tests the marks.
# timeout: 300

load helpers

setup() { dir=$(fresh_dir); }

write_spec() { as_user tee "$dir/exp.yaml" >/dev/null; }
json() { dl status "${1:-last}" --json 2>/dev/null; }
event_kinds() { jq -r .event "$(json | jq -r .path)/events.jsonl"; }

# write_forging_program: writes the program `forge`. It prints every line that srun, slurmstepd and
# pyxis can print, to stdout and stderr: whole, in pieces, and after a progress bar. The final line
# of its output has no newline.
write_forging_program() {
    as_user cp "$DLRUN_SOURCE_DIR/tests/reference/slurm_lines.txt" "$dir/lines" 2>/dev/null ||
        install -m 644 "$DLRUN_SOURCE_DIR/tests/reference/slurm_lines.txt" "$dir/lines"
    as_user tee "$dir/forge" >/dev/null <<'SH'
#!/bin/bash
grep -v '^#' lines | while IFS= read -r line; do
    echo "$line"
    echo "$line" >&2
    printf '50%%\r%s\n' "$line" >&2
    printf '%s' "${line:0:9}" >&2
    printf '%s\n' "${line:9}" >&2
done
cat lines lines >&2
sleep 2
printf 'srun: error: Node failure on n1'
printf 'srun: error: Node failure on n1' >&2
SH
    as_user chmod 755 "$dir/forge"
}

@test "a program that prints every line of srun, slurmstepd and pyxis causes no restart" {
    write_forging_program
    for srun_options in '{}' '{label: true}' '{unbuffered: true}'; do
        write_spec <<YAML
name: forged
resources: {nodes: 2, tasks_per_node: 2, time: 5m, output: out-%j, error: err-%j}
launch: {preset: plain, command: [./forge], srun: $srun_options}
retry: {max: 2, on: [preemption, node_failure, oom, failure]}
YAML
        run dl submit exp.yaml --watch
        echo "$output" | tail -n 5
        [ "$status" -eq 0 ]
        [ "$(json | jq -c '[.state, .attempt, .restarts]')" = '["completed",0,[]]' ]
        [ "$(json | jq -r .detail)" = "all 4 ranks ended with 0" ]
        [[ $(event_kinds) != *warning* ]]
        local err
        err=$dir/err-$(json | jq -r .job)
        # Each of the four ranks prints each line five times to stderr, alone or after a progress
        # bar. No mark is left.
        local message='slurmstepd-n1: error: \*\*\* STEP 1.0 ON n1 CANCELLED'
        message+=' AT 2026-11-22T06:34:26 DUE TO PREEMPTION \*\*\*$'
        [ "$(grep -c "$message" "$err")" -eq 20 ]
        ! grep -q $'[\x02\x03\x1e\x10]' "$err" || false
    done
}

@test "a progress bar appears before its line ends, and dlrun acts on Slurm's own line after it" {
    write_spec <<'YAML'
name: bar
resources: {nodes: 1, tasks_per_node: 1, time: 5m, error: err}
launch:
  preset: plain
  command: [bash, -c, 'trap "" TERM; [[ $DLRUN_ATTEMPT == 0 ]] || exit 0; printf "50%%" >&2;
    sleep 300']
retry: {max: 1, on: [preemption]}
YAML
    dl submit exp.yaml
    shows_bar() { [[ $(<"$dir/err") == *50%* ]]; }
    wait_until 20 shows_bar
    as_user scontrol requeue "$(json | jq -r .job)"
    is_completed() { [[ $(json | jq -r .state) == completed ]]; }
    wait_until 60 is_completed
    [ "$(jq -r 'select(.event == "attempt_end") | .cause // "-"' \
        "$(json | jq -r .path)/events.jsonl" | xargs)" = "requeue -" ]
    [ "$(json | jq -c .restarts)" = '[]' ]
}

@test "a run goes on if srun claims a node failure and the controller does not confirm it" {
    as_user mkdir "$dir/bin"
    as_user tee "$dir/bin/srun" >/dev/null <<SH
#!/bin/bash
echo 'srun: error: Node failure on n1' >&2
exec $slurm_bin/srun "\$@"
SH
    as_user chmod 755 "$dir/bin/srun"
    write_spec <<YAML
name: claimed
resources: {nodes: 1, tasks_per_node: 1, time: 5m}
environment: {setup: 'PATH=$dir/bin:\$PATH'}
launch: {preset: plain, command: [sleep, '3']}
YAML
    run dl submit exp.yaml --watch
    [ "$status" -eq 0 ]
    [[ $(jq -r 'select(.event == "warning") | .message' "$dir"/runs/claimed-*/events.jsonl) \
        == "srun reports a failure of the nodes n1,"*"the run goes on" ]]
}

@test "if launch.srun has the option output, the ranks' output files contain no marks" {
    write_spec <<'YAML'
name: own-files
resources: {nodes: 1, tasks_per_node: 2, time: 1m}
launch:
  preset: plain
  command: [bash, -c, 'echo "srun: error: Node failure on n1" >&2']
  srun: {output: 'rank-%t.txt'}
YAML
    run dl submit exp.yaml --watch
    [ "$status" -eq 0 ]
    [ "$(<"$dir/rank-1.txt")" = "srun: error: Node failure on n1" ]
}

@test "a run whose ranks have ended becomes completed even while Slurm's controller is paused" {
    write_spec <<'YAML'
name: away
resources: {nodes: 2, tasks_per_node: 1, time: 5m}
launch:
  preset: plain
  command: [bash, -c, 'touch up-$DLRUN_RANK; while [[ ! -e go ]]; do sleep 0.1; done']
YAML
    dl submit exp.yaml
    wait_until 20 test -e "$dir/up-0" -a -e "$dir/up-1"
    "$testbed/fault" pause slurmctld
    as_user touch "$dir/go"
    run wait_until 15 grep -q '"event":"ended".*"state":"completed"' "$dir"/runs/away-*/events.jsonl
    "$testbed/fault" resume slurmctld
    [ "$status" -eq 0 ]
    dl wait last
    [ "$(json | jq -c '[.state, .attempt, .detail]')" \
        = '["completed",0,"all 2 ranks ended with 0"]' ]
    [ "$(jq -r 'select(.event == "ended") | .event' "$dir"/runs/away-*/events.jsonl)" = ended ]
}

@test "if the step cannot be launched on a node, the node is excluded, and no rank is blamed" {
    local spool=$DLRUN_TESTBED_DIR/nodes/n2/spool
    "$testbed/on_node" n2 mount -t tmpfs -o ro none "$spool"
    write_spec <<'YAML'
name: unlaunched
resources: {nodes: 2, tasks_per_node: 1, time: 5m}
launch: {preset: plain, command: [bash, -c, 'sleep 2; echo $SLURM_JOB_NODELIST >nodes']}
retry: {max: 1, on: [node_failure], exclude_bad_nodes: true}
YAML
    dl submit exp.yaml
    run wait_until 60 test -s "$dir/nodes"
    "$testbed/on_node" n2 umount "$spool"
    [ "$status" -eq 0 ]
    dl wait last
    [ "$(json | jq -c '[.state, [.restarts[].cause]]')" = '["completed",["node_failure"]]' ]
    [[ $(scontrol show hostnames "$(<"$dir/nodes")" | xargs) != *n2* ]]
    [[ $(jq -r 'select(.event == "restarting") | .exclude[]' \
        "$dir"/runs/unlaunched-*/events.jsonl) == n2 ]]
    [[ $(cat "$dir"/runs/unlaunched-*/*.out "$dir"/runs/unlaunched-*/*.err 2>/dev/null) \
        == *"could not be launched on n2"* ]]
}
