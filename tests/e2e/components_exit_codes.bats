#!/usr/bin/env bats
# How components end: the exit code of the job, services that start again, and the rank that dlrun
# reports as the cause.
# timeout: 120

load helpers
load components

# The program of a component. Each rank writes its process id to a file and waits.
# shellcheck disable=SC2016 # expanded on the node
waiting_program='echo $$ >"$0/pid-$DLRUN_COMPONENT-$DLRUN_RANK"; exec sleep 300'

@test "the first failure of a main component gives the job its exit code, and stops the others" {
    add_component server 0 1 1 0 --role service --ready-tcp --port-count 1 \
        -- bash -c "$(server_program)" "$dir"
    # shellcheck disable=SC2016
    add_component trainer 1 2 2 0 --after server \
        -- bash -c '[ "$DLRUN_RANK" = 1 ] && exit 7; sleep 300'
    add_component evaluator 0 1 1 0 -- sleep 300
    submit_components
    wait_until 40 has_event ended
    cat "$dir/out"
    [[ $(events ended) \
        == *'"state":"failed","code":7,"message":"component trainer: rank 1 on n3 '* ]]
    [ "$(events component_end | jq -r 'select(.component != "trainer") | .reason' | sort -u)" \
        = stopped ]
    run dl status "$run_dir" --json
    jq -e '.first_failed | .rank == 1 and .host == "n3" and .component == "trainer"' <<<"$output"
    wait_until 20 job_ended_with 7:0
    [[ $(dl status "$run_dir") == *"component trainer: rank 1 on n3"* ]]
}

@test "after kill -9 of a rank, dlrun shows it and its component, and all ranks end within 2.5 s" {
    add_component server 0 1 1 0 --role service -- bash -c "$waiting_program" "$dir"
    add_component trainer 1 2 4 0 -- bash -c "$waiting_program" "$dir"
    submit_components
    all_have_started() { [ "$(cat "$dir"/pid-* 2>/dev/null | wc -l)" -eq 5 ]; }
    wait_until 30 all_have_started
    local since=$EPOCHREALTIME took_ms
    all_are_gone() {
        local file
        for file in "$dir"/pid-*; do ! kill -0 "$(<"$file")" 2>/dev/null || return 1; done
    }
    kill -9 "$(pid_of trainer 2)"
    wait_until 10 all_are_gone
    took_ms=$(((${EPOCHREALTIME/./} - ${since/./}) / 1000))
    echo "all gone after $took_ms ms"
    [ "$took_ms" -le 2500 ]
    wait_until 20 has_event ended
    [[ $(events ended | jq -r .message) \
        == "component trainer: rank 2 on n3 was killed by SIGKILL"* ]]
    run dl status "$run_dir" --json
    jq -e '.first_failed | .component == "trainer" and .rank == 2 and .signal == "SIGKILL"' \
        <<<"$output"
    wait_until 20 job_ended_with 137:0
}

@test "a dead service starts again on the same node and port, and its next death ends the job" {
    add_component server 0 1 1 0 --role service --ready-http / --port-count 1 --component-retry 1 \
        -- bash -c "$(server_program)" "$dir"
    add_component trainer 1 1 1 0 --after server -- bash -c "$waiting_program" "$dir"
    submit_components
    wait_until 30 test -s "$dir/pid-trainer-0"
    local addr first_pid
    addr=$(jq -r '.components[0].addr' "$run_dir/components.json")
    first_pid=$(pid_of server 0)
    kill -9 "$first_pid"
    has_started_again() { [[ $(wc -l <"$dir/server-starts") -eq 2 ]] && is_in_state server ready; }
    wait_until 30 has_started_again
    [ "$(jq -r '.components[0] | "\(.addr) \(.restarts)"' "$run_dir/components.json")" = "$addr 1" ]
    curl -fsS --max-time 10 "http://$addr/" >/dev/null
    [ "$(cut -d' ' -f1 "$dir/server-starts" | sort -u)" = "${addr##*:}" ]
    kill -0 "$(pid_of trainer 0)"
    [[ $(events component_restart server) == *'"code":137,"left":0'* ]]
    # Status shows the restart, and no failure of the run.
    run dl status "$run_dir" --json
    jq -e '.first_failed == null and .components[0].restarts == 1' <<<"$output"

    kill -9 "$(pid_of server 0)"
    wait_until 30 has_event ended
    cat "$dir/out"
    [[ $(events ended) == *'"code":137,"message":"component server: rank'* ]]
    [ "$(events component_end trainer | jq -r .reason)" = stopped ]
    wait_until 20 job_ended_with 137:0
}

@test "the job fails if a service ends with 0 before the main components end" {
    add_component server 0 1 1 0 --role service -- true
    add_component trainer 1 1 1 0 -- sleep 300
    submit_components
    wait_until 40 has_event ended
    [[ $(events ended) == *'"state":"failed","code":1,'*'although a service must run until'* ]]
    wait_until 20 job_ended_with 1:0
}
