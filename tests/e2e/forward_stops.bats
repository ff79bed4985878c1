#!/usr/bin/env bats
# How `dlrun forward` stops: by Ctrl-C, a closed terminal or kill -9, with both process trackers of
# Slurm.

load helpers
load process_trackers
load forward

@test "Ctrl-C, a terminal that closes and kill -9 leave no step and no process of forward" {
    for tracker in cgroup linuxproc; do
        use_testbed "$tracker"
        submit_servers
        for signal in INT HUP KILL; do
            start_forward last 8888:0
            fetch "$address/" >/dev/null
            kill -"$signal" "$forward_pid"
            wait_for_forward
            [[ $code == 130 || $signal == KILL ]]
            wait_until 20 no_connection_is_left
        done
        is_running
    done
}
