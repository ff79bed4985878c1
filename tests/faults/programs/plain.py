"""A user's program for the fault campaign: each rank computes a chain of hashes, saves it, and
resumes from it.

usage: plain.py FOLDER STEPS STEP_MS SLOW_MS

Every start appends the line `ATTEMPT RANK PID NODE alone` to FOLDER/starts, with OVERLAP in place
of alone if another program of the rank still runs. Each step takes at least STEP_MS. The state of
the chain after a number of steps does not depend on restarts, so FOLDER/final-RANK holds the same
bits after any number of restarts. Rank 0 reports its progress (DLRUN_PROGRESS). In the first start
of a rank, each step of the last quarter takes at least SLOW_MS, so that the program still runs when
a fault is noticed late.
"""

import fcntl
import hashlib
import json
import os
import sys
import time

EVERY = 5  # steps between two saved states


def save(path, step, state):
    with open(path + ".new", "w") as file:
        json.dump({"step": step, "state": state}, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".new", path)


def load(path):
    try:
        with open(path) as file:
            saved = json.load(file)
        return saved["step"], saved["state"]
    except FileNotFoundError:
        return 0, ""


def main():
    folder, steps, step_s, slow_s = (
        sys.argv[1],
        int(sys.argv[2]),
        int(sys.argv[3]) / 1000,
        int(sys.argv[4]) / 1000,
    )
    rank, attempt = os.environ["DLRUN_RANK"], os.environ["DLRUN_ATTEMPT"]
    lock_file = open(
        f"{folder}/alone-{rank}", "w"
    )  # The lock is held while this process lives, so that two programs of one rank are noticed.
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_alone = True
    except OSError:
        is_alone = False
    with open(f"{folder}/starts", "a") as file:
        file.write(
            f"{attempt} {rank} {os.getpid()} {os.uname().nodename} "
            f"{'alone' if is_alone else 'OVERLAP'}\n"
        )
    if os.path.exists(f"{folder}/started-{rank}"):
        slow_s = 0
    open(f"{folder}/started-{rank}", "w").close()
    progress = os.environ.get("DLRUN_PROGRESS")
    done, state = load(f"{folder}/state-{rank}")
    for step in range(done + 1, steps + 1):
        state = hashlib.sha256(f"{state} {rank} {step}".encode()).hexdigest()
        time.sleep(max(step_s, slow_s if step > steps * 3 // 4 else 0))
        print(f"step {step}", flush=True)
        if step % EVERY == 0:
            save(f"{folder}/state-{rank}", step, state)
        if progress:
            with open(progress, "w") as file:
                json.dump({"step": step, "steps": steps}, file)
    save(f"{folder}/final-{rank}", steps, state)
    if progress:
        with open(progress, "w") as file:
            json.dump({"final": True, "state": state}, file)


main()
