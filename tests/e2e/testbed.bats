#!/usr/bin/env bats
# Tests the testbed itself, on testbeds of its own beside the shared one.

setup_file() {
    export DLRUN_TESTBED_DIR=$DLRUN_TESTBED_DIR.self
    load helpers
    "$testbed/down" # A test run that was killed may have left a testbed.
    "$testbed/up"
    load_testbed
    install -D -m 755 "$DLRUN_BUILD_DIR/bin/mpi_chain" "$DLRUN_TESTBED_PREFIX/bin/mpi_chain"
}

teardown_file() {
    load helpers
    "$testbed/down"
}

setup() { load helpers; }

user_job() { as_user srun --time=1 "$@"; }

# print_leftovers FOLDER: prints everything that the testbed in FOLDER has left on this machine, one
# item per line
print_leftovers() {
    local pid environment
    grep -F "$1" /proc/mounts
    grep -lF "dlrun-testbed:$1" /sys/class/net/*/ifalias
    getent passwd | grep -F "dlrun-testbed in $1"
    for pid in /proc/[0-9]*; do
        environment=$(tr '\0' '\n' 2>/dev/null <"$pid/environ") || continue
        grep -q ^BATS_ <<<"$environment" && continue # This process belongs to the test itself.
        grep -Fx "SLURM_CONF=$1/etc/slurm.conf" <<<"$environment" && tr '\0' ' ' <"$pid/cmdline"
    done
    [ ! -e "$1" ] || echo "$1"
}

@test "four nodes are idle, with four GPUs each" {
    run sinfo -h -p batch -o '%D %T %G'
    [ "$output" = "4 idle gpu:pretend:4" ]
}

@test "a batch job of the ordinary user runs on a node, in a folder of this user" {
    dir=$(fresh_dir)
    as_user sbatch --wait --time=1 --output="$dir/out" --chdir="$dir" --wrap 'id -un; hostname; pwd'
    run cat "$dir/out"
    [ "$output" = "$DLRUN_TESTBED_USER
n1
$dir" ]
}

@test "an MPI program runs over PMIx with 8 ranks on 4 nodes" {
    run user_job -N4 --ntasks-per-node=2 --mpi=pmix "$DLRUN_TESTBED_PREFIX/bin/mpi_chain"
    [ "$status" -eq 0 ]
    [ "$(sort <<<"$output")" = "rank 0 of 8 on n1: 1
rank 1 of 8 on n1: 2
rank 2 of 8 on n2: 3
rank 3 of 8 on n2: 4
rank 4 of 8 on n3: 5
rank 5 of 8 on n3: 6
rank 6 of 8 on n4: 7
rank 7 of 8 on n4: 8" ]
}

@test "Slurm assigns each task its own GPU" {
    run user_job -N2 --ntasks-per-node=2 --gpus-per-task=1 \
        sh -c 'echo $(hostname) $CUDA_VISIBLE_DEVICES'
    [ "$status" -eq 0 ]
    [ "$(sort <<<"$output")" = "n1 0
n1 1
n2 0
n2 1" ]
}

@test "more GPUs than a node has are refused" {
    run user_job -N1 --gpus-per-node=5 true
    [ "$status" -ne 0 ]
    [[ $output == *"Requested node configuration is not available"* ]]
}

@test "each node has its own /tmp and /dev/shm" {
    user_job -N1 -w n1 touch /tmp/mine /dev/shm/mine
    user_job -N1 -w n1 test -e /tmp/mine -a -e /dev/shm/mine
    run user_job -N1 -w n2 ls /tmp /dev/shm
    [[ $output != *mine* ]]
    [ ! -e /tmp/mine ]
}

@test "a node knows its own address and reaches the others by name" {
    run user_job -N1 -w n4 hostname -i
    [[ $output =~ ^10\.77\.[0-9]+\.14$ ]]
    run user_job -N1 -w n4 bash -c '(: </dev/tcp/n1/1) 2>&1; getent hosts no-such-host'
    [[ $output == *"Connection refused"* ]]
}

@test "a job that has ended leaves no process on its node" {
    user_job -N1 sh -c 'setsid sleep 1234567 & sleep 0.2'
    [ "$DLRUN_TESTBED_PROCTRACK" = cgroup ] || skip "control groups cannot be used on this machine"
    wait_until 10 sh -c '! pgrep -f "^sleep 1234567$"'
}

@test "a requeued job starts again within 15 s, and knows its number of restarts" {
    dir=$(fresh_dir)
    job=$(as_user sbatch --parsable --requeue --time=1 --output="$dir/out" \
        --wrap 'echo restarts ${SLURM_RESTART_COUNT:-0}; sleep 100')
    wait_until 10 grep 'restarts 0' "$dir/out"
    scontrol requeue "$job"
    wait_until 15 grep 'restarts 1' "$dir/out"
    cancel_jobs
}

@test "a job in the partition batch preempts a job in the partition preempt-now" {
    dir=$(fresh_dir)
    low=$(as_user sbatch --parsable -p preempt-now -N4 --exclusive --time=5 --output="$dir/low" \
        --wrap 'echo runs; sleep 100')
    wait_until 10 grep runs "$dir/low"
    as_user srun -p batch -N4 --exclusive --time=1 hostname
    [[ $(job_state "$low") == @(PENDING|COMPLETING|RUNNING) ]]
    [[ $(scontrol show job "$low") == *"Restarts=1"* ]]
    cancel_jobs
}

@test "up changes nothing if all daemons run, and refuses other options" {
    before=$(cat "$DLRUN_TESTBED_DIR"/pids/*)
    "$testbed/up"
    [ "$(cat "$DLRUN_TESTBED_DIR"/pids/*)" = "$before" ]
    run "$testbed/up" --nodes 3
    [ "$status" -eq 1 ]
    [[ $output == *"is up with other options"* ]]
}

@test "as_user without a command is a shell that finds the programs installed for the nodes" {
    [ "$("$testbed/as_user" <<<'type -P mpi_chain')" = "$DLRUN_TESTBED_PREFIX/bin/mpi_chain" ]
}

@test "a controller that was killed and started again gives new jobs new ids" {
    # The controller saves the first job id immediately, and later ids only after some seconds.
    for _ in 1 2 3; do newest_job=$(as_user sbatch --parsable --time=1 --wrap 'sleep 10'); done
    "$testbed/fault" kill slurmctld
    "$testbed/up"
    [ "$(as_user sbatch --parsable --time=1 --wrap true)" -gt "$newest_job" ]
    cancel_jobs
}

@test "a node whose slurmd is killed goes down, and up brings it back" {
    "$testbed/fault" kill n3
    wait_until 60 sh -c 'sinfo -h -n n3 -p batch -o %T | grep -q down'
    "$testbed/up"
    run sinfo -h -p batch -o '%D %T'
    [ "$output" = "4 idle" ]
}

# runs_a_step TESTBED: runs a step on the only node of the testbed. If that fails, prints what srun
# says.
runs_a_step() {
    local err=$BATS_TEST_TMPDIR/err
    [ "$(DLRUN_TESTBED_DIR=$1 "$testbed/as_user" srun hostname 2>"$err")" = n1 ] ||
        { cat "$err" && return 1; }
}

@test "a second testbed comes up beside the first and goes down again" {
    other=$DLRUN_TESTBED_DIR.other
    DLRUN_TESTBED_DIR=$other "$testbed/up" --nodes 1 --gpus 0 --proctrack linuxproc
    runs_a_step "$other"
    DLRUN_TESTBED_DIR=$other "$testbed/fault" kill slurmctld
    DLRUN_TESTBED_DIR=$other "$testbed/up" --again # This keeps the testbed's options.
    runs_a_step "$other"
    DLRUN_TESTBED_DIR=$other "$testbed/down"
    run env DLRUN_TESTBED_DIR="$other" "$testbed/up" --again
    [ "$status" -eq 1 ]
    [[ $output == *"no testbed is up in $other"* ]]
    [ -z "$(print_leftovers "$other")" ]
    user_job -N4 hostname
}

@test "up --slurm uses the daemons and the commands of another installation" {
    # The other installation is in the testbed's folder, because this folder is a file system of its
    # own, in which programs can be executed. Debian mounts /run noexec.
    other=$DLRUN_TESTBED_DIR.other prefix=$DLRUN_TESTBED_DIR/other-slurm
    mkdir -p "$prefix/bin" "$prefix/sbin"
    for program in slurmctld slurmd slurmstepd; do
        cp -L "$(command -v "$program")" "$prefix/sbin"
    done
    for program in salloc sbatch scancel scontrol sinfo squeue srun; do
        cp -L "$(command -v "$program")" "$prefix/bin"
    done
    DLRUN_TESTBED_DIR=$other "$testbed/up" --nodes 1 --gpus 0 --slurm "$prefix"
    readlink /proc/[0-9]*/exe >"$BATS_TEST_TMPDIR/programs" || true
    grep -x "$prefix/sbin/slurmctld" "$BATS_TEST_TMPDIR/programs"
    grep -x "$prefix/sbin/slurmd" "$BATS_TEST_TMPDIR/programs"
    # shellcheck disable=SC2016 # The user's shell expands it.
    run env DLRUN_TESTBED_DIR="$other" "$testbed/as_user" sh -c 'command -v srun && srun hostname'
    [ "$output" = "$prefix/bin/srun
n1" ]
    DLRUN_TESTBED_DIR=$other "$testbed/down"
    rm -rf "$prefix"
    run "$testbed/up" --slurm "$prefix"
    [ "$status" -eq 1 ]
    [[ $output == *"--slurm is '$prefix'"* ]]
}

@test "up refuses a subnet that is in use, and leaves it alone" {
    taken=$(sed -n 's/^subnet=//p' "$DLRUN_TESTBED_DIR/settings")
    run env DLRUN_TESTBED_DIR="$DLRUN_TESTBED_DIR.other" DLRUN_TESTBED_SUBNET="$taken" "$testbed/up"
    [ "$status" -eq 1 ]
    [[ $output == *"$taken.0/24"*"in use"* ]]
    DLRUN_TESTBED_DIR=$DLRUN_TESTBED_DIR.other "$testbed/down"
    [ -z "$(print_leftovers "$DLRUN_TESTBED_DIR.other")" ]
}

@test "down removes everything that up leaves if it is killed at one of seven moments" {
    other=$DLRUN_TESTBED_DIR.other
    for delay in 0.02 0.05 0.1 0.15 0.2 0.25 0.3; do
        DLRUN_TESTBED_DIR=$other timeout -s KILL "$delay" "$testbed/up" --nodes 2 || true
        DLRUN_TESTBED_DIR=$other "$testbed/down"
        [ -z "$(print_leftovers "$other")" ]
    done
}

@test "down ends running jobs and leaves nothing, not even what a job has detached" {
    as_user sbatch --time=5 -N4 --wrap 'srun sh -c "setsid nohup sleep 7654321 & sleep 100"'
    wait_until 10 pgrep -f '^sleep 7654321$'
    "$testbed/down"
    run pgrep -f '^sleep 7654321$'
    [ "$status" -ne 0 ]
    [ -z "$(print_leftovers "$DLRUN_TESTBED_DIR")" ]
    "$testbed/down"
    teardown() { :; } # The cluster is gone, so there are no jobs to cancel.
}
