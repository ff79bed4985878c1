#!/usr/bin/env bats
# How ssh connections into a job end, with both of Slurm's process trackers.

load helpers
load process_trackers
load forward

no_sleeper() { ! pgrep -u "$DLRUN_TESTBED_USER" -a -f 'sleep 98765'; }

@test "the programs of a connection end with it, and all connections end with the job" {
    for tracker in cgroup linuxproc; do
        use_testbed "$tracker"
        submit_servers
        write_ssh_block last --node n2
        # The program has its own session and ignores the signals with which sshd ends programs.
        ssh_to 'setsid sh -c "trap \"\" TERM HUP; sleep 98765" >/dev/null 2>&1 </dev/null &'
        wait_until 20 no_connection_is_left
        wait_until 20 no_sleeper
        is_running
        ssh_to 'trap "" TERM HUP; touch '"$dir"'/in; sleep 98765' </dev/null 3>&- &
        session=$!
        wait_until 30 test -e "$dir/in"
        dl cancel last
        wait "$session" || true
        wait_until 20 job_is_gone
        wait_until 20 no_sleeper
    done
}
