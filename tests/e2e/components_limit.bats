#!/usr/bin/env bats
# The time limit of a job with components. Slurm checks time limits every half minute, so this
# test has a file of its own.
# timeout: 180

load helpers
load components

@test "a job with components that reaches its time limit is reported as timeout" {
    start_server_and_trainer
    scontrol update job="$job" EndTime="$(date -d '+1 second' +%FT%T)"
    wait_until 100 has_event ended
    cat "$dir/out"
    message='the job reached its time limit (resources.time); ended by SIGTERM'
    [[ $(events ended) == *'"state":"timeout"'*"$message"* ]]
    [ "$(events attempt_end | jq -r .cause)" = timeout ]
    # Both components ended with the job, and neither was ended because of the other one.
    [ "$(events component_end | jq -r .reason | sort -u)" = signalled ]
}
