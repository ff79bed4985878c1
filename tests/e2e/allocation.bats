#!/usr/bin/env bats
# `dlrun run --here` and `dlrun submit --in`: runs in an allocation that the user already has.
# timeout: 300

load helpers

setup() {
    dir=$(fresh_dir)
    as_user tee "$dir/exp.yaml" >/dev/null <<'YAML'
name: inside
resources: {nodes: 2, tasks_per_node: 2, cpus_per_task: 1, time: 5m}
launch:
  preset: plain
  command: [bash, -c, 'echo "rank $DLRUN_RANK of $DLRUN_WORLD_SIZE in job $SLURM_JOB_ID"; eval "$WORK"']
YAML
}

field() { dl status last --json | jq -r "$1"; }
is_state() { [[ $(field .state) == "$1" ]]; }
count_runs() { find "$dir" -name job.sh | wc -l; }
count_steps() { squeue -h -s -j "$1" -o %i | grep -cv -e batch -e extern -e interactive; }
has_no_steps() { [[ $(count_steps "$1") == 0 ]]; }
rank_0_has_printed() { grep -q 'rank 0 of 4' "$(field .path)/local.out"; }

# hold_allocation NODES: submits a job of the user that only holds its allocation, and waits until
# the job runs; sets job
hold_allocation() {
    job=$(as_user sbatch --parsable -N "$1" --ntasks-per-node=2 -t 5 -o /dev/null --wrap 'sleep 300')
    wait_until 30 is_running "$job"
}
is_running() { [[ $(job_state "$1") == RUNNING ]]; }

@test "run --here starts the spec's ranks, and no others, in the allocation of salloc" {
    run as_user env --chdir="$dir" WORK=: salloc -N 3 --ntasks-per-node=2 -t 5 \
        dlrun run --here exp.yaml
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $(grep -c 'rank [0-3] of 4 in job [0-9]' <<<"$output") == 4 ]]
    [ "$(field .state)" = completed ]
    [[ $(dl logs last) == *"rank 3 of 4"* ]]
}

@test "submit --in starts one run after the other in a job, and the job goes on" {
    hold_allocation 2
    for _ in 1 2; do
        run dl submit exp.yaml --in "$job" --set environment.vars.WORK=: --watch
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == *"rank 3 of 4 in job $job"* ]]
    done
    is_running "$job"
    [ "$(count_runs)" -eq 2 ]
}

@test "cancel ends the run and its step, but not the allocation" {
    hold_allocation 2
    dl submit exp.yaml --in "$job" --set 'environment.vars.WORK=sleep 300'
    wait_until 30 rank_0_has_printed
    [ "$(count_steps "$job")" -eq 1 ]
    is_state running
    [ "$(field .allocation)" = "$job" ]
    dl cancel last
    wait_until 30 is_state cancelled
    wait_until 30 has_no_steps "$job"
    is_running "$job"
}

@test "a failed rank is reported, and the run restarts in its allocation, without a requeue" {
    hold_allocation 2
    run dl submit exp.yaml --in "$job" --set retry.max=1 --watch \
        --set 'environment.vars.WORK=test $DLRUN_RANK != 1 || exit 7'
    echo "$output"
    [ "$status" -eq 5 ]
    [[ $output == *"rank 1"*"code 7"* ]]
    [ "$(field '.restarts | length')" -eq 1 ]
    is_running "$job"
    [[ $(scontrol show job "$job") == *"Restarts=0"* ]]
}

@test "a run that does not fit, another user's job, and an unknown job are refused" {
    hold_allocation 2
    run dl submit exp.yaml --in "$job" --set resources.nodes=3
    [ "$status" -eq 2 ]
    [[ $output == *"resources.nodes: the run needs 3 nodes, but there are 2 ("*") in job $job"* ]]
    run dl submit exp.yaml --in "$job" --set resources.cpus_per_task=64
    [ "$status" -eq 2 ]
    [[ $output == *"the ranks need 256 CPUs"* ]]
    foreign=$(sbatch --parsable -N 1 -t 5 -o /dev/null --wrap 'sleep 60')
    wait_until 30 is_running "$foreign"
    run dl submit exp.yaml --in "$foreign"
    scancel "$foreign"
    [ "$status" -eq 2 ]
    [[ $output == *"job $foreign belongs to another user"* ]]
    run dl submit exp.yaml --in 999999
    [ "$status" -eq 6 ]
    run dl submit exp.yaml --in '1;id'
    [ "$status" -eq 2 ]
    run dl run --here exp.yaml
    [ "$status" -eq 2 ]
    [[ $output == *"SLURM_JOB_ID is not set"* ]]
    [ "$(count_runs)" -eq 0 ]
}
