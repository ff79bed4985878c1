#!/usr/bin/env bats
# `dlrun submit --rehearse`: the run waits for the end of a rehearsal, a short run on two ranks.
# timeout: 300

load helpers

setup() { dir=$(fresh_dir); }

# write_spec SCRIPT: writes exp.yaml, whose ranks execute the shell script
write_spec() {
    as_user tee "$dir/exp.yaml" >/dev/null <<YAML
name: big
resources: {nodes: 2, tasks_per_node: 2, time: 5m}
launch:
  preset: plain
  command: [bash, -c, '$1']
YAML
}

# submit_rehearsed DURATION: submits exp.yaml with a rehearsal of this duration; prints the ids of
# the rehearsal and of the run
submit_rehearsed() {
    dl submit exp.yaml --rehearse "$1" --json 2>/dev/null | jq -rs 'map(.run) | join(" ")'
}
json() { dl status "$1" --json 2>/dev/null; }
is_state() { [[ $(json "$2" | jq -r .state) == "$1" ]]; }

@test "the rehearsal ends a program that would never end, and then the run starts" {
    # In the rehearsal the program would run for ever. The run itself ends immediately.
    write_spec 'echo "$DLRUN_WORLD_SIZE" >>worlds; step=0; [[ $DLRUN_WORLD_SIZE == 2 ]] || exit 0;
        while true; do step=$((step + 10)); [[ -z $DLRUN_PROGRESS ]] ||
        echo "{\"step\": $step, \"steps\": 1000}" >"$DLRUN_PROGRESS"; sleep 1; done'
    local rehearsal run
    read -r rehearsal run < <(submit_rehearsed 20s)
    [[ $rehearsal == big-rehearsal-* && $run == big-* ]]
    run dl wait "$run"
    echo "$output"
    [ "$status" -eq 0 ]
    is_state completed "$rehearsal"
    [ "$(sort "$dir/worlds" | uniq -c | xargs)" = "2 2 4 4" ]
    run dl status "$run"
    echo "$output"
    [[ $output == *"rehearsal $rehearsal: passed"* ]]
    [[ $output == *"for 1000 steps; the time limit is 5 min"* ]]
    json "$run" | has_fields_of status
    json "$run" | jq -e '.rehearsal.memory | test("for the 2 ranks of a node")' >/dev/null
    dl report "$run"
    grep -q 'predicted time' "$(json "$run" | jq -r .path)/report.html"
    wait_until 20 no_jobs
}

@test "if the rehearsal fails, the run never starts" {
    write_spec 'echo "$DLRUN_WORLD_SIZE" >>worlds; exit 3'
    local rehearsal run
    read -r rehearsal run < <(submit_rehearsed 10s)
    wait_until 60 is_state failed "$rehearsal"
    run is_state completed "$run"
    [ "$status" -ne 0 ]
    [[ $(dl status "$run") == *"failed: "* ]]
    [ "$(sort -u "$dir/worlds")" = 2 ]
}
