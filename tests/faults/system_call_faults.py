"""Faults in which system calls fail, are interrupted, or are slow. strace injects them."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable

from kinds import (
    CHEAP_JOBS,
    EMPTY_RESTART_LIST,
    TRAINER_JOBS,
    Injected,
    Kind,
    Scene,
    Truth,
    causes,
    wait_while_running,
)
from processes import Process
from testbed import wait_for

FAILING_S = 1.5  # the time during which calls fail, unless a single call fails
HIT_LIMIT_S = 8.0  # the time limit for the process to make one of the calls

# EINTR hits only calls for which Linux may return it. futex is not among them, because FUTEX_WAKE
# never returns EINTR and glibc would abort. The other errors hit only calls on files and their
# descriptors, not the calls with which processes communicate.
CALLS = {
    "EIO": "fsync,fdatasync,pwrite64,rename,renameat,renameat2,ftruncate",
    "ENOSPC": "fsync,fdatasync,pwrite64,fallocate,ftruncate,mkdir,mkdirat",
    "ESTALE": "openat,rename,renameat,renameat2,newfstatat,statx,getdents64",
    "EINTR": "epoll_wait,epoll_pwait,poll,ppoll,read,write,recvfrom,sendto,accept4",
    "delay": "fsync,fdatasync,openat,write,rename,renameat,renameat2",
}
# An agent writes a single file, its rank's log.
CALLS_OF_AGENT = CALLS | {"EIO": "write", "ENOSPC": "write", "ESTALE": "write", "delay": "write"}


def _suspend(pid: int) -> bool:
    """Suspends a process with SIGSTOP, and waits for at most 5 s until all its threads are
    suspended. Returns False if the process has ended."""

    def are_suspended() -> bool:
        states = []
        for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
            with contextlib.suppress(OSError):
                states.append(stat.read_text().rpartition(")")[2].split()[0])
        return all(state in "tTZX" for state in states)

    try:
        os.kill(pid, signal.SIGSTOP)
    except ProcessLookupError:
        return False
    # A thread also has the state t for a moment while strace looks at one of its calls. The process
    # therefore counts as suspended only after three looks in a row.
    looks_in_a_row = 0

    def stay_suspended() -> bool:
        nonlocal looks_in_a_row
        looks_in_a_row = looks_in_a_row + 1 if are_suspended() else 0
        return looks_in_a_row >= 3

    wait_for(stay_suspended, 5)
    return True


class Tracer:
    """Runs strace on one process and its threads until end() is called."""

    def __init__(
        self, process: Process, calls: str, how: str, only_file: pathlib.Path | None
    ) -> None:
        self.out = tempfile.NamedTemporaryFile("r", prefix="dlrun-strace-")
        words = ["strace", "-f", "-qq", "-o", self.out.name, "-p", str(process.pid)]
        words += ["-P", str(only_file)] if only_file else []
        words += ["-e", f"trace={calls}", "-e", f"inject={calls}:{how}"]
        null = subprocess.DEVNULL
        self.traced_pid = process.pid
        self.strace = subprocess.Popen(words, stdin=null, stdout=null, stderr=null)

    def hits(self) -> list[str]:
        """Returns the name of each affected call so far; a name can occur several times."""
        text = pathlib.Path(self.out.name).read_text(errors="replace")
        return [
            match[1]
            for line in text.splitlines()
            if ("(INJECTED)" in line or "(DELAYED)" in line)
            and (match := re.match(r"\d+ +(?:<\.\.\. )?(\w+)", line))
        ]

    def end(self) -> list[str]:
        """Ends strace. Returns hits()."""
        # strace replaces a call's number when the call begins, and its result when it ends. If
        # strace detached in between, the call would fail with ENOSYS. A suspended process is in no
        # call.
        is_suspended = _suspend(self.traced_pid)
        self.strace.send_signal(signal.SIGINT)
        try:
            self.strace.wait(10)
        except subprocess.TimeoutExpired:
            self.strace.kill()
            self.strace.wait()
        if is_suspended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.traced_pid, signal.SIGCONT)
        found = self.hits()
        self.out.close()
        return found


def strace_injector(role: str, effect: str) -> Callable[[Scene], Injected]:
    """Returns the function that injects the fault into a process: calls fail (a single call, or all
    calls for FAILING_S), are interrupted repeatedly, or take 20 ms to 1 s longer."""

    def inject(scene: Scene) -> Injected:
        if role == "trainer" and effect != "EINTR":
            scene.rank = 0  # the rank that writes
        process = {
            "lead": scene.processes.known_lead(),
            "agent": scene.processes.agents[scene.rank],
            "trainer": scene.processes.programs[scene.rank],
        }[role]
        only_file = None
        if role == "agent" and effect != "EINTR":
            only_file = scene.job.run / "logs" / "attempt-0" / f"rank-{scene.rank:04}.log"
        how = f"error={effect}"
        hits_once = effect not in ("delay", "EINTR") and scene.generator.random() < 0.5
        if hits_once:
            how += f":when={scene.generator.randrange(1, 4)}"
        elif effect == "delay":
            how = f"delay_enter={scene.generator.randrange(20_000, 1_000_000)}"
        elif effect == "EINTR":
            how += f":when={scene.generator.randrange(1, 4)}+{scene.generator.randrange(3, 9)}"
        injected = Injected(rank=scene.rank, node=scene.node, words=f"{role} {process.pid}: {how}")
        calls = (CALLS_OF_AGENT if role == "agent" else CALLS)[effect]
        tracer = Tracer(process, calls, how, only_file)
        wait_for(
            lambda: tracer.hits() or scene.job.has_ended() or tracer.strace.poll() is not None,
            HIT_LIMIT_S,
        )
        if not hits_once:
            wait_while_running(scene.job, FAILING_S)
        hits = tracer.end()
        injected.landed = bool(hits)
        injected.words += f" in {', '.join(sorted(set(hits)))} ({len(hits)} times)"
        return injected

    return inject


UNHARMED = Truth(causes=causes(EMPTY_RESTART_LIST), blames="nobody")
FAILS = Truth(causes=causes(("failure",), EMPTY_RESTART_LIST), blames="rank")


def _kind(role: str, effect: str) -> Kind:
    # The trainer needs its files. Lead and the agents write only the record and copies of output,
    # and the run does not depend on these files.
    truth = FAILS if role == "trainer" and effect not in ("delay", "EINTR") else UNHARMED
    jobs = TRAINER_JOBS if role == "trainer" else CHEAP_JOBS
    if role == "agent" and effect != "EINTR":
        jobs = ("plain",)  # Every rank of this job prints.
    return Kind(f"{effect} in {role}", strace_injector(role, effect), truth, jobs=jobs, weight=1)


KINDS = tuple(_kind(role, effect) for role in ("lead", "agent", "trainer") for effect in CALLS)
