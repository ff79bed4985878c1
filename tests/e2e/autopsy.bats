#!/usr/bin/env bats
# Before dlrun ends a hanging run, it saves each rank's position in the code.
# tests/unit/agent_autopsy_test.cc tests the reading of stacks and the grouping of ranks.
# timeout: 240

load helpers

setup() { dir=$(fresh_dir); }
json() { dl status "$1" --json 2>/dev/null; }

@test "status shows which of 8 torch ranks waits for a lock, and the run has the stacks of all" {
    # The first lines keep a rank from being silent while it imports torch, because the import can
    # take longer than hang_after on a busy machine.
    as_user tee "$dir/train.py" >/dev/null <<'PY'
import threading

imported = threading.Event()


def report_import():
    while not imported.wait(2):
        print("importing", flush=True)


threading.Thread(target=report_import).start()
import torch, torch.distributed as dist

imported.set()
torch.set_num_threads(1)
dist.init_process_group("gloo")
lock = threading.Lock()


def load_next_batch():
    lock.acquire()
    lock.acquire()  # No thread releases this lock.


def synchronize(gradients):
    dist.all_reduce(gradients)


gradients = torch.ones(4)
synchronize(gradients)
print("step 0", gradients[0].item(), flush=True)
if dist.get_rank() == 5:
    load_next_batch()
synchronize(gradients)
PY
    as_user tee "$dir/exp.yaml" >/dev/null <<'YAML'
name: hangs
resources: {nodes: 2, tasks_per_node: 4, cpus_per_task: 1, time: 10m}
launch: {preset: torch, command: [/usr/bin/python3, train.py]}
health: {hang_after: 20s}
YAML
    run dl submit exp.yaml --watch
    echo "$output"
    [ "$status" -eq 5 ]
    run dl status hangs
    echo "$output"
    [ "${#lines[@]}" -le 24 ]
    [[ $output == *"rank 5 (n2) is at another place in the code than the other 7 ranks"* ]]
    [[ $output == *"rank 5 (n2)"*"ranks 0-4, 6-7 (n1, n2)"* ]]
    [[ $output == *"load_next_batch (train.py:22)"* ]]
    [[ $output == *"all_reduce (distributed_c10d.py:"* &&
        $output == *"synchronize (train.py:26)"* ]]
    at='rank 5 on n2 is at load_next_batch (train.py:22)'
    [[ $output == *"$at, the others at all_reduce (distributed_c10d.py:"* ]]
    [ "$(json hangs | jq -r '[.state, .autopsy.odd, .autopsy.groups[0].ranks] | join(" ")')" \
        = "failed 1 5" ]
    folder=$(json hangs | jq -r .path)/autopsy/attempt-0
    for rank in 0 1 2 3 4 5 6 7; do
        grep -q '^process [0-9]*: /usr/bin/python3 train.py' "$folder/rank-000$rank.txt"
        grep -q 'native stacks' "$folder/rank-000$rank.txt"
    done
    grep -q 'line 22 in load_next_batch' "$folder/rank-0005.txt"
}

@test "without a debugger, status shows the state of each process, even of a suspended one" {
    as_user tee "$dir/exp.yaml" >/dev/null <<'YAML'
name: plain
resources: {nodes: 1, tasks_per_node: 3, cpus_per_task: 1, time: 10m}
launch:
  command:
    - bash
    - -c
    - '[[ $DLRUN_ATTEMPT == 1 ]] || { [[ $DLRUN_RANK != 1 ]] || kill -STOP $$; exec sleep 300; }'
environment:
  setup: 'mkdir -p bin && ln -sf /bin/* bin/ && ln -sf "$(type -P srun)" "$(type -P scontrol)" bin/ &&
    rm -f bin/gdb && PATH=$PWD/bin'
health: {hang_after: 5s}
retry: {max: 1, on: [hang]}
YAML
    run dl submit exp.yaml --watch
    echo "$output"
    run dl status plain
    echo "$output"
    [ "$(json plain | jq -c '[.state, .attempt, .restarts[0].cause]')" = '["completed",1,"hang"]' ]
    [ "$(json plain | jq -r '.autopsy | [.attempt, .odd, .groups[0].ranks] | join(" ")')" \
        = "0 1 1" ]
    [[ $(json plain | jq -r '.autopsy.groups[0].frames[0]') == "is suspended"* ]]
    [[ $(json plain | jq -r '.autopsy.groups[1].frames[0]') == sleeps* ]]
    grep -q 'neither py-spy nor gdb is in PATH here' \
        "$(json plain | jq -r .path)/autopsy/attempt-0/rank-0001.txt"
}
