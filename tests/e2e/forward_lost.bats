#!/usr/bin/env bats
# The srun of `dlrun forward` is killed, with each of Slurm's two process trackers.

load helpers
load process_trackers
load forward

@test "if srun is killed, dlrun forward ends with the reason, and the relay on the node ends" {
    declare -A job_on run_on
    for tracker in cgroup linuxproc; do
        use_testbed "$tracker"
        submit_servers
        start_forward last 8888:0
        pkill -KILL -P "$forward_pid" srun
        wait_for_forward
        [ "$code" -eq 3 ]
        grep -q 'the forwarding ended on n1' "$dir/forward.err"
        save_dir_of "$tracker"
        job_on[$tracker]=$job
        run_on[$tracker]=$(dl status last --json | jq -r .run)
    done
    # Slurm does not tell the relay that srun is gone. The relay ends when it has received nothing
    # from dlrun for 20 s. The relays of both testbeds wait at the same time.
    for tracker in cgroup linuxproc; do
        return_to "$tracker"
        job=${job_on[$tracker]}
        wait_until 40 no_connection_is_left
        # `last` would be the run on the other testbed.
        [ "$(dl status "${run_on[$tracker]}" --json | jq -r .state)" = running ]
    done
}
