#!/usr/bin/env bats
# The controller is unreachable, or the disk is full: dlrun does not guess, submits nothing twice
# and loses nothing.
# timeout: 600

load helpers

setup() {
    dir=$(fresh_dir)
    cat >"$dir/hello.yaml" <<'YAML'
name: hello
resources: {nodes: 1, tasks_per_node: 1, time: 5m}
launch: {preset: plain, command: [bash, -c, 'touch started; until [[ -e go ]]; do sleep 0.1; done']}
YAML
    chown "$DLRUN_TESTBED_USER:" "$dir/hello.yaml"
}

teardown() {
    "$testbed/up" >/dev/null
    end_test
    # A restarted controller trusts its nodes only after each has answered.
    wait_until 60 nodes_are_idle
    if mountpoint -q "$dir/mounted"; then umount "$dir/mounted"; fi
}

nodes_are_idle() { [[ $(sinfo -h -o %T) == idle ]]; }
state() { dl status "${1:-last}" --json | jq -r .state; }
is_state() { [[ $(state) == "$1" ]]; }

@test "without the controller, status and ls print the last known state with exit code 4" {
    dl submit hello.yaml
    wait_until 30 is_state running
    wait_until 30 test -e "$dir/started" # srun needs the controller to launch the step.
    "$testbed/fault" kill slurmctld
    run dl status last
    [ "$status" -eq 4 ]
    [[ $output == *"controller unreachable; last known: running"* ]]
    run dl ls
    [ "$status" -eq 4 ]
    [[ $output == *"running?"* ]]
    as_user touch "$dir/go"
    # dlrun reads the end from the run's record, without the controller.
    wait_until 30 is_state completed
}

@test "a submission without the controller exits with 4, and later shows as not submitted" {
    "$testbed/fault" kill slurmctld
    run dl check hello.yaml
    [ "$status" -eq 4 ]
    [[ $output == *"hello.yaml: valid"*"Slurm     could not be asked: "* ]]
    [ "$(dl check hello.yaml --json | jq .slurm)" = null ]
    run dl submit hello.yaml
    [ "$status" -eq 4 ]
    [[ $output == *"not known"* ]]
    "$testbed/up" >/dev/null
    wait_until 30 as_user squeue
    [ "$(state)" = not_submitted ]
    # Checks only for jobs of this test, because a controller that is started again after a kill may
    # list the ended job of the previous test.
    [[ $(squeue -h -o %Z) != *"$dir"* ]]
}

@test "a submission that was accepted but whose reply was lost is found by its token" {
    # sbatch is killed after the controller has accepted the job, as if the connection was lost or
    # the user ended sbatch.
    as_user mkdir "$dir/bin"
    as_user bash -c "cat >'$dir/bin/sbatch'" <<SH
#!/bin/bash
$slurm_bin/sbatch "\$@" >/dev/null
kill -KILL \$\$
SH
    as_user chmod +x "$dir/bin/sbatch"
    run as_user bash -c 'cd "$1" && PATH=$1/bin:$PATH dlrun submit hello.yaml' - "$dir"
    [ "$status" -eq 0 ]
    [[ $output == *"as job "* ]]
    [ "$(squeue -h -u "$DLRUN_TESTBED_USER" | wc -l)" -eq 1 ]
}

@test "if dlrun is killed before it records the job id, a later command finds the job" {
    as_user mkdir "$dir/bin"
    as_user bash -c "cat >'$dir/bin/sbatch'" <<SH
#!/bin/bash
$slurm_bin/sbatch "\$@" >/dev/null
kill -KILL \$PPID
SH
    as_user chmod +x "$dir/bin/sbatch"
    run as_user bash -c 'cd "$1" && PATH=$1/bin:$PATH dlrun submit hello.yaml' - "$dir"
    [ "$status" -eq 137 ]
    wait_until 30 is_state running
    [ "$(dl status last --json | jq -r .job)" = "$(squeue -h -o %i -u "$DLRUN_TESTBED_USER")" ]
    dl cancel last
}

@test "after Ctrl-C during sbatch, dlrun finds that the job is not queued, and says so" {
    as_user mkdir "$dir/bin"
    as_user bash -c "cat >'$dir/bin/sbatch'" <<'SH'
#!/bin/bash
kill -INT $PPID $$
sleep 1
SH
    as_user chmod +x "$dir/bin/sbatch"
    run as_user bash -c 'cd "$1" && PATH=$1/bin:$PATH dlrun submit hello.yaml' - "$dir"
    [ "$status" -eq 130 ]
    [[ $output == *"Slurm did not take this job: it is not queued"* ]]
    no_jobs
}

@test "a full disk under the runs folder gives a clear error, and nothing is submitted" {
    mkdir "$dir/mounted"
    mount -t tmpfs -o size=64k,mode=1777 none "$dir/mounted"
    run dl submit hello.yaml --runs mounted
    [ "$status" -eq 1 ]
    [[ $output == *"No space left on device"* ]]
    no_jobs
}

@test "a runs folder that is mounted noexec is refused before anything is queued" {
    mkdir "$dir/mounted"
    mount -t tmpfs -o size=100m,mode=1777,noexec none "$dir/mounted"
    run dl submit hello.yaml --runs mounted
    [ "$status" -eq 1 ]
    [[ $output == *noexec* ]]
    no_jobs
}
