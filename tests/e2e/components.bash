# shellcheck shell=bash disable=SC2034 # the tests use the variables
# Functions for tests of jobs with components. The jobs come from scripts that the tests write, not
# from specs. A test builds the command of lead with `add_component`, one call for each component,
# and submits the script with `submit_components`.

agent=$DLRUN_TESTBED_PREFIX/bin/dlrun-agent

# The arguments of lead that describe the components; empty before the first component.
declare -ga component_arguments=()
lead_options=()        # lead's options for the whole run
sbatch_options=(-N3)   # sbatch's options for the job, or for the first part of a heterogeneous job
second_part_options=() # sbatch's options for the second part of a heterogeneous job

# add_component NAME FIRST_NODE NODES RANKS GPUS OPTIONS... -- PROGRAM...: adds a component.
# FIRST_NODE is an index, or hK for part K (from 0) of a heterogeneous job. GPUS is the number for
# each node. OPTIONS are lead's options for the component.
add_component() {
    local name=$1 first_node=$2 nodes=$3 ranks=$4 gpus=$5 words=()
    shift 5
    while [[ $1 != -- ]]; do words+=("$1") && shift; done
    shift
    ((${#component_arguments[@]} == 0)) || component_arguments+=('+++')
    component_arguments+=(--component "$name" --component-nodes "$nodes" --component-ranks "$ranks")
    component_arguments+=("${words[@]}")
    local srun_options=(--export=ALL --kill-on-bad-exit=1 --nodes="$nodes" --ntasks="$ranks"
        --ntasks-per-node=$((ranks / nodes)) --cpus-per-task=2)
    if [[ $first_node == h* ]]; then
        component_arguments+=(--het-group "${first_node#h}")
    else
        component_arguments+=(--component-first-node "$first_node")
        srun_options+=(--exact)
    fi
    if ((gpus > 0)); then
        srun_options+=(--gres="gpu:$gpus")
    else
        srun_options+=(--gpus-per-node=0)
    fi
    component_arguments+=(-- "${srun_options[@]}" "$agent" rank -- "$@")
}

# submit_components: submits the job; sets job and run_dir
submit_components() {
    # Each node of the job has the resources that the largest component needs.
    local common=(--ntasks-per-node=1 --cpus-per-task=8 --gres=gpu:4 -t 5)
    {
        printf '#!/bin/bash\n#SBATCH %s\n' "${common[*]} ${sbatch_options[*]}"
        ((${#second_part_options[@]} == 0)) ||
            printf '#SBATCH hetjob\n#SBATCH %s\n' "${common[*]} ${second_part_options[*]}"
        printf 'exec'
        printf ' %q' "$agent" lead --runs "$dir/runs" --name t "${lead_options[@]}" \
            "${component_arguments[@]}"
        printf '\n'
    } >"$dir/job.sh"
    job=$(as_user sbatch --parsable --open-mode=append -o "$dir/out" --chdir "$dir" "$dir/job.sh")
    run_dir=$dir/runs/t-$job
}

# events KIND [COMPONENT]: prints the run's events of this kind, or only those of the component
events() {
    jq -c --arg kind "$1" --arg component "${2:-}" \
        'select(.event == $kind and ($component == "" or .component == $component))' \
        "$run_dir/events.jsonl"
}
has_event() { [[ -n $(events "$@" 2>/dev/null) ]]; }
has_no_event() { ! has_event "$@"; }
# state_of COMPONENT: prints its state in components.json
state_of() {
    jq -r --arg name "$1" '.components[] | select(.name == $name) | .state' \
        "$run_dir/components.json"
}
is_in_state() { [[ $(state_of "$1") == "$2" ]]; }
job_ended_with() {
    scontrol show job --oneliner "$job" | head -n 1 | grep -q " ExitCode=$1 "
}
# pid_of COMPONENT RANK: prints the process id of the program of this rank, which the program
# has written into pid-COMPONENT-RANK.
pid_of() { cat "$dir/pid-$1-$2"; }

# Prints the shell program of an HTTP server, which serves $dir/www on the port that dlrun reserves
# for the component ({port}). Each start of the server writes its process id into the file
# pid-COMPONENT-RANK, and adds a line to the file server-starts: the port, and the GPUs that the
# server sees.
server_program() {
    # shellcheck disable=SC2016 # expanded on the node
    echo 'echo $$ >"$0/pid-$DLRUN_COMPONENT-$DLRUN_RANK"
        echo "{port} ${CUDA_VISIBLE_DEVICES-unset}" >>"$0/server-starts"
        exec python3 -m http.server --directory "$0/www" {port}'
}

# A program that writes its process id into the file pid-COMPONENT-RANK and a line into the file
# usr1-COMPONENT-RANK for each USR1, and ends when the file `stop` exists.
# shellcheck disable=SC2016 # expanded on the node
usr1_recorder='trap "echo usr1 >>\"$0/usr1-$DLRUN_COMPONENT-$DLRUN_RANK\"" USR1
    echo $$ >"$0/pid-$DLRUN_COMPONENT-$DLRUN_RANK"
    while [ ! -e "$0/stop" ]; do sleep 0.1 & wait $!; done'

# Succeeds if the three programs of start_server_and_trainer have written their process ids.
all_have_started() { [ "$(cat "$dir"/pid-* 2>/dev/null | wc -l)" -eq 3 ]; }
# start_server_and_trainer: submits a job with a service of one rank on n1, which never ends by
# itself, and a main component of two ranks; waits until all ranks have started
start_server_and_trainer() {
    add_component server 0 1 1 0 --role service -- bash -c "${usr1_recorder//stop/never}" "$dir"
    add_component trainer 1 2 2 0 -- bash -c "$usr1_recorder" "$dir"
    submit_components
    wait_until 30 all_have_started
}

setup() {
    dir=$(fresh_dir)
    as_user mkdir "$dir/www"
    component_arguments=() lead_options=() sbatch_options=(-N3) second_part_options=()
}
