#!/usr/bin/env bats
# Jobs with components from a spec: a service on a shared node, its address, heterogeneous jobs.
# timeout: 300

load helpers

setup() { dir=$(fresh_dir); }
teardown() { end_test; }

json() { dl "$@" --json 2>/dev/null; }
is_state() { [[ $(json status last | jq -r .state) == "$1" ]]; }
write() { as_user tee "$dir/$1" >/dev/null; }

@test "a service shares its node with two components, serves a third one, and ends after them" {
    write three.yaml <<'YAML'
name: three
resources: {time: 5m, cpus_per_task: 1, mem: 100M}
components:
  - name: server
    role: service
    gpus_per_node: 2
    ready: {http: /index.html, timeout: 60}
    launch:
      command:
        - bash
        - -c
        - 'mkdir -p www && echo hello >www/index.html && echo "gpus $CUDA_VISIBLE_DEVICES" >server &&
          exec python3 -m http.server --directory www {port}'
  - name: trainer
    nodes: 2
    gpus_per_node: 2
    after: server
    launch:
      command:
        - bash
        - -c
        - 'curl -s "http://$DLRUN_COMPONENT_SERVER_ADDR/index.html" >"got-$DLRUN_RANK" &&
          echo "$SLURMD_NODENAME $DLRUN_WORLD_SIZE" >"trainer-$DLRUN_RANK"'
  - name: eval
    shares: server
    gpus_per_node: 1
    after: server
    launch: {command: [bash, -c, 'echo "gpus $CUDA_VISIBLE_DEVICES" >eval']}
  - name: plain
    shares: server
    gpus_per_node: 0
    after: server
    launch: {command: [bash, -c, 'echo "gpus $${CUDA_VISIBLE_DEVICES-unset}" >plain']}
YAML
    run dl check three.yaml
    [ "$status" -eq 0 ]
    [[ $output == *"one allocation of 3 nodes"*"server: service, 1 node with 1 rank each"* ]]
    dl submit three.yaml
    wait_until 90 is_state completed
    for rank in 0 1 2 3; do [[ $(<"$dir/got-$rank") == hello ]]; done
    [[ $(cut -d' ' -f1 "$dir"/trainer-* | sort -u | wc -l) -eq 2 ]]
    [[ $(cut -d' ' -f2 "$dir"/trainer-* | sort -u) == 4 ]]
    # The server and the evaluator ran on one node with different GPUs.
    gpu_count=$(sed 's/gpus //' "$dir/server" "$dir/eval" | tr ',' '\n' | sort -u | wc -l)
    [ "$gpu_count" -eq 3 ]
    [[ $(<"$dir/plain") == "gpus " ]]
}

@test "hetjob: true makes components the parts of one job, and attach reaches a node of any part" {
    write parts.yaml <<'YAML'
name: parts
resources: {time: 5m, cpus_per_task: 1, mem: 100M}
hetjob: true
components:
  - name: store
    role: service
    ready: tcp
    launch: {command: [python3, -m, http.server, "{port}"]}
  - name: work
    nodes: 2
    after: store
    launch:
      command:
        - bash
        - -c
        - 'curl -so "page-$DLRUN_RANK" "http://$DLRUN_COMPONENT_STORE_ADDR/" &&
          until [[ -e go ]]; do sleep 0.1; done'
YAML
    dl submit parts.yaml
    wait_until 60 test -e "$dir/page-1"
    # The job has two parts, and a shell reaches a node of the second part.
    [ "$(squeue -h -u "$DLRUN_TESTBED_USER" -o %N | wc -l)" -eq 2 ]
    second=$(squeue -h -u "$DLRUN_TESTBED_USER" -o '%i %N' | sed -n 's/.*+1 //p')
    run dl attach last --node "$second" -- bash -c 'echo "on $SLURMD_NODENAME"'
    [[ $output == *"on $second"* ]]
    as_user touch "$dir/go"
    wait_until 60 is_state completed
    wait_until 60 no_jobs
    run dl submit parts.yaml --set 'components=[{name: a}, {name: b, nodes: 400}]' \
        --set 'launch.command=[hostname]'
    [ "$status" -eq 3 ]
    echo "$output"
    [[ $output == *"component 'b': Slurm refuses its part of the job"* ]]
    [[ $output != *"component 'a'"* ]]
    [[ $output == *"nothing was submitted"* ]]
    no_jobs
}

@test "a failed main component gives the run its exit code, and run and bench refuse components" {
    write fails.yaml <<'YAML'
name: fails
resources: {time: 5m, cpus_per_task: 1, mem: 100M}
components:
  - {name: idle, role: service, launch: {command: [sleep, infinity]}}
  - {name: work, shares: idle, after: idle, launch: {command: [bash, -c, "echo bye; exit 7"]}}
YAML
    dl submit fails.yaml
    wait_until 60 is_state failed
    [ "$(json status last | jq -r .code)" -eq 7 ]
    [[ $(dl logs --component work --rank 0 last) == *bye* ]]
    run dl logs --rank 0 last
    [ "$status" -eq 2 ]
    [[ $output == *"give --component"* ]]
    run dl run fails.yaml
    [ "$status" -eq 2 ]
    [[ $output == *"components need Slurm"* ]]
    run dl bench scaling --nodes 1,2 fails.yaml
    [ "$status" -eq 2 ]
    [[ $output == *"has components; \`bench scaling\` measures one program"* ]]
}
