#!/usr/bin/env bats
# A secret reaches the job's program only: the tests search for a canary wherever a job leaves
# traces.
# timeout: 300

load helpers
load secrets

setup() {
    dir=$(fresh_dir)
    make_secrets
    write_secret_spec secret 2 'until [[ -e go ]]; do sleep 0.2; done'
}

dl() { dl_with_key "$@"; }
is_state() { [[ $(dl status last --json | jq -r .state) == "$1" ]]; }
path() { dl status last --json | jq -r .path; }
ranks_printed_digest() { [[ $(dl logs last | grep -c "^rank [0-3]: $digest_of_secrets") -eq 4 ]]; }

@test "a secret reaches every rank, but no argument, script, comment, log, record or Slurm file" {
    dl submit secret.yaml
    wait_until 60 ranks_printed_digest
    run=$(path) job=$(dl status last --json | jq -r .job)

    # Only the environments of the ranks' programs contain the secret. No argument contains it.
    no_argument_has_a_secret
    local program_count=0
    while read -r environ; do
        comm=$(cat "${environ%environ}comm" 2>/dev/null) || continue
        [[ $comm == bash || $comm == sleep || $comm == sha256sum ]] ||
            { echo "in the environment of $comm" >&2 && false; }
        # The program starts and ends `sleep` processes all the time, so a process that grep has
        # found may be gone.
        { variables=$(tr '\0' '\n' <"$environ"); } 2>/dev/null || continue
        [[ -z $variables || $variables == *DLRUN_RANK=* ]]
        program_count=$((program_count + 1))
    done < <(grep -laFf "$BATS_TEST_TMPDIR/patterns" /proc/[0-9]*/environ 2>/dev/null)
    ((program_count >= 4)) # The programs themselves do have the secrets.

    slurm_has_no_secret "$job"
    prints_no_secret scontrol write batch_script "$job" -

    # In the user's home only the run's file `secrets` has the secrets, and only its owner can read
    # it.
    [ "$(stat -c '%a %U' "$run/secrets")" = "600 $DLRUN_TESTBED_USER" ]
    [ "$(files_with_secrets "$DLRUN_TESTBED_HOME")" = "$run/secrets" ]
    [ -z "$(files_with_secrets /tmp --exclude-dir=bats-run*)" ]

    as_user touch "$dir/go"
    wait_until 60 is_state completed
    [ ! -e "$run/secrets" ]
    [ -z "$(files_with_secrets "$DLRUN_TESTBED_HOME" "$DLRUN_TESTBED_DIR/log")" ]
}

@test "dlrun run gives secrets to its ranks, and no file keeps a secret" {
    as_user touch "$dir/go"
    dl run secret.yaml --set resources.nodes=1 --set resources.tasks_per_node=4
    ranks_printed_digest
    [ ! -e "$(path)/secrets" ]
    [ -z "$(files_with_secrets "$DLRUN_TESTBED_HOME")" ]
}

@test "a secret that is not set or has no file is reported with line and column before queueing" {
    run as_user bash -c 'cd "$1" && unset MY_KEY && mv token away && dlrun submit secret.yaml' \
        - "$dir"
    [ "$status" -eq 2 ]
    [[ $output == *"secret.yaml:4:13: error: environment.secrets: secret MY_KEY is not set"* ]]
    [[ $output \
        == *"secret.yaml:4:21: error: environment.secrets: secret MY_TOKEN: "*"No such file"* ]]
    [ ! -e "$dir/runs" ]
    no_jobs
}

@test "a secret's value in another key is refused, because the script would contain it" {
    run dl render secret.yaml --set 'environment.vars.COPY=${MY_KEY}'
    [ "$status" -eq 2 ]
    [[ $output == *"MY_KEY is a secret"* && $output != *"$canary"* ]]
}

@test "the job of an edited script gets its secrets, and the script contains none" {
    dl render secret.yaml -o job.sh
    prints_no_secret cat "$dir/job.sh"
    grep -q -- '--secret MY_KEY' "$dir/job.sh"
    sed -i 's/--time=00:05:00/--time=00:04:00/' "$dir/job.sh"
    # MY_TOKEN is a secret from a file, so dlrun ignores this variable of the shell.
    MY_TOKEN=decoy dl submit job.sh
    wait_until 60 ranks_printed_digest
    text=$(scontrol write batch_script "$(dl status last --json | jq -r .job)" -)
    [[ $text != *"$canary"* ]]
    dl cancel last
    wait_until 60 is_state cancelled
}

@test "cancelling a pending job removes its secrets" {
    dl submit secret.yaml --set resources.begin=now+1hour
    waiting=$(path)
    [ -e "$waiting/secrets" ]
    dl cancel last
    wait_until 30 is_state cancelled
    [ ! -e "$waiting/secrets" ]
}

@test "a point of a sweep keeps its secrets when it is resubmitted twice" {
    dl submit secret.yaml --set resources.begin=now+1hour \
        --set 'sweep.parameters={environment.vars.N: [1]}'
    sweep=$(dl status last --json | jq -r .run)
    for _ in 1 2; do
        dl cancel "$sweep/0"
        MY_TOKEN=decoy dl resubmit "$sweep/0"
        tr '\0' '\n' <"$(dl status "$sweep/0" --json | jq -r .path)/secrets" |
            grep -qx "MY_TOKEN=$canary_from_file"
    done
}

@test "if sbatch refuses the job, its secrets are removed" {
    run dl submit secret.yaml --set resources.partition=nope
    [ "$status" -eq 3 ]
    [ -z "$(files_with_secrets "$DLRUN_TESTBED_HOME")" ]
}
