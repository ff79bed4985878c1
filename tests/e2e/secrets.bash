# shellcheck shell=bash
# For test files whose jobs have secrets: creates random values as secrets, and checks that they are
# nowhere except in the job's programs and, until the run ends, in the file `secrets` of the run.
#
#   make_secrets          makes a value for MY_KEY, which dl_with_key passes on, and one for
#                         MY_TOKEN, in $dir/token; sets canary and canary_from_file, the two
#                         values, and digest_of_secrets, the digest of both
#   write_secret_spec NAME TASKS COMMAND
#                         writes $dir/secret.yaml: a job on two nodes with TASKS ranks each. Every
#                         rank prints the digest of both secrets, then executes COMMAND
#   dl_with_key ARGS...   runs dlrun with MY_KEY in its environment, and with MY_TOKEN if the test
#                         has set this variable
#   files_with_secrets FOLDER...
#                         prints every file below FOLDER that contains a secret, except $dir/token,
#                         which the test itself has written
#   no_argument_has_a_secret
#                         checks that no process has a secret in its arguments
#   prints_no_secret COMMAND...
#                         succeeds if the command succeeds and its output contains no secret
#   slurm_has_no_secret JOB
#                         checks that no secret is in the job's description, in the state of the
#                         controller and the nodes (which has the job's script), in Slurm's logs, or
#                         in /tmp of n1 and n2
#   check_secrets_in_container
#                         submits job.yaml with both secrets and checks that only the rank has them;
#                         then does the same with `interactive`. $dir/data is /data in the container

make_secrets() {
    canary=canary-$RANDOM$RANDOM$RANDOM
    canary_from_file=canary-$RANDOM$RANDOM$RANDOM
    printf '%s\n' "$canary_from_file" >"$dir/token"
    chmod 600 "$dir/token"
    chown "$DLRUN_TESTBED_USER:" "$dir/token"
    # Uses a file of patterns, because a pattern in grep's own arguments would be found.
    printf '%s\n' "$canary" "$canary_from_file" >"$BATS_TEST_TMPDIR/patterns"
    digest_of_secrets=$(printf %s "$canary,$canary_from_file" | sha256sum)
}

write_secret_spec() {
    cat >"$dir/secret.yaml" <<YAML
name: $1
resources: {nodes: 2, tasks_per_node: $2, time: 5m}
environment:
  secrets: [MY_KEY, {name: MY_TOKEN, file: token}]
launch:
  preset: plain
  command: [bash, -c, 'echo "rank \$DLRUN_RANK: \$(printf %s "\$MY_KEY,\$MY_TOKEN" | sha256sum)";
    $3']
YAML
    chown "$DLRUN_TESTBED_USER:" "$dir/secret.yaml"
}

# The canary comes into dlrun's environment from a file, so that no process of this test has it in
# an argument.
dl_with_key() {
    printf 'export MY_KEY=%s\n' "$canary" >"$dir/env.sh"
    [[ -z ${MY_TOKEN:-} ]] || printf 'export MY_TOKEN=%s\n' "$MY_TOKEN" >>"$dir/env.sh"
    chmod 600 "$dir/env.sh" && chown "$DLRUN_TESTBED_USER:" "$dir/env.sh"
    as_user bash -c 'cd "$1" && . ./env.sh && rm env.sh && shift && exec dlrun "$@"' - "$dir" "$@"
}

files_with_secrets() {
    grep -rlaFf "$BATS_TEST_TMPDIR/patterns" "$@" 2>/dev/null | grep -v "^$dir/token$" || true
}

no_argument_has_a_secret() {
    local found
    found=$(grep -laFf "$BATS_TEST_TMPDIR/patterns" /proc/[0-9]*/cmdline 2>/dev/null) || true
    [[ -z $found ]] || { echo "in the arguments of: $found" && return 1; }
}

prints_no_secret() {
    local text
    text=$("$@") && [[ $text != *"$canary"* && $text != *"$canary_from_file"* ]]
}

# shellcheck disable=SC2154 # helpers.bash sets testbed
slurm_has_no_secret() {
    local node found
    prints_no_secret scontrol show job "$1" || return 1
    found=$(files_with_secrets "$DLRUN_TESTBED_DIR" --exclude-dir=home --exclude-dir=prefix \
        --exclude='*.sqsh')
    for node in n1 n2; do
        found+=$("$testbed/on_node" "$node" grep -rlaFf - /tmp <"$BATS_TEST_TMPDIR/patterns" ||
            true)
    done
    [[ -z $found ]] || { echo "held by: $found" && return 1; }
}

container_printed_digest() { [[ $(dl logs last --rank 0) == *"rank: $digest_of_secrets"* ]]; }

check_secrets_in_container() {
    local run session
    make_secrets
    cat >>"$dir/job.yaml" <<'YAML'
environment: {secrets: [MY_KEY, {name: MY_TOKEN, file: token}]}
YAML
    # shellcheck disable=SC2016 # not expanded by the test
    local commands='printf %s "$MY_KEY,$MY_TOKEN" | busybox sha256sum;'
    commands+=' until [ -e /data/go ]; do sleep 0.1; done'
    dl_with_key submit job.yaml --set "container.mounts=['$dir/data:/data']" \
        --set "launch.command=[sh, -c, 'printf \"rank: \"; $commands']"
    wait_until 60 container_printed_digest
    run=$(dl status last --json | jq -r .path)
    no_argument_has_a_secret
    slurm_has_no_secret "$(dl status last --json | jq -r .job)"
    prints_no_secret scontrol write batch_script "$(dl status last --json | jq -r .job)" -
    [ "$(files_with_secrets "$DLRUN_TESTBED_HOME")" = "$run/secrets" ]
    as_user touch "$dir/data/go"
    dl wait last
    [ ! -e "$run/secrets" ]

    rm "$dir/data/go"
    dl_with_key interactive job.yaml --set "container.mounts=['$dir/data:/data']" \
        -- sh -c "$commands" >"$BATS_TEST_TMPDIR/session" 2>&1 3>&- &
    session=$!
    wait_until 60 grep -qF "$digest_of_secrets" "$BATS_TEST_TMPDIR/session"
    no_argument_has_a_secret
    slurm_has_no_secret "$(squeue -h -u "$DLRUN_TESTBED_USER" -o %i | sort -n | tail -n 1)"
    [ -z "$(files_with_secrets "$DLRUN_TESTBED_HOME")" ]
    as_user touch "$dir/data/go"
    wait "$session"
}
