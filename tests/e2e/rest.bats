#!/usr/bin/env bats
# Submitting through a real slurmrestd: the job is the same as with sbatch, and dlrun's commands
# handle it in the same way.
# timeout: 300
# shellcheck disable=SC2030,SC2031 # bats: each test is a subshell

load helpers
load rest
load secrets

# Prints Slurm's description of a job, one field per line, without fields that always differ. In the
# logs' names, the job's own number and folder become JOB and RUN.
job_fields() {
    local varying='JobId|AllocNode:Sid|SubmitTime|EligibleTime|AccrueTime|StartTime|EndTime'
    varying+='|LastSchedEval|SuspendTime|Reason|Command|Comment|ArrayJobId|Priority|SLUID'
    scontrol show job -dd "$1" | grep -v SubmitLine= | tr -s ' \n' '\n' |
        grep -Ev "^($varying)=|^\\(?null\\)?\$|^\$" |
        sed -E "/^Std(Out|Err)=/{s#$dir/runs/job-[^/]*/#RUN/#;s#\\b$1\\b#JOB#g}"
}

# compare_jobs SPEC-OPTIONS...: submits the same spec by sbatch and by slurmrestd, and compares the
# jobs field by field. The options must set resources.begin to a time in the future, so that no job
# starts.
compare_jobs() {
    local sbatch_job rest_job
    sbatch_job=$(dl submit job.yaml --json --set "$(via sbatch)" "$@" 2>/dev/null | jq -r .job)
    rest_job=$(dl submit job.yaml --json --set "$(via slurmrestd)" "$@" 2>/dev/null | jq -r .job)
    [[ $sbatch_job =~ ^[0-9]+$ && $rest_job =~ ^[0-9]+$ ]] ||
        { echo "$*: '$sbatch_job' '$rest_job'" >&2 && return 1; }
    job_fields "$sbatch_job" >"$BATS_TEST_TMPDIR/sbatch"
    job_fields "$rest_job" >"$BATS_TEST_TMPDIR/slurmrestd"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/sbatch")" -gt 40 ]
    diff "$BATS_TEST_TMPDIR/sbatch" "$BATS_TEST_TMPDIR/slurmrestd" ||
        { echo "the jobs differ: $*" >&2 && return 1; }
}

@test "slurmrestd and sbatch give the same job, field by field, for every key in common use" {
    in_2037=(--set resources.begin=2037-01-02T03:04:05)
    compare_jobs "${in_2037[@]}"
    compare_jobs "${in_2037[@]}" --set resources.nodes=2 --set resources.tasks_per_node=3 \
        --set resources.cpus_per_task=2 --set resources.mem=4G
    compare_jobs "${in_2037[@]}" --set resources.nodes=2-4 --set resources.gpus_per_node=2 \
        --set resources.cpus_per_gpu=3 --set resources.mem_per_gpu=2G
    compare_jobs "${in_2037[@]}" --set resources.tasks_per_node=null --set resources.nodes=null \
        --set resources.ntasks=5 --set resources.gpus_per_task=1 --set resources.mem_per_cpu=100M
    compare_jobs "${in_2037[@]}" --set 'resources.gpus_per_node={type: pretend, count: 1}' \
        --set resources.exclusive=true --set resources.threads_per_core=1
    compare_jobs "${in_2037[@]}" --set resources.gres=gpu:pretend:2 --set resources.exclusive=user \
        --set resources.time=12:03:04
    compare_jobs "${in_2037[@]}" --set 'resources.nodelist=n[2-3]' --set resources.nodes=2 \
        --set resources.exclude=n4 --set resources.partition=preempt
    compare_jobs "${in_2037[@]}" --set after.any=1 --set resources.error=logs/%j.err
    grep -qx "StdErr=$dir/logs/JOB.err" "$BATS_TEST_TMPDIR/slurmrestd"
    compare_jobs "${in_2037[@]}" --set resources.output=logs/%x-%j.out --set resources.account=some \
        --set resources.constraint=fast --set resources.licenses=tool:2
    for field in "StdOut=$dir/logs/job-JOB.out" Account=some Features=fast Licenses=tool:2; do
        grep -qxF "$field" "$BATS_TEST_TMPDIR/slurmrestd"
    done
    compare_jobs "${in_2037[@]}" --set 'retry={max: 2, on: [node_failure, preemption]}'
    grep -qx Requeue=1 "$BATS_TEST_TMPDIR/slurmrestd"
    compare_jobs "${in_2037[@]}" --set resources.reservation=kept
    grep -qx Reservation=kept "$BATS_TEST_TMPDIR/slurmrestd"
    compare_jobs "${in_2037[@]}" \
        --set 'slurm={mail-type: "BEGIN,END", mail-user: me@example.org, nice: "7"}'
    local words='time-min: "2", ntasks-per-socket: "1"'
    # Only with v0.0.38: the other versions are tested on Slurm 26.05, whose sbatch refuses mincpus,
    # and from v0.0.40 on dlrun refuses cores-per-socket.
    ! api_is_v0038 || words+=', mincpus: "3", cores-per-socket: "4"'
    compare_jobs "${in_2037[@]}" --set "slurm={$words, deadline: 2037-02-02T00:00:00}"
    words='oversubscribe: true, spread-job: true, use-min-nodes: true, no-kill: true'
    compare_jobs "${in_2037[@]}" --set "slurm={$words, wckey: w, delay-boot: \"5\"}"
    api_is_v0038 && return
    compare_jobs "${in_2037[@]}" --set resources.nodes=2 --set resources.distribution=cyclic:block \
        --set resources.signal=B:USR1@90
    compare_jobs "${in_2037[@]}" --set 'slurm={contiguous: true, gpu-bind: closest}' \
        --set resources.gpus_per_node=1
    compare_jobs "${in_2037[@]}" --set resources.nodes=2 --set resources.gpus_per_task=1 \
        --set resources.cpus_per_task=2
}

@test "slurmrestd and sbatch give a job the same environment, umask and limits, and no token" {
    write_token 600
    token=$(sed 's/SLURM_JWT=//' "$dir/token")
    [ "${#token}" -gt 60 ]
    cat >"$dir/both" <<'SH'
cd "${0%/*}"
umask 027
ulimit -Sn 999
export BEFORE=$'two\nlines'
for how in sbatch slurmrestd; do
    [[ $how == sbatch ]] || export "$(<token)"
    dlrun submit show.yaml --watch --set submit.via=$how --set "environment.vars={HOW: $how}" \
        >log 2>&1 </dev/null
    until [[ -z $(squeue -h --me) ]]; do sleep 0.1; done # The next job must get the same GPUs.
done
SH
    cat >"$dir/show.yaml" <<YAML
name: show
resources: {nodes: 2, tasks_per_node: 1, cpus_per_task: 2, gpus_per_node: 1, mem: 1G, time: 5m}
launch:
  preset: plain
  command: [bash, -c, '[[ \$SLURM_PROCID != 0 ]] ||
    { env -0 | sort -z | tr "\n\0" " \n"; umask; ulimit -Sa; pwd; } >\$HOW']
submit: {url: "$DLRUN_TESTBED_REST_URL", token_file: token}
YAML
    as_user bash -e "$dir/both" || { cat "$dir/log" >&2 && false; }
    varying='SLURM_[A-Z_]*ID|SLURM_SRUN_COMM_PORT|SLURM_STEP_LAUNCHER_PORT|SLURM_TASK_PID'
    varying+='|SLURM_LAUNCH|SLURM_GTIDS|SLURM_LOCALID|SLURM_NODEID|SLURM_PROCID|SLURMD_NODENAME'
    varying+='|SLURM_JOB_(START|END)_TIME'
    varying+='|DLRUN_[A-Z_]*|HOW|HOSTNAME|TMPDIR|PMIX_[A-Z_0-9]*|PMI_[A-Z_]*|MASTER_[A-Z]*'
    for how in sbatch slurmrestd; do
        [ -s "$dir/$how" ]
        grep -Ev "^($varying|_)=" "$dir/$how" >"$BATS_TEST_TMPDIR/$how"
    done
    diff "$BATS_TEST_TMPDIR/sbatch" "$BATS_TEST_TMPDIR/slurmrestd"
    grep -q '^BEFORE=two lines' "$dir/slurmrestd"
    grep -q '^0027$' "$dir/slurmrestd"
    run grep -rlF "$token" "$dir/slurmrestd" "$dir/log" "$dir/runs"
    [ "$status" -eq 1 ]
    job=$(dl status last --json | jq -r .job)
    run scontrol show job -dd "$job"
    [[ $output != *"$token"* ]]
}

@test "submit, resubmit, ls, status, logs, wait and cancel need no Slurm command in PATH" {
    write_token 600
    dl_without_slurm() {
        as_user env PATH="$DLRUN_TESTBED_PREFIX/bin" DIR="$dir" \
            "$(command -v bash)" -c 'cd "$DIR" && exec dlrun "$@"' - "$@"
    }
    # shellcheck disable=SC2046 # splits the words
    run dl_without_slurm submit job.yaml $(by_token) --json
    [ "$status" -eq 0 ]
    id=$(jq -r .run <<<"$output") job=$(jq -r .job <<<"$output")
    wait_until 30 is_running "$job"
    run dl_without_slurm status "$id" --json
    echo "$output"
    [ "$(jq -r .state <<<"$output")" = running ]
    run dl_without_slurm ls --json
    echo "$output"
    [ "$(jq -r '.[0].state' <<<"$output")" = running ]
    as_user touch "$dir/go"
    run timeout 60 "$testbed/as_user" env PATH="$DLRUN_TESTBED_PREFIX/bin" dlrun wait "$id"
    [ "$status" -eq 0 ]
    dl_without_slurm logs "$id"
    run dl_without_slurm resubmit "$id" --json
    [ "$status" -eq 0 ]
    rm -f "$dir/go"
    # shellcheck disable=SC2046
    second=$(dl_without_slurm submit job.yaml $(by_token) --json | jq -r .run)
    dl_without_slurm cancel "$second"
    is_cancelled() {
        [[ $(dl_without_slurm status "$second" --json | jq -r .state) == cancelled ]]
    }
    wait_until 60 is_cancelled
}

@test "the portable dlrun submits, asks and cancels through slurmrestd with the program curl" {
    local job options
    install_portable
    write_token 600
    for options in "--set $(via slurmrestd)" "$(by_token)"; do
        # shellcheck disable=SC2086 # These are several words.
        job=$(portable submit job.yaml --json $options | jq -r .job)
        [[ $job =~ ^[0-9]+$ ]]
        wait_until 30 is_running "$job"
        [[ $(portable status "$job" --json | jq -r .state) == running ]]
        portable cancel "$job"
        wait_until 30 no_jobs
    done
    # The token is in no record of a run.
    run grep -rlF "$(sed 's/SLURM_JWT=//' "$dir/token")" "$dir/runs"
    [ "$status" -eq 1 ]
}

@test "a rendered script is submitted through slurmrestd if its spec says so" {
    dl render job.yaml --set "$(via slurmrestd)" -o "$dir/job.sh"
    run dl submit job.sh --json
    [ "$status" -eq 0 ]
    run jq -r .server.url "$(jq -r .path <<<"$output")/submission.json"
    [ "$output" = "unix:$DLRUN_TESTBED_REST_SOCKET" ]
}

@test "through slurmrestd a secret reaches the rank, but no argument and no file of Slurm" {
    make_secrets
    # shellcheck disable=SC2016 # not expanded by the test
    local program='printf %s \"$MY_KEY,$MY_TOKEN\" | sha256sum'
    dl_with_key submit job.yaml --set "$(via slurmrestd)" \
        --set 'environment.secrets=[MY_KEY, {name: MY_TOKEN, file: token}]' \
        --set "launch.command=[bash, -c, \"$program; until [[ -e go ]]; do sleep 0.1; done\"]"
    has_printed_digest() { [[ $(dl logs last) == *"$digest_of_secrets"* ]]; }
    wait_until 60 has_printed_digest
    no_argument_has_a_secret
    slurm_has_no_secret "$(dl status last --json | jq -r .job)"
    [ "$(files_with_secrets "$DLRUN_TESTBED_HOME")" \
        = "$(dl status last --json | jq -r .path)/secrets" ]
    as_user touch "$dir/go"
    dl wait last
}

@test "keys that slurmrestd would drop or misread are refused together before anything is sent" {
    submit_is_refused 2 "resources.hint: slurmrestd cannot do what --hint=nomultithread does" \
        --set "$(via slurmrestd)" --set resources.hint=nomultithread \
        --set resources.clusters=other
    [[ $output == *"resources.clusters: "* ]]
    if api_is_v0038; then
        submit_is_refused 2 "resources.distribution: slurmrestd (v0.0.38) cannot do" \
            --set "$(via slurmrestd)" --set resources.distribution=cyclic \
            --set resources.signal=B:USR1@60 --set 'slurm={contiguous: true}'
        [[ $output == *"resources.signal: "* && $output == *"slurm.contiguous: "* ]]
    fi
    run dl check job.yaml --set "$(via slurmrestd)"
    [ "$status" -eq 0 ]
    [[ $output == *"slurmrestd of Slurm $slurm_version"* ]]
}

@test "a sweep is one array with a throttle, and one point or all can be cancelled" {
    parent=last
    points() { dl sweep "$parent" --sort point --json 2>/dev/null | jq -r ".[] | $1" | xargs; }
    point_states_are() { [[ $(points .state | tr ' ' '\n' | sort | uniq -c | xargs) == "$1" ]]; }
    cat >"$dir/sweep.yaml" <<YAML
name: swept
resources: {nodes: 1, tasks_per_node: 1, time: 5m}
launch:
  preset: plain
  command: [bash, -c, 'touch began-\$X; until [[ -e go ]]; do sleep 0.1; done; echo \$X >>ran']
environment: {vars: {PATH: "$jobs_path_variable", X: ""}}
submit: {via: slurmrestd, url: "unix:$DLRUN_TESTBED_REST_SOCKET"}
sweep: {parameters: {environment.vars.X: [a, b, c, d, e, f]}, max_parallel: 2}
YAML
    dl check sweep.yaml
    run dl submit sweep.yaml --json
    [ "$status" -eq 0 ]
    job=$(jq -r '.jobs | join(" ")' <<<"$output")
    [[ $job =~ ^[0-9]+$ ]]
    [[ $(scontrol show job "$job") == *"ArrayTaskThrottle=2"* ]]
    wait_until 60 point_states_are "4 pending 2 running"
    [[ $(points .job) == "${job}_0 ${job}_1 ${job}_2 ${job}_3 ${job}_4 ${job}_5" ]]
    dl cancel last/5
    wait_until 60 point_states_are "1 cancelled 3 pending 2 running"
    as_user touch "$dir/go"
    wait_until 90 point_states_are "1 cancelled 5 completed"
    [[ $(sort "$dir/ran" | xargs) == "a b c d e" ]]
    parent=$(dl status last --json | jq -r .run)
    dl resubmit "$parent/5" --watch
    [[ $(points .state | tr ' ' '\n' | sort -u) == completed ]]
    rm "$dir"/{go,ran} "$dir"/began-*
    dl submit sweep.yaml
    parent=last
    wait_until 60 test -e "$dir/began-a"
    dl cancel last
    wait_until 60 point_states_are "6 cancelled"
    [ ! -e "$dir/ran" ]
}
