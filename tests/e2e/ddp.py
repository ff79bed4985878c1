"""Compares DistributedDataParallel over gloo with the same training in one process, for torch.bats.

usage: ddp.py [BARRIER COUNT]

With BARRIER, a folder, every rank waits at two barriers: before the process group is made, and
while the group is in use. A rank waits until COUNT ranks, of all jobs that run at the same time,
have reached the barrier.
"""

import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

BATCH, STEPS, LIMIT_S = 4, 5, 240


def wait_at_barrier(name):
    if len(sys.argv) < 3:
        return
    folder, count = pathlib.Path(sys.argv[1], name), int(sys.argv[2])
    folder.mkdir(exist_ok=True)
    (folder / f"{os.environ['SLURM_JOB_ID']}.{os.environ['RANK']}").touch()
    deadline = time.monotonic() + LIMIT_S
    while len(list(folder.iterdir())) < count:
        assert time.monotonic() < deadline, (
            f"only {len(list(folder.iterdir()))} of {count} ranks came to {name}")
        time.sleep(0.2)


def make_model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(10, 8), torch.nn.Tanh(),
                               torch.nn.Linear(8, 1)).double()


def train(net, rows):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(STEPS):
        torch.manual_seed(100 + step)
        inputs = torch.randn(dist.get_world_size() * BATCH, 10).double()
        targets = inputs.sum(dim=1, keepdim=True)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(inputs[rows]), targets[rows]).backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in net.parameters()])


torch.set_num_threads(1)
wait_at_barrier("before")
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
assert (rank, size) == (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
wait_at_barrier("together")
mine = train(DistributedDataParallel(make_model()), slice(rank * BATCH, (rank + 1) * BATCH))
alone = train(make_model(), slice(0, size * BATCH))
# All ranks have equally many rows, so the mean of the ranks' gradients is the gradient over all
# rows. Only the order of the sums differs, and the sums are in float64.
assert torch.allclose(mine, alone, rtol=1e-9, atol=1e-12), (mine - alone).abs().max()
parameters_of_ranks = [torch.empty_like(mine) for _ in range(size)]
dist.all_gather(parameters_of_ranks, mine)
assert all(torch.equal(mine, other) for other in parameters_of_ranks), (
    "ranks ended with different parameters")
print(f"ddp: rank {rank} of {size}: equal to training alone", flush=True)
dist.barrier()
dist.destroy_process_group()
