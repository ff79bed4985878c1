#!/usr/bin/env bats
# What collectives cost on one machine: every backend that is here, and a word on those that are not.
# timeout: 120

bats_require_minimum_version 1.5.0
load helpers

setup() { dir=$(fresh_dir); }

@test "bench collectives measures MPI, Gloo and shared memory side by side, draws them, and says what is not here" {
    run --separate-stderr dl bench collectives --workers 2 --sizes 8,64K --svg out.svg --json
    echo "$output$stderr"
    [ "$status" -eq 0 ]
    [ "$(jq -c '[.results[] | [.backend, .workers, .bytes]] | sort' <<<"$output")" = \
        '[["gloo",2,8],["gloo",2,65536],["mpi",2,8],["mpi",2,65536],["shm",2,8],["shm",2,65536]]' ]
    # At two ranks the bus carries what the algorithm says, and time, size and bandwidth belong together.
    jq -e '[.results[] | (.algbw_gb_s == .busbw_gb_s) and .us > 0 and (.bytes / .us / 1000 - .algbw_gb_s | fabs) <= 0.01 * .algbw_gb_s + 1e-6] | all' <<<"$output"
    [ "$(jq -r '.left_out[].backend' <<<"$output")" = nccl ]
    [[ $stderr == *"nccl with 2 workers is left out: "* ]]
    [ "$(grep -c '<polyline' "$dir/out.svg")" -eq 6 ]
}

@test "bench collectives prints a table and bars for people, and ends its ranks" {
    run --separate-stderr dl bench collectives --backends shm --workers 2,4 --sizes 1K --operation all_gather
    echo "$output$stderr"
    [ "$status" -eq 0 ]
    [[ ${lines[0]} == *WORKERS*SIZE*"shm us"*algbw*busbw ]]
    [[ $output == *"bus bandwidth at 1 KiB, GB/s"* ]]
    run ! pgrep -u "$DLRUN_TESTBED_USER" -f 'dlrun-trainer collectives'
}

@test "bench collectives: a backend that is none, a size that is none" {
    run dl bench collectives --backends pigeon --workers 2
    [ "$status" -eq 2 ]
    [[ $output == *"no collective backend is called 'pigeon'"* ]]
    run dl bench collectives --backends shm --sizes tiny
    [ "$status" -eq 2 ]
    [[ $output == *"'tiny' is no size"* ]]
}
