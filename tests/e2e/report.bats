#!/usr/bin/env bats
# What a run used (the page of `dlrun report`), why a run is pending (`dlrun status`), and how a
# partition that Slurm refuses is reported.

load helpers

setup() {
    dir=$(fresh_dir)
    as_user mkdir "$dir/bin"
    printf '#!/bin/sh\necho "0, GPU-a, 20, 1000, 80000, 300"\n' |
        as_user tee "$dir/bin/nvidia-smi" >/dev/null
    as_user chmod 755 "$dir/bin/nvidia-smi"
}
write_spec() { as_user tee "$dir/$1.yaml" >/dev/null; }
status_says() { [[ $(dl status "$1") == *"$2"* ]]; }
reason() { dl status "$1" --json | jq -r .slurm_reason; }

@test "the page of report compares requested and used resources, and has GPU-hours and energy" {
    write_spec used <<YAML
name: used
resources: {nodes: 1, tasks_per_node: 1, gpus_per_node: 1, cpus_per_task: 8, mem: 32G, time: 2h}
environment: {setup: 'export PATH=$dir/bin:\$PATH'}
launch: {command: [sleep, 20]}
YAML
    dl submit used.yaml --watch
    output=$(dl report used -o -)
    [[ $output == *"Requested and used"* ]]
    [[ $output == *"memory of a node</td>"*"32 GiB</td>"*"mem: 256M"* ]]
    [[ $output == *"cores of a rank</td>"*">8</td>"*"cpus_per_task: 1"* ]]
    [[ $output == *">time</td>"*"02:00:00</td>"*"time: 00:05:00"* ]]
    [[ $output == *"busy for 20 % of the time"* ]]
    [[ $output == *"<span>GPU-hours</span>"* ]]
    [[ $output == *" Wh</b><span>energy of the GPUs</span>"* ]]
    [ "$(jq -s 'map(select(.event == "samples") | .gpu_watts) | unique | .[-1]' \
        "$(dl status used --json | jq -r .path)/events.jsonl")" = 300 ]
}

@test "status says why a run is pending, and how many jobs are before it" {
    write_spec all <<YAML
name: all
resources: {nodes: $(wc -w <<<"$DLRUN_TESTBED_NODES"), tasks_per_node: 1, exclusive: true, time: 5m}
launch: {command: [sleep, 300]}
YAML
    dl submit all.yaml --set name=first
    dl submit all.yaml --set name=second
    dl submit all.yaml --set name=third
    wait_until 30 status_says second "Resources: it is next in line"
    [ "$(reason second)" = Resources ]
    wait_until 30 status_says third "Priority: other jobs with a higher priority come first"
    wait_until 10 status_says third "1 of the 2 pending jobs of partition batch comes before"
    dl submit all.yaml --set name=held
    as_user scontrol hold "$(dl status held --json | jq -r .job)"
    wait_until 30 status_says held "JobHeldUser: you hold it"
}

@test "a partition that Slurm refuses is shown with its line and the partitions that exist" {
    write_spec where <<YAML
name: where
resources: {nodes: 1, tasks_per_node: 1, time: 1m, partition: batsh}
launch: {command: [hostname]}
YAML
    for words in check submit "submit --test-only"; do
        # shellcheck disable=SC2086 # splits the words
        run dl $words where.yaml
        echo "$output"
        [ "$status" -eq 3 ]
        [[ $output == *"where.yaml:2:"*"resources.partition is 'batsh'; the partitions here are "* ]]
        [[ $output == *"did you mean 'batch'?"* ]]
        [[ $output == *"nvalid partition"* ]]
    done
}
