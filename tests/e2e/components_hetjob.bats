#!/usr/bin/env bats
# Components as the parts of a heterogeneous job. Each part has nodes of its own.
# timeout: 120

load helpers
load components

# request_two_parts: the next job has a first part of two nodes and a second part of one
# shellcheck disable=SC2034 # components.bash uses the variables
request_two_parts() { sbatch_options=(-N2) second_part_options=(-N1); }

@test "the components of a heterogeneous job find each other, and share no node" {
    request_two_parts
    # shellcheck disable=SC2016
    add_component trainer h0 2 2 2 --after server -- bash -c \
        'echo "$CUDA_VISIBLE_DEVICES $DLRUN_COMPONENT_SERVER_HOSTS $SLURM_JOB_ID" \
                >"$0/seen-$DLRUN_RANK"
            curl -fsS --max-time 10 "http://$DLRUN_COMPONENT_SERVER_ADDR/"' "$dir"
    add_component server h1 1 1 0 --role service --ready-http / --port-count 1 \
        -- bash -c "$(server_program)" "$dir"
    submit_components
    wait_until 40 has_event ended
    cat "$dir/out"
    [[ $(events ended) == *'"state":"completed","code":0'* ]]
    [ "$(events joined trainer | jq -r .ranks)" -eq 2 ]
    local server_host
    server_host=$(events joined server | jq -r .hosts)
    [ "$(cut -d' ' -f2- "$dir"/seen-* | sort -u)" = "$server_host $job" ]
    # A part never shares a node with another part.
    run scontrol show hostnames "$(events joined trainer | jq -r .hosts)"
    [[ $output != *"$server_host"* ]]
    [ "$(events component_end server | jq -r .reason)" = stopped ]
    # The server sees no GPU, although the variables of the job script list GPUs of the first part.
    [ "$(cut -d' ' -f2 "$dir/server-starts")" = "" ]
}

@test "scancel of the second part alone ends the job, and the record has the part's component" {
    request_two_parts
    add_component trainer h0 2 2 0 -- sleep 300
    add_component server h1 1 1 0 --role service -- sleep 300
    submit_components
    wait_until 40 has_event joined server
    wait_until 20 has_event joined trainer
    as_user scancel "$((job + 1))"
    wait_until 30 has_event ended
    cat "$dir/out"
    [ "$(events attempt_end | jq -r .component)" = server ]
    [ "$(events component_end trainer | jq -r .reason)" = stopped ]
}

@test "scancel of the job cancels all parts" {
    request_two_parts
    add_component trainer h0 2 2 0 -- sleep 300
    add_component server h1 1 1 0 --role service -- sleep 300
    submit_components
    wait_until 40 has_event joined server
    wait_until 20 has_event joined trainer
    as_user scancel "$job"
    wait_until 30 has_event ended
    [[ $(events ended) == *'"state":"cancelled"'* ]]
    wait_until 20 no_jobs
}
