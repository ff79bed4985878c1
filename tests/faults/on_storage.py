"""Faults of storage: full disks and damaged checkpoints."""

import pathlib
import signal
from collections.abc import Callable

import processes
from kinds import (
    CHEAP_JOBS,
    EMPTY_RESTART_LIST,
    TRAINER_JOBS,
    Injected,
    Kind,
    Scene,
    Truth,
    attempt_has_ended,
    causes,
)
from testbed import wait_for


def _fill(file: pathlib.Path) -> None:
    """Writes the file until the disk is full to the last byte."""
    with open(file, "wb", buffering=0) as out:
        for size in (1 << 20, 4096, 1):
            try:
                while out.write(b"\0" * size) == size:
                    pass
            except OSError:
                pass


def fill_disk(scene: Scene) -> Injected:
    """Keeps the small disk of the job full until an attempt has ended, for at most 2 s."""
    disk = (scene.job.given_checkpoints or scene.job.runs).parent
    injected = Injected(rank=0, node=scene.processes.programs[0].node, words=f"{disk} is full")
    _fill(disk / "filler")
    wait_for(lambda: attempt_has_ended(scene.job), 2.0, every_s=0.005)
    (disk / "filler").unlink()
    return injected


def damage_checkpoint(how: str) -> Callable[[Scene], Injected]:
    """Returns a function that kills a rank and damages a file of the newest checkpoint before the
    next attempt reads it. Lead is suspended meanwhile. how: "torn" cuts the file, "flipped" inverts
    one bit. Without a checkpoint that has data, the function only kills the rank."""

    def inject(scene: Scene) -> Injected:
        lead, program = scene.processes.known_lead(), scene.processes.programs[scene.rank]
        injected = Injected(rank=scene.rank, node=scene.node)
        processes.send(lead, signal.SIGSTOP)
        try:
            injected.landed = processes.send(program, signal.SIGKILL)
            wait_for(
                lambda: not any(
                    processes.stat_of(one.pid)[2] not in "ZX"
                    for one in scene.processes.programs.values()
                ),
                5,
            )
            names = scene.job.checkpoint_names()
            if not names:
                injected.words = "SIGKILL of program, before there is a checkpoint"
                return injected
            files = sorted(
                path
                for path in (scene.job.checkpoints / names[-1]).iterdir()
                if path.is_file() and path.stat().st_size > 0
            )
            if not files:
                injected.words = f"SIGKILL of program; {names[-1]} is still empty"
                return injected
            file = scene.generator.choice(files)
            size = file.stat().st_size
            offset = scene.generator.randrange(size)
            with open(file, "r+b") as damaged:
                if how == "torn":
                    damaged.truncate(offset)
                else:
                    damaged.seek(offset)
                    byte = damaged.read(1)[0]
                    damaged.seek(offset)
                    damaged.write(bytes([byte ^ 1 << scene.generator.randrange(8)]))
            injected.words = (
                f"SIGKILL of program; {names[-1]}/{file.name} {how} at byte {offset} of {size}"
            )
        finally:
            processes.send(lead, signal.SIGCONT)
        return injected

    return inject


DISK_FULL = Truth(
    causes=causes(("failure",), ("failure",) * 2, ("failure",) * 3, EMPTY_RESTART_LIST),
    blames="node",
    codes=frozenset({"74"}),
)
KILLED = Truth(codes=frozenset({"SIGKILL", "137"}))

KINDS = (
    Kind(
        "disk full: checkpoints",
        fill_disk,
        DISK_FULL,
        jobs=("trainer-shm", "trainer-gloo"),
        weight=4,
        folder_on_small_disk="checkpoints",
    ),
    Kind(
        "disk full: the run's folder",
        fill_disk,
        DISK_FULL,
        jobs=CHEAP_JOBS,
        weight=3,
        folder_on_small_disk="run",
    ),
    Kind("checkpoint torn", damage_checkpoint("torn"), KILLED, jobs=TRAINER_JOBS, weight=5),
    Kind("checkpoint flipped", damage_checkpoint("flipped"), KILLED, jobs=TRAINER_JOBS, weight=5),
)
