#!/usr/bin/env bats
# The log shows each command that dlrun runs, and in a job the actions of lead, the ranks' agents
# and the trainer. The log contains no secret. A log in a file changes neither stdout nor stderr.
# timeout: 300

load helpers
load secrets

setup() {
    dir=$(fresh_dir)
    make_secrets
    # shellcheck disable=SC2016 # The rank expands CODE.
    write_secret_spec logged 1 'exit $((CODE))'
}

dl() { dl_with_key "$@"; }
# dl_logged LEVEL ARGUMENTS...: runs dlrun with MY_KEY, and with DLRUN_LOG set to the level and the
# file own.log.
dl_logged() {
    printf 'export MY_KEY=%s DLRUN_LOG=%s\n' "$canary" "$1:$dir/own.log" >"$dir/env.sh"
    chmod 600 "$dir/env.sh" && chown "$DLRUN_TESTBED_USER:" "$dir/env.sh"
    as_user bash -c 'cd "$1" && . ./env.sh && rm env.sh && shift 2 && exec dlrun "$@"' \
        - "$dir" "$@"
}
path() { dl status last --json | jq -r .path; }
is_state() { [[ $(dl status last --json | jq -r .state) == "$1" ]]; }

# executed_programs FILE: prints the names of the programs in strace's output FILE, one per line.
executed_programs() {
    sed -nE 's/^[0-9]+ +execve\("([^"]*)".*/\1/p' "$1" | xargs -n 1 basename | sort -u
}

@test "submit -vv logs each command with exit code and time, only to stderr, without secrets" {
    printf 'export MY_KEY=%s\n' "$canary" >"$dir/env.sh"
    chmod 600 "$dir/env.sh" && chown "$DLRUN_TESTBED_USER:" "$dir/env.sh"
    as_user bash -c 'cd "$1" && . ./env.sh && rm env.sh && exec strace -f -qq -e trace=execve \
        -e status=successful -o calls dlrun -vv submit secret.yaml --json >out 2>err' - "$dir"
    jq -e .job "$dir/out"
    grep -qE ' info dlrun\[[0-9]+\]: dlrun starts version=' "$dir/err"
    grep -qE ' a command has ended argv="sbatch --parsable .*job.sh" code=0 seconds=0' "$dir/err"
    grep -q ' a spec is loaded spec=.*/secret.yaml' "$dir/err"
    grep -q ' debug dlrun\[.*a file is read file=.*/secret.yaml' "$dir/err"
    # The first program is dlrun itself.
    local program programs
    programs=$(executed_programs "$dir/calls" | grep -vx dlrun)
    [[ $programs == *sbatch* ]]
    for program in $programs; do
        grep -qE " a command has ended argv=\"?([^ ]*/)?${program}[ \"]" "$dir/err" ||
            { echo "$program is not in the log" && false; }
    done
    prints_no_secret cat "$dir/err" "$dir/out"
}

@test "if the reader of the log ends early, dlrun goes on and the job is not lost" {
    printf 'export MY_KEY=%s\n' "$canary" >"$dir/env.sh"
    chmod 600 "$dir/env.sh" && chown "$DLRUN_TESTBED_USER:" "$dir/env.sh"
    as_user bash -c 'cd "$1" && . ./env.sh && rm env.sh &&
        exec dlrun -vv submit secret.yaml --json >out 2> >(head -n 1 >first)' - "$dir"
    grep -q 'dlrun starts' "$dir/first"
    [ "$(dl status last --json | jq -r .job)" = "$(jq -r .job "$dir/out")" ]
}

@test "--log-file appends to a file of mode 0600, and changes neither stdout nor stderr" {
    # Slurm answers each check with a new job id and a new estimate of the start.
    without_estimate() { sed '/^  Slurm  /d' "$1"; }
    dl check secret.yaml >"$dir/plain" 2>&1
    dl check secret.yaml --log-file "$dir/a.log" >"$dir/logged" 2>&1
    cmp <(without_estimate "$dir/plain") <(without_estimate "$dir/logged")
    [ "$(stat -c '%a %U' "$dir/a.log")" = "600 $DLRUN_TESTBED_USER" ]
    old_length=$(wc -l <"$dir/a.log")
    dl -v --log-file "$dir/a.log" check secret.yaml >"$dir/logged" 2>&1
    cmp <(without_estimate "$dir/plain") <(without_estimate "$dir/logged")
    [ "$(wc -l <"$dir/a.log")" -ge $((2 * old_length)) ]
    [ "$(grep -c 'dlrun ends code=0' "$dir/a.log")" -eq 2 ]
    as_user chmod 644 "$dir/a.log"
    run dl check secret.yaml --log-file "$dir/a.log"
    [ "$status" -ne 0 ]
    [[ $output == *"the log needs a file of your own with mode 0600"* ]]
    run dl check secret.yaml --log-file "$dir"
    [ "$status" -ne 0 ]
    [[ $output == *"dlrun: error: the log: $dir: "* ]]
}

@test "with DLRUN_LOG, lead and agents log into the run, and lead logs why an attempt ended" {
    dl_logged debug submit secret.yaml --set environment.vars.CODE=7 \
        --set retry.max=1 --set 'retry.on=[failure]'
    wait_until 60 is_state failed
    run=$(path)
    grep -q ' info lead\[.*: recorded event=started ' "$run/debug/lead.log"
    grep -q ' lead\[.*a command has ended argv="srun ' "$run/debug/lead.log"
    grep -q 'decided what follows the attempt attempt=0 next="another attempt" cause=failure' \
        "$run/debug/lead.log"
    grep -q 'decided what follows the attempt attempt=1 next=end' "$run/debug/lead.log"
    for rank in 0 1; do
        grep -q " rank $rank\[.*connected to lead " "$run/debug/rank-000$rank.log"
        grep -qE " a command has ended argv=\"bash -c .* code=(7|143)" \
            "$run/debug/rank-000$rank.log"
    done
    [ "$(stat -c %a "$run/debug" "$run/debug/lead.log" "$run/debug/rank-0000.log" | xargs)" \
        = "700 600 600" ]
    grep -q 'a command has ended argv="sbatch ' "$dir/own.log"
    if grep -q 'lead\[' "$dir/own.log"; then false; fi # the job got the level, not the file
    # The job's output contains no line of the log.
    [[ $(dl logs last) != *"connected to lead"* && $(cat "$run"/slurm-*.out) != *"recorded event"* ]]
    [ "$(files_with_secrets "$DLRUN_TESTBED_HOME")" = "" ]
}

@test "the trainer logs its start, the connection of its ranks and the end of reading its data" {
    dl_logged info run "$DLRUN_TESTBED_PREFIX/share/dlrun/examples/mnist-mlp.yaml" \
        --set train.data.dataset=digits --set train.epochs=1 --set resources.nodes=1 \
        --set resources.tasks_per_node=2 --set train.data.train_samples=256
    run=$(path)
    for rank in 0 1; do
        grep -q " info trainer $rank\[.*the trainer starts rank=$rank world_size=2 " \
            "$run/debug/trainer-000$rank.log"
        grep -q " the ranks are connected backend=shm " "$run/debug/trainer-000$rank.log"
        grep -q " reading the data has ended source=" "$run/debug/trainer-000$rank.log"
    done
    [[ $(cat "$run/debug/lead.log") == *"recorded event=ended"*"state=completed"* ]]
}

@test "an invalid DLRUN_LOG ends dlrun with an error, but a job that has it runs without a log" {
    run as_user bash -c "cd '$dir' && DLRUN_LOG=loud dlrun ls"
    [ "$status" -eq 2 ]
    [[ $output == *"DLRUN_LOG: 'loud' is not a setting of the log; expected off, info or debug"* ]]
    dl submit secret.yaml --set environment.setup='export DLRUN_LOG=loud'
    wait_until 60 is_state completed
    [[ $(cat "$(path)"/slurm-*.out) == *"no log is written"* ]]
    [ ! -e "$(path)/debug" ]
}
