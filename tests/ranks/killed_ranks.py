"""Kills a rank in the middle of training and checks that the run ends as if it were undisturbed.

usage: killed_ranks.py DLRUN [--kills N] [--seed N]

With `retry: {on: [failure]}`, `dlrun run` resumes from the newest checkpoint by itself. Each kill
(SIGKILL) hits a random rank at a random step: the script waits until the checkpoint before that
step is on the disk, and then for the duration of the steps in between. The kills alternate between
the entries of TRAININGS.

Every killed run must restart exactly once, because of a failure, and end with the parameters, the
optimizer's arrays and the result of an undisturbed run. A kill that comes after the run's end is
repeated with another run. By default there are 4 kills, drawn with seed 1. The long test is
--kills 50.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

SAVE_EVERY = 5  # steps between checkpoints
STEPS = 64  # 2 epochs of ceil(1000 / (2 x 16)) steps
LIMIT_S = 250  # the time limit of each wait

SPEC = """\
name: killed
resources: {{nodes: 1, tasks_per_node: {ranks}, time: 10m}}
train:
  data: {{dataset: digits, train_samples: 1000, test_samples: 100}}
  layers: {layers}
  optimizer: {optimizer}
  backend: {backend}
  batch: {batch}
  epochs: 2
  {more}
checkpoint: {{every: {every} steps, keep: 2}}
retry: {{max: 1, on: [failure]}}
"""
CONVOLUTIONS = "[conv2d 8 5 stride 2, relu, dropout 0.25, maxpool 2, batchnorm, dense 10]"
TRAININGS = {
    "adam, shm x 2": {"ranks": 2, "batch": 16, "backend": "shm", "optimizer": "{name: adam}",
                      "layers": CONVOLUTIONS},
    "sgd, gloo x 4": {"ranks": 4, "batch": 8, "backend": "gloo", "optimizer": "{name: sgd}",
                      "layers": CONVOLUTIONS},
    "adamw, sharded, shm x 2": {"ranks": 2, "batch": 16, "backend": "shm",
                                "optimizer": "{name: adamw, state: sharded}",
                                "layers": CONVOLUTIONS},
    "sgd, averaged every 3 steps, shm x 2": {"ranks": 2, "batch": 16, "backend": "shm",
                                             "optimizer": "{name: sgd}",
                                             "layers": CONVOLUTIONS,
                                             "more": "local_steps: 3"},
}


class Run:
    """Starts `dlrun run` in its own folder, with the options of one entry of TRAININGS."""

    def __init__(self, dlrun, folder, training):
        self.dlrun, self.runs = dlrun, folder / "runs"
        folder.mkdir()
        values = {"every": SAVE_EVERY, "more": ""} | TRAININGS[training]
        (folder / "exp.yaml").write_text(SPEC.format(**values))
        job_prefixes = ("DLRUN_", "SLURM_", "OMPI_", "PMI")
        self.env = {key: value for key, value in os.environ.items()
                    if not key.startswith(job_prefixes)}
        self.env |= {"XDG_STATE_HOME": str(folder / "state"),
                     "XDG_CONFIG_HOME": str(folder / "config")}
        self.process = subprocess.Popen([dlrun, "run", "exp.yaml", "--runs", str(folder / "runs"),
                                         "--json"], cwd=folder, env=self.env,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)

    def directory(self):
        """Returns the run directory; None until it exists."""
        found = sorted(self.runs.glob("killed-*"))
        return found[0] if found else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()  # `dlrun run` then ends its ranks.

    def wait_for_end(self):
        """Waits for the run's end. Returns its record and the bytes of its last checkpoint. Ends
        this script if the run fails."""
        out, err = self.process.communicate(timeout=LIMIT_S)
        if self.process.returncode != 0:
            sys.exit(f"dlrun run: exit {self.process.returncode}\n{out}\n{err}")
        record = json.loads(out)
        last = self.directory() / "ckpt" / f"step-{STEPS:08}"
        return (record, {name: (last / name).read_bytes()
                         for name in ("model.safetensors", "optimizer.safetensors")})


def wait_for(condition, run, what):
    """Waits until condition() returns a true value, and returns this value. Returns None if the run
    ends before. Ends this script after LIMIT_S."""
    until = time.monotonic() + LIMIT_S
    while True:
        found = condition()
        if found:
            return found
        if run.process.poll() is not None:
            return None
        if time.monotonic() > until:
            sys.exit(f"{what}: not within {LIMIT_S} s")
        time.sleep(0.004)


def pids_of_ranks(directory, ranks):
    """Returns the process ids of a run's trainers by rank; None until all have started."""
    pids = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "comm").read_text() != "dlrun-trainer\n":
                continue
            variables = dict(entry_text.split("=", 1)
                             for entry_text in (entry / "environ").read_text().split("\0")
                             if "=" in entry_text)
        except OSError:  # The process has ended meanwhile.
            continue
        if variables.get("DLRUN_RUN") == str(directory):
            pids[int(variables["DLRUN_RANK"])] = int(entry.name)
    return pids if len(pids) == ranks else None


def newest_step(directory):
    """Returns the step of the newest complete checkpoint; 0 if there is none."""
    return max((int(path.parent.name[5:])
                for path in (directory / "ckpt").glob("step-*/manifest.json")), default=0)


def kill_one(run, ranks, rank, step, step_s):
    """Kills the rank at about this step. Returns False if the run ended before."""
    directory = wait_for(run.directory, run, "the run directory")
    pids = directory and wait_for(lambda: pids_of_ranks(directory, ranks), run, "the ranks")
    saved_step = step // SAVE_EVERY * SAVE_EVERY
    if not pids or (saved_step > 0
                    and not wait_for(lambda: newest_step(directory) >= saved_step, run,
                                     f"a checkpoint of step {saved_step}")):
        return False
    time.sleep(step % SAVE_EVERY * step_s)
    try:
        os.kill(pids[rank], signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def resumed_at(directory):
    """Returns the step from which the second attempt reports to have resumed; 0 without a
    checkpoint."""
    for line in (directory / "logs" / "attempt-1" / "rank-0000.log").read_text().splitlines():
        if line.startswith("resumed from "):
            return int(line.rsplit(" ", 1)[1])
    return 0


def run_undisturbed(dlrun, folder, training):
    """Runs the training without a kill. Returns the result, the files of the last checkpoint, and
    the seconds per step."""
    with Run(dlrun, folder, training) as run:
        record, arrays = run.wait_for_end()
    assert record["restarts"] == [] and record["result"]["steps"] == STEPS, record
    return record["result"], arrays, record["result"]["seconds"] / STEPS


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("dlrun", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    generator = random.Random(args.seed)
    trainings = list(TRAININGS)
    wrong_run_count, resumed_steps = 0, []
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        undisturbed_runs = {}
        kills = tries = 0
        while kills < args.kills:
            training = trainings[kills % len(trainings)]
            if training not in undisturbed_runs:
                undisturbed_runs[training] = run_undisturbed(
                    args.dlrun, root / f"undisturbed-{len(undisturbed_runs)}", training)
            result, arrays, step_s = undisturbed_runs[training]
            ranks = TRAININGS[training]["ranks"]
            rank, step = generator.randrange(ranks), generator.randrange(1, STEPS)
            tries += 1
            if tries > 3 * args.kills + 5:
                sys.exit(f"only {kills} of {tries - 1} kills hit a rank before the run's end")
            with Run(args.dlrun, root / f"run-{tries}", training) as run:
                was_killed = kill_one(run, ranks, rank, step, step_s)
                record, got = run.wait_for_end()
            if not was_killed or not record["restarts"]:  # The run was faster than the kill.
                continue
            kills += 1
            resumed_step = resumed_at(run.directory())
            same = (got == arrays and all(record["result"][key] == result[key]
                                          for key in ("parameters", "test_accuracy", "test_loss",
                                                      "steps")))
            causes = [restart["cause"] for restart in record["restarts"]]
            resumed_steps.append(resumed_step)
            line = (f"{kills}/{args.kills}  {training}: rank {rank} at step {step}, resumed from "
                    f"step {resumed_step}: {'the same bits' if same else 'OTHER BITS'}")
            if causes != ["failure"]:
                line += f", RESTARTS {causes}, expected one, because of a failure"
            print(line, flush=True)
            wrong_run_count += not same or causes != ["failure"]
    print(f"{args.kills - wrong_run_count} of {args.kills} restarted once and ended with the bits "
          "of an undisturbed run; "
          f"resumed from steps between {min(resumed_steps)} and {max(resumed_steps)} of {STEPS}")
    sys.exit(1 if wrong_run_count else 0)


main()
