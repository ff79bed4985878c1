#!/usr/bin/env bats
# A rank dies: dlrun reports the rank, its node and the signal, and no process is left. The tests
# run with both of Slurm's process trackers.
# timeout: 300

load helpers
load process_trackers

# submit_eight PROGRAM: submits a job of 8 ranks on 4 nodes whose ranks write their process ids, and
# those of their agents, and then run PROGRAM; waits until all have started
submit_eight() {
    cat >"$dir/eight.yaml" <<YAML
name: eight
resources: {nodes: 4, tasks_per_node: 2, cpus_per_task: 1, time: 5m}
launch:
  preset: plain
  command:
    - bash
    - -c
    - 'exec 9>$dir/alive-\$DLRUN_RANK; flock 9; echo \$\$ \$PPID > $dir/pid-\$DLRUN_RANK; $1'
YAML
    dl submit eight.yaml
    wait_until 30 all_have_started
}
all_have_started() { [ "$(cat "$dir"/pid-* 2>/dev/null | wc -l)" -eq 8 ]; }

# kill_and_check PID: kills the process with SIGKILL. Checks that all processes of the job are gone
# within 2 s, and that wait and status show rank 3, its host and the signal
kill_and_check() {
    local since=$EPOCHREALTIME
    kill -9 "$1"
    wait_until 10 none_is_alive
    took_ms=$(((${EPOCHREALTIME/./} - ${since/./}) / 1000))
    echo "all gone after $took_ms ms"
    [ "$took_ms" -le 2000 ]
    run dl wait last
    echo "$output"
    [ "$status" -eq 5 ]
    [[ $output == *"rank 3 on n2 was killed by SIGKILL"* ]]
    run dl status last --json
    jq -e '.first_failed | .rank == 3 and .host == "n2" and .signal == "SIGKILL"' <<<"$output"
}

# check_kill_of_rank_3 program|agent PROGRAM: with both trackers, submits a job of eight ranks that
# run PROGRAM, kills the program or the agent of rank 3, and checks the end of the job
check_kill_of_rank_3() {
    local field tracker
    [[ $1 == program ]] && field=1 || field=2
    for tracker in cgroup linuxproc; do
        use_testbed "$tracker"
        submit_eight "$2"
        kill_and_check "$(cut -d' ' -f"$field" "$dir/pid-3")"
    done
}

@test "after kill -9 of 1 of 8 programs, all end in 2 s, and dlrun shows rank, host and signal" {
    check_kill_of_rank_3 program 'sleep 300'
}

@test "after kill -9 of one of 8 programs, all end within 2 s, even if they ignore TERM" {
    check_kill_of_rank_3 program \
        'trap "" TERM INT HUP USR1; setsid sleep 300 & sleep 300; sleep 300'
}

@test "after kill -9 of one rank's agent, the rank's program and all others are gone within 2 s" {
    check_kill_of_rank_3 agent 'trap "" TERM; sleep 300; sleep 300'
}

@test "after kill -9 of lead, the agents end all ranks within 15 s, because lead is silent" {
    for tracker in cgroup linuxproc; do
        use_testbed "$tracker"
        submit_eight 'trap "" TERM; sleep 300; sleep 300'
        kill -9 "$(jq -r 'select(.event == "claimed") | .pid' \
            "$(dl status last --json | jq -r .path)/events.jsonl")"
        wait_until 15 none_is_alive
    done
}
