#!/usr/bin/env bats
# Signals to a job with components: scancel of the job and of one step, and USR1.
# timeout: 120

load helpers
load components

@test "scancel cancels the run, and every component is recorded as signalled" {
    start_server_and_trainer
    as_user scancel "$job"
    wait_until 20 has_event ended
    cat "$dir/out"
    [[ $(events ended) == *'"state":"cancelled","code":143'* ]]
    [ "$(events component_end | jq -r .reason | sort -u)" = signalled ]
    all_are_gone() { ! kill -0 "$(pid_of server 0)" && ! kill -0 "$(pid_of trainer 1)"; }
    wait_until 10 all_are_gone
}

@test "scancel of one component's step ends the job, and the record has the component" {
    start_server_and_trainer
    local step
    step=$(squeue -h -s -j "$job" -o '%i %j' | awk '$2 == "trainer" {print $1}')
    as_user scancel "$step"
    wait_until 20 has_event ended
    cat "$dir/out"
    [ "$(events attempt_end | jq -r .component)" = trainer ]
    [ "$(events component_end server | jq -r .reason)" = stopped ]
}

@test "with --forward-usr1, USR1 reaches each rank of the main component once, and no service" {
    # shellcheck disable=SC2034 # components.bash uses it
    lead_options=(--forward-usr1)
    start_server_and_trainer
    # With proctrack/linuxproc, Slurm itself would also signal the programs of services. With -b,
    # only the batch step gets the signal, as with sbatch's --signal=B:USR1.
    local batch_only=()
    [[ $(scontrol show config) != *proctrack/linuxproc* ]] || batch_only=(-b)
    as_user scancel "${batch_only[@]}" -s USR1 "$job"
    wait_until 10 has_event signal
    both_have_usr1() { [ "$(cat "$dir"/usr1-trainer-* 2>/dev/null | wc -l)" -eq 2 ]; }
    wait_until 10 both_have_usr1
    # A second USR1 would arrive within this time.
    sleep 0.5
    both_have_usr1
    [ ! -e "$dir/usr1-server-0" ]
    as_user touch "$dir/stop"
    wait_until 20 has_event ended
}
