#!/usr/bin/env bats
# A job with components starts again as a whole: after a requeue, after a failure if lead has the
# option --retry, and after the loss of a node.
# timeout: 180

load helpers
load components

@test "a requeued job starts all components again, as the next attempt" {
    sbatch_options=(-N3 --requeue)
    start_server_and_trainer
    rm "$dir"/pid-*
    as_user scontrol requeue "$job"
    wait_until 60 all_have_started
    [ "$(events started | jq -r 'select(.attempt == 1) | .component' | sort)" \
        = $'server\ntrainer' ]
    [ -e "$run_dir/logs/attempt-1/trainer/rank-0000.log" ]
    as_user touch "$dir/stop"
    wait_until 20 grep -q '"state":"completed"' "$run_dir/events.jsonl"
}

@test "if a main component fails and lead has --retry, all components start again in the allocation" {
    # shellcheck disable=SC2034 # components.bash uses it
    lead_options=(--retry 1 --retry-on failure)
    add_component server 0 1 1 0 --role service -- bash -c "$usr1_recorder" "$dir"
    # shellcheck disable=SC2016
    add_component trainer 1 1 1 0 -- bash -c 'exit $((5 - 5 * DLRUN_ATTEMPT))'
    submit_components
    wait_until 60 has_event ended
    cat "$dir/out"
    [[ $(events ended) == *'"state":"completed","code":0'* ]]
    [ "$(events restarting | jq -r '.cause + " " + .by')" = "failure lead" ]
    [ "$(events component_end server | jq -r .reason | sort -u)" = stopped ]
    [ "$(events started server | wc -l)" -eq 2 ]
}

@test "if a node other than lead's is lost, the recorded cause is node_failure" {
    # shellcheck disable=SC2034 # components.bash uses it
    lead_options=(--retry 1 --retry-on node_failure)
    # shellcheck disable=SC2034 # components.bash uses it
    sbatch_options=(-N3 --requeue)
    start_server_and_trainer
    local node
    node=$(events joined trainer | jq -r .hosts | xargs scontrol show hostnames | tail -n 1)
    "$testbed/fault" kill "$node"
    # Slurm requeues the job, or lead asks Slurm to do so. The record has the cause in both cases.
    has_cause() { events attempt_end | grep -q '"cause":"node_failure"'; }
    run wait_until 60 has_cause
    "$testbed/up" --again >/dev/null
    cat "$dir/out"
    echo "$output"
    [ "$status" -eq 0 ]
}
