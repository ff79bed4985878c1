#!/usr/bin/env bats
# Components of one job: they run on shared nodes at the same time, wait until another component is
# ready, and find each other. tests/ranks/agent_components_steps_test.cc tests the same behaviour
# without Slurm.
# timeout: 120

load helpers
load components

@test "a trainer starts when its node's server is ready, and the trainer's end stops the server" {
    add_component server 0 1 1 2 --role service --ready-http /health --port-count 1 \
        -- bash -c "$(server_program)" "$dir"
    # shellcheck disable=SC2016
    add_component trainer 0 2 4 2 --after server \
        -- bash -c 'echo "$DLRUN_RANK $CUDA_VISIBLE_DEVICES $DLRUN_COMPONENT_SERVER_HOSTS" \
                >"$0/trainer-$DLRUN_RANK"
            curl -fsS --max-time 10 "http://$DLRUN_COMPONENT_SERVER_ADDR/health"' "$dir"
    submit_components
    wait_until 30 has_event joined server
    # The server answers with 404 until the file exists, so the trainer does not start.
    wait_until 20 grep -q 'GET /health' "$run_dir/logs/attempt-0/server/rank-0000.log"
    [ "$(state_of trainer)" = waiting ]
    has_no_event started trainer
    echo healthy | as_user tee "$dir/www/health" >/dev/null
    wait_until 30 has_event ended
    cat "$dir/out"
    [[ $(events ended) == *'"state":"completed","code":0'* ]]
    [ "$(grep -c healthy "$run_dir"/logs/attempt-0/trainer/rank-*.log | grep -c :1)" -eq 4 ]
    [ "$(events component_end server | jq -r '[.reason, .code] | join(" ")')" = "stopped 0" ]
    [ "$(state_of server) $(state_of trainer)" = "stopped ended" ]
    # The server and ranks 0 and 1 of the trainer were on n1 at the same time. Each component had
    # two of the four GPUs there.
    [ "$(cut -d' ' -f3 "$dir"/trainer-* | sort -u)" = n1 ]
    cut -d' ' -f2 "$dir"/trainer-{0,1} "$dir/server-starts" | tr , '\n' | sort -u >"$dir/gpus"
    [ "$(wc -l <"$dir/gpus")" -eq 4 ]
    wait_until 20 job_ended_with 0:0
}

@test "a component without GPUs sees none, and knows its name and the file of all components" {
    # shellcheck disable=SC2016
    add_component evaluator 0 1 1 0 -- bash -c \
        'echo "$DLRUN_COMPONENT [$CUDA_VISIBLE_DEVICES]" >"$0/seen"
            jq -r ".components[].name" "$DLRUN_RUN/components.json" >>"$0/seen"' "$dir"
    # shellcheck disable=SC2016
    add_component trainer 1 2 2 1 -- bash -c 'echo "[$CUDA_VISIBLE_DEVICES]"' "$dir"
    submit_components
    wait_until 30 has_event ended
    cat "$dir/out"
    [ "$(cat "$dir/seen")" = $'evaluator []\nevaluator\ntrainer' ]
    [[ $(<"$run_dir/logs/attempt-0/trainer/rank-0001.log") == '['[0-3]']' ]]
    [[ $(events ended) == *'"message":"all 2 main components ended with 0"'* ]]
}

@test "a service is ready when its port accepts connections, and fails the job if it never does" {
    add_component server 0 1 1 0 --role service --ready-tcp --port-count 1 \
        -- bash -c "sleep 1; $(server_program)" "$dir"
    add_component trainer 1 1 1 0 --after server -- true
    submit_components
    wait_until 30 has_event ended
    [[ $(events ended) == *'"code":0'* ]]
    [ "$(events component_ready server | jq '.seconds >= 1')" = true ]

    # shellcheck disable=SC2034 # components.bash uses it
    component_arguments=()
    add_component server 0 1 1 0 --role service --ready-tcp --port-count 1 --ready-timeout 2 \
        -- sleep 300
    add_component trainer 1 1 1 0 --after server -- true
    submit_components
    wait_until 30 has_event ended
    cat "$dir/out"
    [[ $(events attempt_end) == *'"component":"server","code":83,"reason":"not_ready"'* ]]
    message='server: it was not ready within 2 s: TCP connection to .*: Connection refused'
    message+='.*listen on this port, and on all addresses'
    [[ $(events ended | jq -r .message) =~ $message ]]
    has_no_event started trainer
    wait_until 20 job_ended_with 83:0
}

@test "a component on a node that the job does not have is refused before anything starts" {
    add_component trainer 2 2 2 0 -- true
    submit_components
    wait_until 30 has_event ended
    [[ $(events ended | jq -r .message) == "component 'trainer' needs the nodes 3 to 4"* ]]
    has_no_event started
}
