#!/usr/bin/env bats
# GPUs that a job holds and does not use (health.idle_gpu_after). The GPUs of the testbed are
# simulated, so these tests replace nvidia-smi by a script.
# timeout: 120

load helpers

setup() {
    dir=$(fresh_dir)
    as_user mkdir "$dir/bin"
    # Each node has two GPUs. Those of n1 are busy, those of the other nodes never are.
    as_user tee "$dir/bin/nvidia-smi" >/dev/null <<SH
#!/bin/sh
case \$(hostname) in
n1) busy=90 ;;
*) busy=0 ;;
esac
echo "0, GPU-\$(hostname)-0, \$busy, 1000, 80000"
echo "1, GPU-\$(hostname)-1, \$busy, 1000, 80000"
SH
    chmod 755 "$dir/bin/nvidia-smi"
}
write_spec() { as_user tee "$dir/exp.yaml" >/dev/null; }

@test "one warning says which node never uses its GPUs, and the run continues" {
    write_spec <<YAML
name: idle
resources: {nodes: 2, tasks_per_node: 1, gpus_per_node: 2, time: 5m}
environment: {setup: 'export PATH=$dir/bin:\$PATH'}
launch: {command: [sleep, 22]}
health: {idle_gpu_after: 10s}
YAML
    run dl submit exp.yaml --watch
    echo "$output"
    [ "$status" -eq 0 ]
    run dl status idle --json
    echo "$output"
    [ "$(jq -r .state <<<"$output")" = completed ]
    path=$(jq -r .path <<<"$output")
    jq -c 'select(.event == "warning")' "$path/events.jsonl"
    [ "$(jq -c 'select(.event == "warning") | .message' "$path/events.jsonl" |
        grep -c 'node n2 never used its GPUs')" -eq 1 ]
    [ "$(jq -c 'select(.event == "warning") | .message' "$path/events.jsonl" | grep -c 'n1.*GPU')" -eq 0 ]
    run dl status idle
    echo "$output"
    [[ $output == *"n2 never used its GPUs"* ]]
}

@test "with idle_gpu=end, the run ends with code 81 and no restart, and status shows the node" {
    write_spec <<YAML
name: ended
resources: {nodes: 2, tasks_per_node: 1, gpus_per_node: 2, time: 5m}
environment: {setup: 'export PATH=$dir/bin:\$PATH'}
launch: {command: [sleep, 300]}
retry: {max: 3, on: [failure, hang]}
health: {idle_gpu_after: 10s, idle_gpu: end}
YAML
    run dl submit exp.yaml --watch
    echo "$output"
    [ "$status" -ne 0 ]
    run dl status ended --json
    echo "$output"
    [ "$(jq -r .state <<<"$output")" = failed ]
    [ "$(jq '.restarts | length' <<<"$output")" -eq 0 ]
    [[ $(jq -r .detail <<<"$output") == *"n2 never used its GPUs"* ]]
    path=$(jq -r .path <<<"$output")
    [ "$(jq -r 'select(.event == "attempt_end") | "\(.reason) \(.code)"' "$path/events.jsonl")" \
        = "idle_gpus 81" ]
}
