#!/usr/bin/env bats
# The main job: one YAML file trains on four nodes over MPI, over Gloo, on one node, and on one
# machine without Slurm.
#
# With the real MNIST in $DLRUN_TEST_MNIST, the accuracy must be at least 0.977 after 4 epochs.
# Without it, the trainer generates digits, and 0.95 is enough. The job on one node trains for 1
# epoch and needs 0.9 in both cases.
# timeout: 1200

load helpers

setup() {
    # shellcheck disable=SC2034 # dl uses it
    dir=$(fresh_dir)
    if [[ -n ${DLRUN_TEST_MNIST:-} ]]; then
        # The testbed's user may have no access to the original files.
        install -d -m 755 "$DLRUN_TESTBED_HOME/mnist"
        install -m 644 "$DLRUN_TEST_MNIST"/*-ubyte* "$DLRUN_TESTBED_HOME/mnist"
        data=(--set "train.data.path=$DLRUN_TESTBED_HOME/mnist") least_accuracy=0.977
    else
        echo "# DLRUN_TEST_MNIST is not set: jobs train on generated digits instead of MNIST" >&3
        data=(--set train.data.dataset=digits --set train.lr_scaling=none) least_accuracy=0.95
    fi
    spec=$DLRUN_TESTBED_PREFIX/share/dlrun/examples/mnist-mlp.yaml
}

# check_training RANKS: checks that the newest run completed with at least the accuracy
# $least_accuracy, and that all its ranks hold the same parameters
check_training() {
    local status
    status=$(dl status last --json)
    jq -e --argjson least "$least_accuracy" \
        '.state == "completed" and .result.test_accuracy >= $least' <<<"$status" || {
        echo "$status"
        return 1
    }
    [[ $(dl logs last) \
        == *"parameters $(jq -r .result.parameters <<<"$status") equal on $1 ranks"* ]]
}

@test "4 nodes x 2 ranks over MPI reach the required accuracy and end with the same parameters" {
    run dl submit "$spec" "${data[@]}" --watch
    echo "$output" | tail -n 5
    [ "$status" -eq 0 ]
    [[ $output == *"x 8 ranks; mpi;"* ]]
    check_training 8
}

@test "4 nodes x 2 ranks over Gloo reach the required accuracy and end with the same parameters" {
    run dl submit "$spec" "${data[@]}" --set train.backend=gloo --watch
    echo "$output" | tail -n 5
    [ "$status" -eq 0 ]
    [[ $output == *"x 8 ranks; gloo;"* ]]
    check_training 8
}

@test "on one node under Slurm the ranks use shared memory, and reach 0.9 after one epoch" {
    run dl submit "$spec" "${data[@]}" --set resources.nodes=1 --set train.epochs=1 --watch
    echo "$output" | tail -n 5
    [ "$status" -eq 0 ]
    [[ $output == *"x 2 ranks; shm;"* ]]
    least_accuracy=0.9 check_training 2
}

@test "the same spec reaches the required accuracy on one machine without Slurm" {
    run dl run "$spec" "${data[@]}" --set train.lr_scaling=none
    echo "$output" | tail -n 5
    [ "$status" -eq 0 ]
    [[ $output == *"x 2 ranks; shm;"* ]]
    check_training 2
}
