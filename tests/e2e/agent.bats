#!/usr/bin/env bats
# dlrun-agent in real allocations, from scripts submitted by hand: the effect of signals with both
# of Slurm's process trackers, failing launches, requeues, competing attempts, and MPI under the
# agent.
# timeout: 420

load helpers
load process_trackers

setup() { use_testbed cgroup; }

# submit_lead_job LEAD_OPTIONS BEFORE_AGENT PROGRAM...: submits 8 ranks on 4 nodes; sets job and
# run_dir. BEFORE_AGENT stands between srun and the agent: options of srun, or a program that starts
# the agent.
submit_lead_job() {
    local lead_options=$1 before_agent=$2 agent=$DLRUN_TESTBED_PREFIX/bin/dlrun-agent
    shift 2
    {
        printf '#!/bin/bash\n'
        # The options contain no characters that need quoting.
        printf 'exec %q lead --runs %q --name t %s -- ' "$agent" "$dir/runs" "$lead_options"
        printf 'srun --export=ALL --kill-on-bad-exit=1 %s %q rank --' "$before_agent" "$agent"
        printf ' %q' "$@"
        printf '\n'
    } >"$dir/job.sh"
    job=$(as_user sbatch --parsable -N4 --ntasks-per-node=2 -t 5 --open-mode=append -o "$dir/out" \
        --chdir "$dir" \
        "${sbatch_options[@]}" "$dir/job.sh")
    run_dir=$dir/runs/t-$job
}
sbatch_options=()

has_event() { grep -q "\"event\":\"$1\"" "$run_dir/events.jsonl"; }
last_event() { grep "\"event\":\"$1\"" "$run_dir/events.jsonl" | tail -n 1; }
all_are_up() { [ "$(cat "$dir"/up-* 2>/dev/null | wc -l)" -eq 8 ]; }

# Writes the ranks' program `counter`. The program writes the file up-RANK, counts its signals until
# the file `stop` exists, and writes the counts to the file count-RANK.
write_counter() {
    cat >"$dir/counter" <<'SH'
#!/bin/bash
usr1=0 term=0
trap '((usr1++))' USR1
trap '((term++))' TERM
echo up >"$1/up-$DLRUN_RANK"
while [ ! -e "$1/stop" ]; do sleep 0.1 & wait $!; done
echo "usr1 $usr1 term $term" >"$1/count-$DLRUN_RANK"
SH
    chmod 755 "$dir/counter"
}
# Prints how many ranks have the same counts, such as "8 usr1 1 term 0": 8 ranks got USR1 once and
# TERM never.
print_counts() { sort "$dir"/count-* | uniq -c | sed 's/^ *//' | tee /dev/stderr; }
end_run() {
    as_user touch "$dir/stop"
    wait_until 20 has_event ended
}

@test "with --forward-usr1, USR1 to the steps or to the batch script reaches every program once" {
    for tracker in cgroup linuxproc; do
        for target in '' --batch; do
            use_testbed "$tracker"
            write_counter
            submit_lead_job --forward-usr1 '' "$dir/counter" "$dir"
            wait_until 30 all_are_up
            # shellcheck disable=SC2086 # an empty target is no argument
            as_user scancel $target -s USR1 "$job"
            wait_until 10 has_event signal
            # A second USR1 would arrive within this time.
            sleep 0.5
            end_run
            [ "$(print_counts)" = "8 usr1 1 term 0" ]
            [[ $(last_event signal) == *'"signal":"SIGUSR1"'*'"word":"checkpoint"'* ]]
            [[ $(last_event ended) == *'"state":"completed"'* ]]
        done
    done
}

@test "without --forward-usr1, USR1 is recorded and does not reach the programs" {
    write_counter
    submit_lead_job '' '' "$dir/counter" "$dir"
    wait_until 30 all_are_up
    as_user scancel -s USR1 "$job"
    wait_until 10 has_event signal
    end_run
    [ "$(print_counts)" = "8 usr1 0 term 0" ]
    [[ $(last_event signal) == *'"word":"none"'* ]]
}

@test "with --forward-usr1, TERM to the step alone, as in a preemption, gives every program USR1" {
    for tracker in cgroup linuxproc; do
        use_testbed "$tracker"
        write_counter
        submit_lead_job --forward-usr1 '' "$dir/counter" "$dir"
        wait_until 30 all_are_up
        as_user scancel -s TERM "$job.0"
        wait_until 10 has_event signal
        sleep 0.5
        end_run
        [[ $(print_counts) == "8 usr1 1 term "[01] ]]
        [[ $(last_event ended) == *'"state":"completed"'* ]]
    done
}

@test "within 2 s after scancel, ranks that ignore TERM are gone, and each has got TERM once" {
    for tracker in cgroup linuxproc; do
        use_testbed "$tracker"
        # shellcheck disable=SC2016
        submit_lead_job '' '' bash -c 'exec 9>"$0/alive-$DLRUN_RANK"; flock 9; n=0
            trap "((n++)); echo \$n > \$0/term-$DLRUN_RANK" TERM
            setsid bash -c "trap \"\" TERM; sleep 300" & echo up >"$0/up-$DLRUN_RANK"
            while :; do sleep 0.1; done' \
                "$dir"
        wait_until 30 all_are_up
        local since=$EPOCHREALTIME took_ms
        as_user scancel "$job"
        wait_until 10 none_is_alive
        took_ms=$(((${EPOCHREALTIME/./} - ${since/./}) / 1000))
        echo "all gone after $took_ms ms"
        [ "$took_ms" -le 2000 ]
        [ "$(cat "$dir"/term-* | sort -u)" = 1 ]
        wait_until 10 has_event ended
        [[ $(last_event ended) == *'"state":"cancelled","code":143'* ]]
    done
}

@test "a job that reaches its time limit is reported as timeout, not as cancelled" {
    for tracker in cgroup linuxproc; do
        use_testbed "$tracker"
        write_counter
        submit_lead_job '' '' "$dir/counter" "$dir"
        wait_until 30 all_are_up
        scontrol update job="$job" EndTime="$(date -d '+1 second' +%FT%T)"
        save_dir_of "$tracker"
    done
    for tracker in cgroup linuxproc; do
        return_to "$tracker"
        wait_until 100 has_event ended # slurmctld checks time limits every half minute.
        message='the job reached its time limit (resources.time); ended by SIGTERM'
        [[ $(last_event ended) == *'"state":"timeout"'*"$message"* ]]
        wait_until 20 grep -q "dlrun: the job reached its time limit" "$dir/out"
    done
}

@test "a step that cannot be launched ends the job with exit code 77 and srun's message" {
    submit_lead_job '' '-n 4000' true
    wait_until 20 has_event ended
    [[ $(last_event ended) == *'"code":77'*'More processors requested'* ]]
    message='dlrun: the step could not be launched (exit code 1): .*srun: error: .*More processors'
    grep -q "$message" "$dir/out"
    wait_until 10 job_failed_with 77
}
job_failed_with() {
    scontrol show job --oneliner "$job" | grep -q "JobState=FAILED .*ExitCode=$1:0"
}

@test "a job that is cancelled before its step starts is recorded as cancelled, not as failed" {
    mkdir "$dir/srun_stand_in"
    # shellcheck disable=SC2016 # not expanded by the test
    {
        printf '#!/bin/bash\ntouch "$PWD/ready"; until [ -e "$PWD/go" ]; do sleep 0.1; done; '
        printf 'exec %q/srun "$@"\n' "$slurm_bin"
    } >"$dir/srun_stand_in/srun"
    chmod 755 "$dir/srun_stand_in/srun"
    sbatch_options=(--export="ALL,PATH=$dir/srun_stand_in:$slurm_bin:/usr/bin:/bin")
    submit_lead_job '' '' true
    wait_until 20 test -e "$dir/ready"
    "$testbed/fault" pause n1 # TERM does not reach lead on a paused node.
    as_user scancel "$job"
    is_cancelled() { [[ $(scontrol show job "$job") == *JobState=@(CANCELLED|COMPLETING)* ]]; }
    release_and_see_end() { is_cancelled && touch "$dir/go" && has_event ended; }
    run wait_until 40 release_and_see_end
    "$testbed/fault" resume n1
    "$testbed/up" >/dev/null # Slurm may have marked the node as down meanwhile.
    echo "$output"
    [ "$status" -eq 0 ]
    message='"message":"the job was cancelled; the step could not be launched'
    [[ $(last_event ended) == *'"state":"cancelled","code":143,'"$message"* ]]
}

@test "a command that is not on the node ends the job with 127, and a message shows host and PATH" {
    submit_lead_job '' '' pythonx train.py
    wait_until 20 has_event ended
    message='pythonx: command not found \(PATH=.*\); dlrun ends the other 7 ranks'
    grep -Eq "^dlrun: rank [0-7] on n[1-4]: $message\$" "$dir/out"
    wait_until 10 job_failed_with 127
}

@test "the job's exit code is that of the first failed rank, whatever srun reports" {
    # shellcheck disable=SC2016
    submit_lead_job '' '' bash -c '[ $DLRUN_RANK = 5 ] && exit 3; sleep 60'
    wait_until 20 has_event ended
    [[ $(last_event attempt_end) \
        == *'"first_failed":{"rank":5,"host":"n3","code":3,"signal":""}'* ]]
    wait_until 10 job_failed_with 3
}

@test "a requeued job claims its run again, as the next attempt with its own logs" {
    sbatch_options=(--requeue)
    # shellcheck disable=SC2016
    submit_lead_job '' '' \
        bash -c 'echo "attempt $DLRUN_ATTEMPT"; echo up >"$0/up-$DLRUN_RANK";
            [ "$DLRUN_ATTEMPT" = 1 ] || sleep 300' \
        "$dir"
    wait_until 30 all_are_up
    as_user scontrol requeue "$job"
    wait_until 60 grep -q '"state":"completed"' "$run_dir/events.jsonl"
    [[ $(last_event claimed) == *'"attempt":1'*'"again":true'* ]]
    [ "$(cat "$run_dir/attempt")" = 1 ]
    [ "$(cat "$run_dir/logs/attempt-0/rank-0003.log")" = "attempt 0" ]
    [ "$(cat "$run_dir/logs/attempt-1/rank-0003.log")" = "attempt 1" ]
}

@test "a second job for the same run directory starts no program and exits with 75" {
    submit_lead_job '' '' true
    wait_until 20 has_event ended
    local first_run_dir=$run_dir
    sbatch_options=(--export="ALL,DLRUN_RUN=$first_run_dir")
    submit_lead_job '' '' touch "$dir/second"
    wait_until 20 job_failed_with 75
    [ ! -e "$dir/second" ]
    grep -q 'holds this run' "$dir/out"
}

@test "an attempt that is superseded by a later one ends, and records no end of the run" {
    submit_lead_job '' '' sleep 300
    wait_until 20 has_event joined
    as_user bash -c 'echo 1 >"$0/attempt"' "$run_dir"
    wait_until 20 job_failed_with 75
    grep -q 'has superseded attempt 0 of this run' "$dir/out"
    [[ $(<"$run_dir/events.jsonl") != *'"event":"ended"'* ]]
}

@test "if ranks do not join, an error lists their nodes" {
    # On n3 the agent is delayed.
    cat >"$dir/slow" <<'SH'
#!/bin/bash
[ "$SLURM_NODEID" = 2 ] && exec sleep 60
exec "$@"
SH
    chmod 755 "$dir/slow"
    submit_lead_job '--join-timeout 3' "$dir/slow" true
    wait_until 30 has_event ended
    [[ $(last_event missing) == *'"ranks":[4,5]'* ]]
    grep -q 'dlrun: 2 of 8 ranks did not connect to lead within 3.* s: ranks 4-5; missing on n3 (all)' \
        "$dir/out"
    wait_until 10 job_failed_with 76
}

@test "an MPI program runs over PMIx as the agent's child" {
    for tracker in cgroup linuxproc; do
        use_testbed "$tracker"
        install -D -m 755 "$DLRUN_BUILD_DIR/bin/mpi_chain" "$DLRUN_TESTBED_PREFIX/bin/mpi_chain"
        submit_lead_job '' --mpi=pmix "$DLRUN_TESTBED_PREFIX/bin/mpi_chain"
        wait_until 60 has_event ended
        cat "$dir/out"
        [[ $(last_event ended) == *'"message":"all 8 ranks ended with 0"'* ]]
        [ "$(grep -c '^rank [0-7] of 8 on n[1-4]: [1-8]$' "$dir/out")" -eq 8 ]
    done
}
