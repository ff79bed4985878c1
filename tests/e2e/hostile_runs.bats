#!/usr/bin/env bats
# Malicious run directories (hostile_runs.py). First they belong to another user, then to the user
# who calls dlrun, because a user's job can write the files of its own run. No command may crash,
# take more than 5 s or 200 MiB, print control characters to a terminal, show a private file, send a
# token, signal a process or change a job.
# timeout: 1500

load helpers

setup() {
    dir=$(fresh_dir)
    install -m 755 "$BATS_TEST_DIRNAME/hostile_runs.py" "$dir"
    as_user bash -c 'umask 077 && echo "a-word-that-is-private-$RANDOM" >"$1/private"' - "$dir"
    as_user bash -c 'exec sleep 1200' 3>&- &
    wait_until 5 victim_process_is_alive
}

teardown() {
    kill "$(victim_pid)" || true
    end_test
    # Other tests read all files of the home directory. The hostile files have gigabytes of holes.
    rm -rf "$dir"
}

victim_pid() { pgrep -n -u "$DLRUN_TESTBED_USER" -fx 'sleep 1200'; }
victim_process_is_alive() { victim_pid >/dev/null; }
# Prints the victim's process as dlrun writes the id of a local job: HOST:PID:START.
victim_identity() {
    local pid
    pid=$(victim_pid)
    echo "$(as_user hostname):$pid:$(sed 's/.*) //' "/proc/$pid/stat" | cut -d' ' -f20)"
}

# make_runs FOLDER OWNER: makes the hostile runs in FOLDER, which belong to OWNER
make_runs() {
    "$dir/hostile_runs.py" make "$dir/$1" --private "$dir/private" --process "$(victim_identity)" \
        --suffix "$1"
    chown -hR "$2" "$dir/$1"
}

# check_runs FOLDER [--own]: runs every command on the hostile runs in FOLDER. The victim's job and
# process must survive. DLRUN_TEST_ONLY=KIND selects one kind.
check_runs() {
    local job
    job=$(as_user sbatch --parsable --hold --output=/dev/null --wrap 'sleep 600')
    run as_user bash -c 'cd "$1" &&
        exec ./hostile_runs.py check "$1/$2" --private "$1/private" "${@:3}"' \
        - "$dir" "$@" ${DLRUN_TEST_ONLY:+--only "$DLRUN_TEST_ONLY"}
    echo "$output" | tail -n 300
    victim_process_is_alive
    [ "$(job_state "$job")" = PENDING ]
    # No command has submitted a job.
    [ "$(squeue -h -u "$DLRUN_TESTBED_USER" -o %i)" = "$job" ]
    [ "$status" -eq 0 ]
}

@test "another user's hostile runs cost bounded time and memory, do no harm, and enter no index" {
    make_runs foreign nobody
    check_runs foreign
    [ -z "$(as_user grep -rlF "$dir/foreign" "$(as_user sh -c "echo \$HOME")/.local/state/dlrun/runs")" ]
}

@test "a user's own runs with hostile files cost bounded time and memory, and do no harm" {
    make_runs own "$DLRUN_TESTBED_USER:"
    check_runs own --own
}
