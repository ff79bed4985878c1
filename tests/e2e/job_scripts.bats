#!/usr/bin/env bats
# `dlrun init --from` makes specs from job scripts; Slurm accepts and runs the jobs of these specs.

load helpers

setup() { dir=$(fresh_dir); }
teardown() { end_test; }

# Writes standard input to job.sh, a job script of the user.
write_job_script() { as_user tee "$dir/job.sh" >/dev/null; }

@test "a spec made from a script starts the script's ranks, with its arguments and variables" {
    write_job_script <<'SH'
#!/bin/bash
#SBATCH -J imported -N 2
#SBATCH --ntasks-per-node=2 --time=5
#SBATCH --output=log-%j.out
GREETING="good day"
export COLOUR='deep blue' THREADS=$SLURM_NTASKS_PER_NODE
touch was-run
srun bash -c 'echo "$SLURM_PROCID of $SLURM_NTASKS: $1, $2, $COLOUR, $THREADS"' program "$GREETING" "$HOME/x"
rm -f last-line
SH
    run dl init --from job.sh -o exp.yaml
    [ "$status" -eq 0 ]
    [[ $output == *"job.sh:7:1: warning: touch was-run: "* ]]
    [[ $output == *"job.sh:9:1: warning: rm -f last-line: dlrun runs nothing after the ranks"* ]]
    [[ ! -e $dir/was-run ]]
    dl check exp.yaml
    dl submit exp.yaml --watch
    [[ $(dl logs last) == *"3 of 4: good day, $DLRUN_TESTBED_HOME/x, deep blue, 2"* ]]
    log=("$dir"/log-*.out)
    [[ -s ${log[0]} ]]
    # The script itself, submitted with sbatch, starts the same ranks.
    as_user env --chdir="$dir" sbatch --wait job.sh
    grep -h '3 of 4: good day' "$dir"/log-*.out | grep -c 'deep blue, 2' | grep -qx 2
}

@test "every script of tests/golden/imported becomes a spec that explain and render accept" {
    for script in "$DLRUN_SOURCE_DIR"/tests/golden/imported/*.sbatch; do
        as_user tee "$dir/job.sh" <"$script" >/dev/null
        dl init --from job.sh -o exp.yaml --force
        # check would fail: these scripts request partitions and GPUs that the testbed lacks.
        dl explain exp.yaml >/dev/null
        dl render exp.yaml | bash -n
    done
}

@test "a script whose program is unclear is refused, unless the command line has the program" {
    write_job_script <<'SH'
#!/bin/bash
#SBATCH -N 1
for seed in 1 2; do srun ./train $seed; done
SH
    run dl init --from job.sh -o exp.yaml
    [ "$status" -eq 2 ]
    [[ $output == *"job.sh:3: the program is started in a condition, a loop, a function or a subshell"* ]]
    [[ ! -e $dir/exp.yaml ]]
    dl init --from job.sh -o exp.yaml -- hostname
    dl submit exp.yaml --watch
}
