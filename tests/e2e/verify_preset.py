#!/usr/bin/env python3
"""Reads and verifies, in each rank, the environment that a framework would read; then compares the
reports of all ranks.

usage: verify_preset.py rank FOLDER PRESET
       verify_preset.py rank FOLDER torchrun OPTIONS-OF-TORCHRUN...
       verify_preset.py all FOLDER PRESET SIZE

"rank" is the program of a job. It checks this rank's own variables, connects to the master (or lets
the others connect to it), and writes FOLDER/RANK.json. "all" runs after the job. It checks that the
SIZE ranks are numbered from 0 on without a gap, that all report the same shared values, and that
their local ranks and sizes fit their nodes. For the preset tensorflow, "all" also checks that the
ranks' tasks are those of the cluster. "rank" and "all" exit with 1 and a message at the first
difference.

The variables of the preset contain one address, which every rank must reach. Rank 0 listens there,
on the port that the job reserves for it. The others connect and send their ranks. Rank 0 waits for
all of them.
"""

import json
import os
import pathlib
import socket
import sys
import time

LIMIT_S = 60


def require(condition, *words):
    """Exits with a message of these words unless the condition holds."""
    if not condition:
        sys.exit(f"verify_preset: {' '.join(map(str, words))}")


def env_number(name):
    text = os.environ.get(name)
    require(text is not None and text.isdigit(), f"{name}={text!r} is not a number")
    return int(text)


def from_torch():
    require(env_number("LOCAL_RANK") < env_number("LOCAL_WORLD_SIZE"),
            "LOCAL_RANK is not below LOCAL_WORLD_SIZE")
    require(env_number("NODE_RANK") < int(os.environ["DLRUN_NNODES"]),
            "NODE_RANK is not below DLRUN_NNODES")
    return (env_number("RANK"), env_number("WORLD_SIZE"), os.environ["MASTER_ADDR"],
            env_number("MASTER_PORT"), {})


def from_deepspeed():
    require(env_number("LOCAL_SIZE") == env_number("LOCAL_WORLD_SIZE"),
            "LOCAL_SIZE is not LOCAL_WORLD_SIZE")
    require(env_number("CROSS_RANK") == env_number("NODE_RANK") < env_number("CROSS_SIZE"),
            "CROSS_RANK is not NODE_RANK, or is not below CROSS_SIZE")
    return from_torch()


def from_lightning():
    require(os.environ["TORCHELASTIC_RUN_ID"], "TORCHELASTIC_RUN_ID is empty")
    require(env_number("GROUP_RANK") == env_number("NODE_RANK"), "GROUP_RANK is not NODE_RANK")
    return from_torch()


def from_torchrun():
    # The options are on torchrun's command line. The test replaces torchrun by a script that passes
    # them on.
    options = dict(word.lstrip("-").split("=", 1) for word in sys.argv[4:] if "=" in word)
    return (int(options["node_rank"]), int(options["nnodes"]), options["master_addr"],
            int(options["master_port"]), {"nproc_per_node": options["nproc_per_node"]})


def from_horovod():
    require(env_number("HOROVOD_LOCAL_RANK") < env_number("HOROVOD_LOCAL_SIZE"),
            "HOROVOD_LOCAL_RANK is not below HOROVOD_LOCAL_SIZE")
    require(env_number("HOROVOD_CROSS_RANK") < env_number("HOROVOD_CROSS_SIZE"),
            "HOROVOD_CROSS_RANK is not below HOROVOD_CROSS_SIZE")
    require(os.environ["HOROVOD_CONTROLLER"] == "mpi", "HOROVOD_CONTROLLER is not mpi")
    rank, size = from_mpi()[:2]
    require((env_number("HOROVOD_RANK"), env_number("HOROVOD_SIZE")) == (rank, size),
            "Horovod's ranks are not MPI's")
    return rank, size, os.environ["DLRUN_MASTER_ADDR"], env_number("DLRUN_MASTER_PORT"), {}


def from_tensorflow():
    config = json.loads(os.environ["TF_CONFIG"])
    require(set(config) == {"cluster", "task"}, "the keys of TF_CONFIG are", *config)
    cluster, task = config["cluster"], config["task"]
    addresses = [address for members in cluster.values() for address in members]
    require(len(set(addresses)) == len(addresses), "two tasks share an address")
    if task["type"] != "evaluator":
        mine = cluster[task["type"]][task["index"]]
        require(mine.rsplit(":", 1)[0] == os.environ["DLRUN_ADDR"],
                "TF_CONFIG's address is not this rank's", mine)
        if env_number("DLRUN_RANK") > 0:  # Rank 0 listens later, in connect_ranks().
            with socket.create_server(("", int(mine.rsplit(":", 1)[1]))):
                pass  # TensorFlow's server needs to listen on the reserved port, so this must work.
    master = (cluster.get("chief") or cluster["worker"])[0].rsplit(":", 1)
    return (env_number("DLRUN_RANK"), env_number("DLRUN_WORLD_SIZE"), master[0], int(master[1]),
            {"cluster": cluster, "task": task})


def from_jax():
    address, port = os.environ["JAX_COORDINATOR_ADDRESS"].rsplit(":", 1)
    return env_number("JAX_PROCESS_ID"), env_number("JAX_NUM_PROCESSES"), address, int(port), {}


def from_mpi():
    rank, size = env_number("DLRUN_RANK"), env_number("DLRUN_WORLD_SIZE")
    if "SLURM_JOB_ID" in os.environ:
        require(os.environ["PMIX_MCA_gds"] == "hash", "PMIX_MCA_gds is not hash")
        require(env_number("PMIX_RANK") == rank,
                "PMIX_RANK is not the rank: srun did not start this rank with --mpi=pmix")
    return rank, size, os.environ["DLRUN_MASTER_ADDR"], env_number("DLRUN_MASTER_PORT"), {}


def from_plain():
    for name in ("RANK", "MASTER_ADDR", "TF_CONFIG", "HOROVOD_RANK", "JAX_PROCESS_ID"):
        require(name not in os.environ, name, "is set")
    return (env_number("DLRUN_RANK"), env_number("DLRUN_WORLD_SIZE"),
            os.environ["DLRUN_MASTER_ADDR"], env_number("DLRUN_MASTER_PORT"), {})


# Each function checks the variables of its preset. It returns the rank, the size, the master's
# address and port, and further values for the rank's report.
READERS = {"torch": from_torch, "accelerate": from_torch, "deepspeed": from_deepspeed,
           "lightning": from_lightning,
           "torchrun": from_torchrun, "horovod": from_horovod, "tensorflow": from_tensorflow,
           "jax": from_jax,
           "mpi": from_mpi, "plain": from_plain}


def connect_ranks(rank, size, address, port):
    """In rank 0, waits at the master's address until all other ranks have sent their ranks. In
    another rank, sends its rank there as soon as rank 0 listens."""
    if rank == 0:
        heard = {0}
        with socket.create_server(("", port), backlog=size) as server:
            server.settimeout(LIMIT_S)
            while len(heard) < size:
                peer, _ = server.accept()
                with peer:
                    peer.settimeout(LIMIT_S)
                    heard.add(int(peer.makefile().readline()))
        require(heard == set(range(size)), "rank 0 has heard from", heard,
                "instead of the ranks 0 to", size - 1)
        return
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((address, port), timeout=LIMIT_S) as peer:
                peer.sendall(f"{rank}\n".encode())
            return
        # The program of rank 0 may not listen yet.
        except ConnectionRefusedError:
            time.sleep(0.1)
    sys.exit(f"verify_preset: rank {rank} cannot reach {address}:{port}")


def check_one_rank(folder, preset):
    rank, size, address, port, more = READERS[preset]()
    require(rank == env_number("DLRUN_RANK") and size == env_number("DLRUN_WORLD_SIZE"),
            "rank or size is not the agent's")
    for name in ("DLRUN_SECRET", "DLRUN_LEAD"):
        require(name not in os.environ, name, "reached the program")
    connect_ranks(rank, size, address, port)
    report = {"rank": rank, "size": size, "master": f"{address}:{port}",
              "host": socket.gethostname(),
              "node_rank": env_number("DLRUN_NODE_RANK"),
              "local_rank": env_number("DLRUN_LOCAL_RANK"),
              "local_size": env_number("DLRUN_LOCAL_WORLD_SIZE"),
              "cuda": os.environ.get("CUDA_VISIBLE_DEVICES"),
              "slurm_gpus": os.environ.get("SLURM_STEP_GPUS"), **more}
    pathlib.Path(folder, f"{rank}.json").write_text(json.dumps(report))
    print(f"rank {rank} of {size} reached {address}:{port}")


def check_all_ranks(folder, preset, size):
    reports = [json.loads(path.read_text()) for path in pathlib.Path(folder).glob("*.json")]
    reports.sort(key=lambda report: report["rank"])
    require([report["rank"] for report in reports] == list(range(int(size))),
            "the ranks are not numbered from 0 on without a gap:",
            [report["rank"] for report in reports])
    for shared in ("size", "master", "cluster", "nproc_per_node"):
        require(len({json.dumps(report.get(shared)) for report in reports}) == 1,
                "ranks disagree about", shared)
    nodes = {}
    for report in reports:
        require(nodes.setdefault(report["node_rank"], report["host"]) == report["host"],
                "a node rank with two hosts")
    for report in reports:
        ranks_there = sum(other["node_rank"] == report["node_rank"] for other in reports)
        require(report["local_size"] == ranks_there,
                "rank", report["rank"], "reports the local size", report["local_size"],
                "but its node has", ranks_there, "ranks")
    rank_pairs = {(report["node_rank"], report["local_rank"]) for report in reports}
    require(len(rank_pairs) == len(reports), "two ranks have the same node rank and local rank")
    if preset == "tensorflow":
        tasks = sorted((report["task"]["type"], report["task"]["index"]) for report in reports)
        require(len(set(tasks)) == len(tasks), "two ranks are the same task")
        counts = {}
        for kind, index in tasks:
            counts[kind] = counts.get(kind, 0) + 1
            require(index < int(size), "the index of a task is not below the number of ranks")
        require(all(len(reports[0]["cluster"][kind]) == count for kind, count in counts.items()
                    if kind != "evaluator"),
                "the cluster and the ranks have different numbers of tasks")
        require("evaluator" not in reports[0]["cluster"], "the evaluator is in the cluster")
        print(" ".join(f"{kind}={count}" for kind, count in sorted(counts.items())))
    print(f"{len(reports)} ranks on {len(nodes)} nodes agree")


if __name__ == "__main__":
    {"rank": check_one_rank, "all": check_all_ranks}[sys.argv[1]](
        *(sys.argv[2:4] if sys.argv[1] == "rank" else sys.argv[2:]))
