#!/usr/bin/env bats
# These tests run the recipes on the testbed. A recipe is an example of configs/examples that starts
# a framework. The recipe for mpi4py runs the installed mpi4py. The other frameworks are no Debian
# packages: in their place, programs read what the framework would read, and verify it
# (verify_preset.py, tests/stand_ins/trl and tests/stand_ins/ray). The tests change the sizes of the
# recipes to fit the testbed, put these programs into the PATH, and give the jobs variables.
# timeout: 300

load helpers

setup() {
    dir=$(fresh_dir)
    as_user mkdir "$dir/bin"
    install -m 755 -o "$DLRUN_TESTBED_USER" "$BATS_TEST_DIRNAME/verify_preset.py" "$dir"
    install -m 755 -o "$DLRUN_TESTBED_USER" "$DLRUN_SOURCE_DIR"/tests/stand_ins/{trl,ray} "$dir/bin"
    # RECIPE and PRESET are variables of the job. The arguments show whether the command of the
    # recipe reached the program.
    install_program python <<SH
echo "\$*" >"$dir/\$RECIPE/arguments"
exec python3 "$dir/verify_preset.py" rank "$dir/\$RECIPE" "\$PRESET"
SH
    install_program torchrun <<SH
echo "\$*" >"$dir/torchrun/arguments"
exec python3 "$dir/verify_preset.py" rank "$dir/torchrun" torchrun "\$@"
SH
}

# install_program NAME: installs standard input as a program of the jobs
install_program() {
    { echo '#!/bin/sh' && cat; } | as_user tee "$dir/bin/$1" >/dev/null
    chmod 755 "$dir/bin/$1"
}

# submit_recipe NAME PRESET OPTIONS...: submits a recipe with the programs above
submit_recipe() {
    local name=$1 preset=$2
    shift 2
    as_user mkdir "$dir/$name"
    as_user cp "$DLRUN_TESTBED_PREFIX/share/dlrun/examples/$name.yaml" "$dir"
    as_user touch "$dir/train.py" "$dir/pretrain_gpt.py"
    dl submit "$name.yaml" --set "environment.setup=PATH=$dir/bin:\$PATH" \
        --set "environment.vars.RECIPE=$name" --set "environment.vars.PRESET=$preset" "$@"
}
small=(--set resources.nodes=2 --set resources.gpus_per_node=2 --set resources.cpus_per_task=1
    --set resources.mem=null --set resources.time=20m)

@test "Lightning, Accelerate, DeepSpeed, Megatron, JAX, Horovod: the ranks find each other" {
    submit_recipe lightning lightning "${small[@]}"
    submit_recipe accelerate accelerate "${small[@]}"
    submit_recipe deepspeed deepspeed "${small[@]}"
    submit_recipe megatron torch "${small[@]}"
    submit_recipe jax jax "${small[@]}"
    submit_recipe horovod horovod "${small[@]}"
    for preset in lightning accelerate deepspeed megatron:torch jax horovod; do
        name=${preset%:*}
        dl wait "$name" || { dl logs "$name" && false; }
        run as_user python3 "$dir/verify_preset.py" all "$dir/$name" "${preset#*:}" 4
        echo "$name: $output"
        [ "$status" -eq 0 ]
        [[ $output == *"4 ranks on 2 nodes agree" ]]
    done
    [ "$(cat "$dir/lightning/arguments")" = "-u train.py --devices 4 --num-nodes 2" ]
    [[ $(cat "$dir/deepspeed/arguments") == *"--deepspeed_config zero3.json" ]]
    [[ $(cat "$dir/megatron/arguments") == "-u pretrain_gpt.py --tensor-model-parallel-size=4 "* ]]
}

@test "torchrun: each node's torchrun gets its number of processes and the first node's address" {
    submit_recipe torchrun torchrun "${small[@]}"
    dl wait torchrun || { dl logs torchrun && false; }
    run as_user python3 "$dir/verify_preset.py" all "$dir/torchrun" torchrun 2
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $(cat "$dir/torchrun/arguments") == *"--nproc_per_node=2"*"python -u train.py --epochs 12" ]]
}

@test "mpi4py: all 8 ranks of the recipe compute the sum over all ranks" {
    as_user tee "$dir/sum.py" >/dev/null <<'PY'
from mpi4py import MPI

world = MPI.COMM_WORLD
print(f"rank {world.rank} of {world.size}: {world.allreduce(world.rank)}")
PY
    as_user cp "$DLRUN_TESTBED_PREFIX/share/dlrun/examples/mpi4py.yaml" "$dir"
    dl submit mpi4py.yaml --watch
    [ "$(dl logs mpi4py | grep -c 'rank [0-7] of 8: 28')" -eq 8 ]
}

@test "TRL and vLLM: the trainer starts when the server is healthy, and reaches it" {
    # The memory of the recipe is more than a node of the testbed has.
    as_user mkdir "$dir/trl-vllm"
    as_user sed 's/mem: .*/mem: 8G/' "$DLRUN_TESTBED_PREFIX/share/dlrun/examples/trl-vllm.yaml" |
        as_user tee "$dir/trl-vllm.yaml" >/dev/null
    as_user touch "$dir/train.py"
    install_program python <<SH
curl -fsS --max-time 10 "http://\$DLRUN_COMPONENT_SERVER_ADDR/health/" || exit 1
exec python3 "$dir/verify_preset.py" rank "$dir/trl-vllm" accelerate
SH
    run dl submit trl-vllm.yaml --watch --set "environment.setup=PATH=$dir/bin:\$PATH"
    echo "$output"
    [ "$status" -eq 0 ]
    run as_user python3 "$dir/verify_preset.py" all "$dir/trl-vllm" accelerate 4
    echo "$output"
    [[ $output == *"4 ranks on 1 nodes agree" ]]
}

@test "Ray: the driver starts after the head and two workers, and reaches the head" {
    as_user cp "$DLRUN_TESTBED_PREFIX/share/dlrun/examples/ray.yaml" "$dir"
    as_user mkdir -p "$dir/venv/bin"
    as_user tee "$dir/venv/bin/activate" >/dev/null <<<"PATH=$dir/bin:\$PATH"
    as_user tee "$dir/tune.py" >/dev/null <<'PY'
import os
import socket

host, port = os.environ["DLRUN_COMPONENT_HEAD_ADDR"].rsplit(":", 1)
with socket.create_connection((host, int(port)), timeout=30) as head:
    head.sendall(b"who\n")
    print("nodes:", len(set(head.makefile().readline().split())))
PY
    install_program python <<<'exec python3 "$@"'
    run dl submit ray.yaml --watch
    echo "$output"
    [ "$status" -eq 0 ]
    # A worker is ready when its rank has joined. Ray's own processes may connect later, so the
    # driver may see fewer than 3 nodes.
    [[ $output == *"nodes: "[123]* ]]
}
