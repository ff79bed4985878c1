#!/usr/bin/env bats
# `dlrun bench collectives` measures every installed backend on this machine and lists the missing
# ones. `dlrun bench scaling` runs a spec at several sizes, with and without Slurm.
# timeout: 120

bats_require_minimum_version 1.5.0
load helpers

setup() { dir=$(fresh_dir); }

has_job() { [[ $(squeue -h -n "$1" -o %T) == "$2" ]]; }
has_no_job() { [[ -z $(squeue -h -n "$1") ]]; }

@test "bench collectives measures MPI, Gloo and shared memory, and says which backend is missing" {
    run --separate-stderr dl bench collectives --ranks 2 --sizes 8,64K --svg out.svg --json
    echo "$output$stderr"
    [ "$status" -eq 0 ]
    [ "$(jq -c '[.results[] | [.backend, .ranks, .bytes]] | sort' <<<"$output")" = \
        '[["gloo",2,8],["gloo",2,65536],["mpi",2,8],["mpi",2,65536],["shm",2,8],["shm",2,65536]]' ]
    # With two ranks the bus bandwidth equals the algorithm's bandwidth, which is size / time.
    jq -e '[.results[] | (.algbw_gb_s == .busbw_gb_s) and .us > 0 and
        (.bytes / .us / 1000 - .algbw_gb_s | fabs) <= 0.01 * .algbw_gb_s + 1e-6] | all' \
        <<<"$output"
    [ "$(jq -r '.left_out[].backend' <<<"$output")" = nccl ]
    [[ $stderr == *"nccl with 2 ranks is left out: "* ]]
    [ "$(grep -c '<polyline' "$dir/out.svg")" -eq 6 ]
}

@test "bench collectives prints a table and bars for people, and ends its ranks" {
    run --separate-stderr dl bench collectives --backends shm --ranks 2,4 --sizes 1K \
        --operation all_gather
    echo "$output$stderr"
    [ "$status" -eq 0 ]
    [[ ${lines[0]} == *RANKS*SIZE*"shm us"*algbw*busbw ]]
    [[ $output == *"bus bandwidth at 1 KiB, GB/s"* ]]
    run ! pgrep -u "$DLRUN_TESTBED_USER" -f 'dlrun-trainer collectives'
}

@test "bench collectives refuses an unknown backend, an invalid size and an invalid number of ranks" {
    run dl bench collectives --backends pigeon --ranks 2
    [ "$status" -eq 2 ]
    [[ $output == *"no collective backend is called 'pigeon'"* ]]
    run dl bench collectives --backends shm --sizes tiny
    [ "$status" -eq 2 ]
    [[ $output == *"'tiny' is no size"* ]]
    run dl bench collectives --ranks 0
    [ "$status" -eq 2 ]
    [[ $output == *"--ranks: '0' is not a number from 1 to 1024"* ]]
}

@test "bench scaling runs a spec at every size and labels the rates that it did not measure" {
    as_user tee "$dir/job.yaml" >/dev/null <<'YAML'
name: scaled
resources: {tasks_per_node: 1, cpus_per_task: 1, time: 5m}
train: {data: {dataset: digits}, model: mlp, hidden: [16], epochs: 1, seed: 1}
YAML
    run --separate-stderr dl bench scaling job.yaml --nodes 2,1 --svg out.svg --json
    echo "$output$stderr"
    [ "$status" -eq 0 ]
    [ "$(jq -c '[.results[] | [.nodes, .ranks]]' <<<"$output")" = '[[1,1],[2,2]]' ]
    jq -e '.results[0].efficiency == 1 and (.results | all(.samples_per_s > 0)) and
        .left_out == []' \
        <<<"$output"
    # Every size is a run of its own, and its record has the printed rate.
    for i in 0 1; do
        run_id=$(jq -r ".results[$i].run" <<<"$output")
        [ "$(jq ".results[$i].samples_per_s" <<<"$output")" \
            = "$(dl status "$run_id" --json | jq .result.samples_per_s)" ]
    done
    jq -e '.modelled[-1].ranks == 1024 and (.modelled |
        all(.samples_per_s_low <= .samples_per_s_high))' \
        <<<"$output"
    grep -q '>modelled<' "$dir/out.svg"

    run --separate-stderr dl bench scaling job.yaml --local 1,2
    echo "$output$stderr"
    [ "$status" -eq 0 ]
    [[ ${lines[0]} == *NODES*RANKS*SAMPLES/S*SPEED-UP*EFFICIENCY*RUN ]]
    [[ $output == *"modelled, not measured: the time of a step on n ranks is"*" 1024 ranks "*" modelled"* ]]

    # A size that Slurm would never start is refused before any other is submitted.
    before=$(dl ls --json | jq length)
    run dl bench scaling job.yaml --nodes 1,9 --set resources.time=1m
    echo "$output"
    [ "$status" -eq 3 ]
    [[ $output == *"error: 9 nodes: "*"nothing was submitted"* && $output != *"1 node"[^s]* ]]
    run dl bench scaling job.yaml --nodes 1 --set resources.partition=nosuch
    [ "$status" -eq 3 ]
    [[ $output == *"1 node: "*"invalid partition"* ]]
    run dl bench scaling job.yaml --nodes 1 --svg no-such-folder/out.svg
    [[ $status -eq 1 && $output == *"/no-such-folder: No such file or directory"* ]]
    [ "$(dl ls --json | jq length)" -eq "$before" ]
    for words in "--nodes 0" "--nodes 1 --local 1" "--nodes 1 --set resources.ntasks=2" \
        "--nodes 1 --set resources.tme=1"; do
        # shellcheck disable=SC2086 # splits the words
        run dl bench scaling job.yaml $words
        [ "$status" -eq 2 ]
    done
}

@test "bench scaling says why its job waits, and cancels the job if a signal ends dlrun" {
    as_user tee "$dir/job.yaml" >/dev/null <<'YAML'
name: waits
resources: {tasks_per_node: 1, cpus_per_task: 1, time: 5m}
train: {data: {dataset: digits}, model: mlp, hidden: [16], epochs: 1, seed: 1}
YAML
    as_user sbatch --parsable -J blocks -N 4 --exclusive -t 5 -o /dev/null --wrap 'sleep 300' \
        >/dev/null
    wait_until 30 has_job blocks RUNNING
    for signal in TERM:130 INT:130; do
        as_user bash -c 'cd "$1" &&
            exec env --default-signal=INT dlrun bench scaling job.yaml --nodes 2,1 2>err' \
            - "$dir" &
        bench=$!
        wait_until 60 grep -q 'pending: ' "$dir/err"
        has_job waits PENDING
        # Signals dlrun itself, not the commands of as_user that started it.
        kill -s "${signal%:*}" "$(pgrep -u "$DLRUN_TESTBED_USER" -f '^dlrun bench scaling')"
        code=0
        wait "$bench" || code=$?
        cat "$dir/err"
        [ "$code" -eq "${signal#*:}" ]
        wait_until 30 has_no_job waits
        grep -q ' is cancelled' "$dir/err"
        as_user rm "$dir/err"
    done
}
