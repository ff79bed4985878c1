#!/usr/bin/env bats
# Variables of a user's shell must not change a job, although Slurm's commands, MPI or frameworks
# read them. Also tests which programs and folders dlrun's commands use.
# timeout: 200

load helpers

setup() {
    dir=$(fresh_dir)
    as_user tee "$dir/hello.yaml" >/dev/null <<'YAML'
name: hello
resources: {nodes: 2, tasks_per_node: 2, time: 5m}
environment: {vars: {GREETING: "it's"}}
launch:
  preset: plain
  command: [bash, -c, 'echo "rank $DLRUN_RANK of $DLRUN_WORLD_SIZE in $SLURM_JOB_NAME: $GREETING,
    $(type -P bash), $${RANK-no} $${MASTER_PORT-no} $${OMPI_MCA_btl-no}"']
YAML
    # Each of these changes what one of Slurm's commands does, hides jobs from squeue, or gives MPI
    # or a framework wrong values, such as another run's master.
    hostile_vars=(
        SBATCH_EXPORT=NONE SLURM_EXPORT_ENV=NONE SBATCH_JOB_NAME=other SBATCH_TIMELIMIT=1
        SBATCH_OPEN_MODE=truncate SBATCH_REQUEUE=1
        SLURM_CPU_BIND=map_cpu:63 SLURM_NTASKS=9 SLURM_NNODES=4 SLURM_MPI_TYPE=none
        SRUN_CPUS_PER_TASK=60
        SQUEUE_STATES=PD SQUEUE_ACCOUNT=nosuch SQUEUE_FORMAT=%P SQUEUE_FORMAT2=partition
        SQUEUE_SORT=-i SACCT_FORMAT=user SINFO_FORMAT=%n SLURM_TIME_FORMAT=relative
        SALLOC_PARTITION=nosuch SALLOC_TIMELIMIT=1 SALLOC_GRES=nosuch:9 SBATCH_CONSTRAINT=nosuch
        SBATCH_GRES=nosuch:9 SLURM_GRES=nosuch:9
        SLURM_DISTRIBUTION=arbitrary SLURM_EXCLUSIVE=1 SLURM_STEP_GRES=nosuch:9
        SLURM_CLUSTER_NAME=nosuch
        RANK=7 WORLD_SIZE=9 LOCAL_RANK=3 MASTER_ADDR=nowhere MASTER_PORT=1 OMPI_MCA_btl=none
        PMIX_RANK=5 PMI_FD=3
    )
}

@test "variables that Slurm's commands read change neither the job nor dlrun's queries" {
    run as_user env "${hostile_vars[@]}" bash -c 'cd "$1" && exec dlrun submit hello.yaml --watch' \
        - "$dir"
    echo "$output"
    [ "$status" -eq 0 ]
    for rank in 0 1 2 3; do
        [[ $output == *"rank $rank of 4 in hello: it's, /"*"bash, no no no"* ]]
    done
    as_user env "${hostile_vars[@]}" \
        bash -c 'cd "$1" && dlrun submit hello.yaml --set "launch.command=[sleep, 100]" &&
            dlrun ls' \
        - "$dir"
    is_running() {
        [[ $(as_user env "${hostile_vars[@]}" dlrun status hello --json |
            jq -r '.state + " " + .nodes') == "running n[1-2]" ]]
    }
    wait_until 30 is_running
    [[ $(scontrol show job "$(dl status hello --json | jq -r .job)") == *"TimeLimit=00:05:00"* ]]
    # The variables do not affect attach, submit, check, doctor and interactive either.
    in_hostile_shell() {
        as_user env "${hostile_vars[@]}" bash -c 'cd "$1" && shift && exec dlrun "$@"' - "$dir" "$@"
    }
    run in_hostile_shell attach last \
        -- bash -c 'echo "beside: ${SLURM_CPU_BIND-no} ${RANK-no} ${PMI_FD-no}"' </dev/null
    echo "$output"
    [[ $status == 0 && $output == *"beside: "*" no no" && $output != *map_cpu:63* ]]
    start=$(in_hostile_shell submit hello.yaml --set resources.begin=now+1hour --json | jq -r .start)
    [[ $start == 20??-??-??T??:??:??.000Z ]]
    run in_hostile_shell check hello.yaml
    echo "$output"
    [ "$status" -eq 0 ]
    run in_hostile_shell doctor --json
    echo "$output"
    [[ $status == 0 && $(jq -c '[.partitions[0].usable_nodes, .gpus_per_node]' <<<"$output") \
        == "$(dl doctor --json | jq -c '[.partitions[0].usable_nodes, .gpus_per_node]')" ]]
    run in_hostile_shell interactive hello.yaml \
        -- bash -c 'limit=$(squeue -h -j "$SLURM_JOB_ID" -o %l)
            echo "alone in $SLURM_JOB_NAME on $SLURM_JOB_NUM_NODES:" \
                "$limit ${RANK-no} ${MASTER_PORT-no}"'
    echo "$output"
    [[ $status == 0 && $output == *"alone in hello on 2: 5:00 no no"* ]]
}

@test "the program gets a user's variable, whatever the variable's name is" {
    # Names that the job script itself could use for its variables.
    names=(agent lead step rank program enter name image options node nodes tasks group port try
        lock task sweep init conda cpus made)
    for name in "${names[@]}"; do vars+=("$name: its-$name"); done
    cat >"$dir/names.yaml" <<YAML
resources: {nodes: 1, tasks_per_node: 1, time: 5m}
environment: {vars: {$(IFS=,; echo "${vars[*]}")}, setup_node: "true"}
launch: {preset: plain, command: [/bin/sh, $dir/show]}
YAML
    printf 'printenv %s\n' "${names[@]}" >"$dir/show"
    for how in submit "submit --set launch.agent=false" run; do
        [[ $how == run ]] && watch=() || watch=(--watch)
        # shellcheck disable=SC2086 # splits the words
        run dl $how names.yaml "${watch[@]}"
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(grep -c '^its-' <<<"$output")" -eq "${#names[@]}" ]
        for name in "${names[@]}"; do grep -qx "its-$name" <<<"$output"; done
    done
}

@test "render starts no other program, opens no socket, and ignores Slurm's variables" {
    as_user strace -f -qq -e trace=execve,socket,connect -o "$dir/calls" dlrun render \
        "$dir/hello.yaml" -o "$dir/job.sh"
    cat "$dir/calls"
    [ "$(grep -c execve "$dir/calls")" -eq 1 ]
    [ "$(grep -cE 'socket|connect' "$dir/calls" || true)" -eq 0 ]
    # The hostile variables do not change the script.
    [ "$(as_user env "${hostile_vars[@]}" dlrun render "$dir/hello.yaml" --runs "$dir/runs")" \
        = "$(as_user dlrun render "$dir/hello.yaml" --runs "$dir/runs")" ]
}

@test "submit does not read the entries of the runs folder, so its cost does not grow with the runs" {
    as_user strace -f -qq -y -e trace=getdents64 -o "$dir/listed" \
        bash -c 'cd "$1" && exec dlrun submit hello.yaml' - "$dir"
    cat "$dir/listed"
    [ "$(grep -cE '/(\.local/state/dlrun/)?runs>' "$dir/listed" || true)" -eq 0 ]
    # `ls` does read the folder, which shows that the pattern is right.
    as_user strace -f -qq -y -e trace=getdents64 -o "$dir/listed" dlrun ls >/dev/null
    [ "$(grep -cE '/(\.local/state/dlrun/)?runs>' "$dir/listed")" -gt 0 ]
}

@test "Slurm's commands get only options that all versions know, and never --json" {
    as_user strace -f -qq -s 500 -e trace=execve -o "$dir/calls" \
        bash -c 'cd "$1" && dlrun submit hello.yaml --set resources.begin=now+1hour &&
            dlrun status last && dlrun ls && dlrun cancel last && dlrun check hello.yaml &&
            dlrun submit hello.yaml --watch && dlrun doctor' \
        - "$dir" >/dev/null
    calls=$(grep -oE 'execve\("[^"]*/(sbatch|squeue|sacct|sinfo|scontrol|scancel|srun)", \[.*\]' \
        "$dir/calls")
    echo "$calls"
    for name in sbatch squeue scancel sinfo scontrol; do [[ $calls == *"/$name\""* ]]; done
    # The loop does not require a call of sacct. dlrun calls sacct only for a job that the
    # controller has forgotten, and only another test file may have left such a job.
    # The options below have existed for more than ten years.
    known='--comment --help --mpi --oneliner --output --parsable --test-only'
    known+=' -e -h -j -o -r -t -u -P -n -X -S'
    for word in $(grep -oE '"--?[a-zA-Z][^=" ]*' <<<"$calls" | tr -d '"' | LC_ALL=C sort -u); do
        [[ " $known " == *" $word "* ]]
    done
}
