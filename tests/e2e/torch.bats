#!/usr/bin/env bats
# PyTorch itself: DistributedDataParallel over gloo.
# timeout: 900

load helpers

setup() {
    dir=$(fresh_dir)
    install -m 644 -o "$DLRUN_TESTBED_USER" "$BATS_TEST_DIRNAME/ddp.py" "$dir/ddp.py"
    as_user tee "$dir/ddp.yaml" >/dev/null <<YAML
name: ddp
resources: {nodes: 4, tasks_per_node: 1, time: 10m}
launch:
  preset: torch
  command: [python3, $dir/ddp.py]
YAML
}

# check_training RANKS: checks that every rank of the newest run reports the same result as training
# in one process
check_training() {
    [ "$(dl logs last | grep -c "ddp: rank [0-9]* of $1: equal to training alone")" -eq "$1" ]
}

@test "on 4 nodes with 1 or 2 ranks each, every rank ends with the result of one process" {
    for per_node in 1 2; do
        dl submit ddp.yaml --set "resources.tasks_per_node=$per_node" --watch
        check_training $((4 * per_node))
    done
}

@test "torchrun, with a preset file of the user, starts 2 ranks on each of 2 nodes" {
    # torchrun of torch 1.13 under Python 3.11 cannot parse its own defaults of --redirects and
    # --tee, and exits. This preset therefore sets both.
    as_user mkdir -p "$dir/config/presets"
    as_user tee "$dir/config/presets/torchrun.yaml" >/dev/null < <(
        cat "$DLRUN_TESTBED_PREFIX/share/dlrun/presets/torchrun.yaml"
        printf '  - --redirects=1\n  - --tee=1\n'
    )
    as_user env DLRUN_CONFIG="$dir/config" bash -c 'cd "$1" && shift && exec dlrun "$@"' - "$dir" \
        submit ddp.yaml --set resources.tasks_per_node=null \
        --set resources.nodes=2 --set launch.preset=torchrun --set launch.nproc_per_node=2 --watch
    check_training 4
}

@test "dlrun run trains with 2 ranks on this machine" {
    dl run ddp.yaml --set resources.tasks_per_node=2
    check_training 2
}

@test "4 jobs that run at the same time on the same nodes succeed, and no port collides" {
    as_user mkdir "$dir/meet"
    for job in 1 2 3 4; do
        dl submit ddp.yaml --set name="ddp$job" --set resources.nodes=2 \
            --set resources.tasks_per_node=2 --set 'resources.nodelist=n[1-2]' \
            --set "launch.command=[python3, $dir/ddp.py, $dir/meet, 16]"
    done
    for job in 1 2 3 4; do
        dl wait "ddp$job"
        [ "$(dl logs "ddp$job" | grep -c 'of 4: equal to training alone')" -eq 4 ]
    done
    # The jobs overlapped: all 16 ranks reached the second barrier of ddp.py, while their process
    # groups were in use.
    [ "$(find "$dir/meet/together" -type f | wc -l)" -eq 16 ]
}
