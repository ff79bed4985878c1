"""A PyTorch program for the fault campaign: DistributedDataParallel over gloo. It saves its state
every few steps and resumes to the same bits.

usage: torch_ddp.py FOLDER STEPS STEP_MS [IGNORED]

Every start appends the line `ATTEMPT RANK PID NODE alone` to FOLDER/starts. (In the lines of
plain.py the last word says whether another program of the rank still runs.) Each step sleeps for
STEP_MS. IGNORED exists because plain.py gets SLOW_MS as its fourth argument. Rank 0 saves
FOLDER/saved.pt, reports its progress (DLRUN_PROGRESS), and at the end reports the hash of the
parameters. Every rank writes this hash to FOLDER/final-RANK.
"""

import hashlib
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

BATCH = 4  # samples per rank and step
EVERY = 5  # steps between two saved states


def write(path, text):
    with open(path + ".new", "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".new", path)


def report(**what):
    if path := os.environ.get("DLRUN_PROGRESS"):
        with open(path, "w") as file:
            json.dump(what, file)


def main():
    folder, steps, step_s = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) / 1000
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    with open(f"{folder}/starts", "a") as file:
        file.write(
            f"{os.environ['DLRUN_ATTEMPT']} {rank} {os.getpid()} {os.uname().nodename} alone\n"
        )
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    net = torch.nn.Sequential(
        torch.nn.Linear(10, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
    ).double()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    saved, done = f"{folder}/saved.pt", 0
    if os.path.exists(saved):
        state = torch.load(saved)
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["step"]
    model = DistributedDataParallel(net)
    for step in range(done + 1, steps + 1):
        inputs = torch.randn(
            size * BATCH, 10, generator=torch.Generator().manual_seed(step)
        ).double()
        mine = slice(rank * BATCH, (rank + 1) * BATCH)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(
            model(inputs[mine]), inputs.sum(dim=1, keepdim=True)[mine]
        ).backward()
        optimizer.step()
        time.sleep(step_s)
        if rank == 0 and step % EVERY == 0:
            torch.save(
                {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step},
                saved + ".new",
            )
            os.rename(saved + ".new", saved)
            report(step=step, steps=steps)
    digest = hashlib.sha256(
        torch.cat([p.detach().flatten() for p in net.parameters()]).numpy().tobytes()
    ).hexdigest()
    write(f"{folder}/final-{rank}", digest)
    report(final=True, parameters=digest)
    dist.barrier()
    dist.destroy_process_group()


main()
