#!/usr/bin/env bats
# `retry.chain`: queued follow-up jobs continue one run after its time limit.
# timeout: 300

load helpers

setup() { dir=$(fresh_dir); }

# write_spec MORE: writes exp.yaml, with the line MORE at its end. In attempt 0 the program ends
# with code 3 after a USR1; in later attempts it completes.
write_spec() {
    as_user tee "$dir/exp.yaml" >/dev/null <<YAML
name: long
resources: {nodes: 1, tasks_per_node: 1, time: 3m}
launch:
  preset: plain
  command:
    - bash
    - -c
    - |
      trap 'echo saved >>saved; exit 3' USR1
      echo "\$DLRUN_ATTEMPT \$DLRUN_JOB" >>starts
      echo "this is attempt \$DLRUN_ATTEMPT"
      [[ \$DLRUN_ATTEMPT == 0 ]] || exit 0
      while true; do sleep 0.1 & wait \$!; done
checkpoint: {signal_before: 2m}
retry: {on: [timeout], chain: 3}
$1
YAML
}

json() { dl status "${1:-last}" --json 2>/dev/null; }
is_state() { [[ $(json | jq -r .state) == "$1" ]]; }
chain_job() { json | jq -r ".chain[$1]"; }
has_started() { [[ -s $dir/starts ]]; }
is_gone() { [[ ! $(job_state "$1" 2>/dev/null) =~ PENDING|RUNNING|COMPLETING ]]; }

@test "the next job continues the run at the time limit, and the jobs after it are cancelled" {
    write_spec ''
    run dl submit exp.yaml
    echo "$output"
    [[ $output == *"continue the run when it reaches its time limit"* ]]
    local first second third path
    first=$(chain_job 0) second=$(chain_job 1) third=$(chain_job 2)
    [[ $(squeue -h -j "$second" -o %E) == "afterany:$first"* ]]
    wait_until 30 has_started
    [[ $(json | jq -r .job) == "$first" ]]
    as_user scancel --batch -s USR1 "$first"
    run dl wait last
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(cat "$dir/starts")" = "0 $first"$'\n'"1 $second" ]
    [ "$(cat "$dir/saved")" = saved ]
    json | jq -e '.state == "completed" and .attempt == 1' >/dev/null
    json | has_fields_of status
    [ "$(json | jq -r '[.restarts[].cause] | join(" ")')" = timeout ]
    path=$(json | jq -r .path)
    [ "$(jq -r 'select(.event == "restarting") | .by' "$path/events.jsonl")" = chain ]
    # All jobs write one log, and the id of each of them finds the run.
    [[ $(dl logs last) == *"this is attempt 0"*"this is attempt 1"* ]]
    [ "$(json "$third" | jq -r .path)" = "$path" ]
    wait_until 20 is_gone "$third"
    wait_until 20 no_jobs
}

@test "if another run waits for a chain, the last job of the chain stays, and the other run starts" {
    write_spec ''
    dl submit exp.yaml
    local first third
    first=$(chain_job 0) third=$(chain_job 2)
    as_user tee "$dir/next.yaml" >/dev/null <<YAML
name: next
resources: {nodes: 1, tasks_per_node: 1, time: 1m}
launch: {preset: plain, command: [touch, next-ran]}
after: {ok: [$(json | jq -r .run)]}
YAML
    dl submit next.yaml
    [[ $(squeue -h -n next -o %E) == "afterok:$third"* ]]
    wait_until 30 has_started
    as_user scancel --batch -s USR1 "$first"
    wait_until 60 test -e "$dir/next-ran"
    [ "$(sort "$dir/starts" | wc -l)" -eq 2 ]
    wait_until 20 no_jobs
}

@test "cancel ends all jobs of a chain" {
    write_spec ''
    dl submit exp.yaml
    wait_until 30 has_started
    run dl cancel last
    echo "$output"
    [ "$(grep -c 'cancelled job' <<<"$output")" -eq 3 ]
    wait_until 30 is_state cancelled
    wait_until 20 no_jobs
    [ "$(wc -l <"$dir/starts")" -eq 1 ]
}

@test "if the first job is cancelled before it starts, no later job starts the run" {
    local sleeper
    sleeper=$(as_user sbatch --parsable --wrap 'sleep 300' --output=/dev/null)
    write_spec "after: {any: [$sleeper]}"
    dl submit exp.yaml
    as_user scancel "$(chain_job 0)"
    wait_until 60 is_state cancelled
    [[ $(dl status last) == *"ended before it started the run"* ]]
    [ ! -e "$dir/starts" ]
    as_user scancel "$sleeper"
    wait_until 30 no_jobs
}
