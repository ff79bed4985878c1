#!/usr/bin/env bats
# The presets of frameworks end to end, on four nodes and on this machine without Slurm: a program
# reads the environment as the framework does, and verifies it (verify_preset.py). This file also
# runs mpi4py. torch.bats runs PyTorch, and example_specs.bats tests ray and vllm.
# timeout: 300

load helpers

setup() {
    dir=$(fresh_dir)
    install -m 755 -o "$DLRUN_TESTBED_USER" "$BATS_TEST_DIRNAME/verify_preset.py" \
        "$dir/verify_preset.py"
    as_user mkdir "$dir/bin"
    # This program replaces torchrun and verifies the options that the preset passes.
    as_user tee "$dir/bin/torchrun" >/dev/null <<SH
#!/bin/sh
exec python3 $dir/verify_preset.py rank $dir/torchrun torchrun "\$@"
SH
    chmod 755 "$dir/bin/torchrun"
}

# write_spec PRESET RESOURCES [LINE...]: writes PRESET.yaml, which has these lines below `launch`,
# and whose program reports into the folder PRESET
write_spec() {
    local preset=$1 resources=$2
    shift 2
    as_user mkdir "$dir/$preset"
    as_user tee "$dir/$preset.yaml" >/dev/null <<YAML
name: $preset
resources: {$resources, time: 2m}
environment: {setup: "PATH=$dir/bin:\$PATH"}
launch:
  preset: $preset
  command: [python3, $dir/verify_preset.py, rank, $dir/$preset, $preset]
$(printf '  %s\n' "$@")
YAML
}
verify() { as_user python3 "$dir/verify_preset.py" all "$dir/$1" "$@"; }

# Under these presets, each task of srun is a rank. torchrun starts several ranks in one task.
srun_presets=(torch accelerate deepspeed lightning horovod tensorflow jax mpi plain)

@test "under each preset except ray, vllm and trainer, ranks agree and reach one master" {
    for preset in "${srun_presets[@]}"; do
        write_spec "$preset" 'nodes: 4, tasks_per_node: 2'
        dl submit "$preset.yaml" >/dev/null
    done
    write_spec torchrun 'nodes: 4' 'nproc_per_node: 2'
    dl submit torchrun.yaml >/dev/null
    for preset in "${srun_presets[@]}" torchrun; do
        dl wait "$preset" || { dl logs "$preset" && false; }
        size=8
        # The program that replaces torchrun reports once for each node.
        [[ $preset != torchrun ]] || size=4
        run verify "$preset" "$size"
        echo "$preset: $output"
        [ "$status" -eq 0 ]
        [[ $output == *"$size ranks on 4 nodes agree" ]]
    done
}

@test "without Slurm, dlrun run gives each rank the environment of its preset" {
    for preset in torch accelerate deepspeed lightning tensorflow jax plain; do
        write_spec "$preset" 'tasks_per_node: 2'
        run dl run "$preset.yaml"
        [ "$status" -eq 0 ] || { echo "$preset: $output" && false; }
        run verify "$preset" 2
        echo "$preset: $output"
        [ "$status" -eq 0 ]
    done
    write_spec torchrun 'nodes: 4' 'nproc_per_node: 2'
    dl run torchrun.yaml
    verify torchrun 1
    # Without srun no program joins the ranks of an MPI program into one world. dlrun therefore runs
    # one rank, and refuses more.
    write_spec mpi 'nodes: 1'
    dl run mpi.yaml
    verify mpi 1
    run dl run mpi.yaml --set resources.tasks_per_node=2
    [ "$status" -eq 2 ]
    [[ $output == *"needs srun to start it"* ]]
}

@test "TensorFlow's roles are the same on all ranks: chief, workers, parameter servers, evaluator" {
    write_spec tensorflow 'nodes: 4, tasks_per_node: 2' 'roles: {chief: 1, ps: 2, evaluator: 1}'
    dl submit tensorflow.yaml --watch
    run verify tensorflow 8
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == "chief=1 evaluator=1 ps=2 worker=4"* ]]
}

@test "under torch, tensorflow, jax and horovod a rank has the GPUs that Slurm assigns" {
    assigned_by_srun=$(as_user srun -N2 --ntasks-per-node=2 --gpus-per-task=1 \
        --time=1 sh -c 'echo $SLURM_PROCID $CUDA_VISIBLE_DEVICES' | sort)
    [ "$(wc -l <<<"$assigned_by_srun")" -eq 4 ]
    for preset in torch tensorflow jax horovod; do
        write_spec "$preset" 'nodes: 2, tasks_per_node: 2, gpus_per_task: 1'
        dl submit "$preset.yaml" \
            --set 'launch.command=[sh, -c, "echo seen $SLURM_PROCID $CUDA_VISIBLE_DEVICES"]' --watch
        [ "$(dl logs "$preset" | sed -n 's/^.*seen //p' | sort)" = "$assigned_by_srun" ]
    done
}

@test "a user's preset puts words before the program, and gives it all addresses and a port" {
    as_user mkdir -p "$dir/config/presets"
    as_user tee "$dir/config/presets/mine.yaml" >/dev/null <<'YAML'
help: A launcher of our own.
words: [env, "PLACE={rank}/{world_size}"]
env: {PEERS: "{addresses}", MY_PORT: "{port}", MY_ADDR: "{addr}"}
YAML
    write_spec mine 'nodes: 4, tasks_per_node: 2'
    as_user tee "$dir/mine.py" >/dev/null <<'PY'
import os, socket
rank, size = map(int, os.environ["PLACE"].split("/"))
peers = os.environ["PEERS"].split(",")
assert len(set(peers)) == size == 8, peers
assert peers[rank] == os.environ["MY_ADDR"] + ":" + os.environ["MY_PORT"]
# A ring over the reserved ports: each rank listens, and connects to the next, which may start
# later.
with socket.create_server(("", int(os.environ["MY_PORT"]))) as server:
    address, port = peers[(rank + 1) % size].rsplit(":", 1)
    for _ in range(600):
        try:
            out = socket.create_connection((address, int(port)), timeout=60)
            break
        except ConnectionRefusedError:
            __import__("time").sleep(0.1)
    out.sendall(b"%d\n" % rank)
    server.settimeout(60)
    assert int(server.accept()[0].makefile().readline()) == (rank - 1) % size
PY
    as_user bash -c 'cd "$1" &&
        DLRUN_CONFIG=$1/config exec dlrun submit mine.yaml --watch \
            --set "launch.command=[python3, $1/mine.py]"' \
        - "$dir"
}

@test "the preset mpi runs an allreduce of mpi4py on 4 nodes x 2 ranks" {
    as_user tee "$dir/sum.py" >/dev/null <<'PY'
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(1 << world.rank)
assert world.size == 8 and total == 255, (world.size, total)
print(f"rank {world.rank} of {world.size} on {MPI.Get_processor_name()}: {total}")
PY
    write_spec mpi 'nodes: 4, tasks_per_node: 2'
    run dl submit mpi.yaml --set "launch.command=[python3, $dir/sum.py]" --watch
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(dl logs mpi | grep -c 'rank [0-7] of 8 on n[1-4]: 255')" -eq 8 ]
}
