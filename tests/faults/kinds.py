"""The kinds of faults: where each may happen, what does it, and what may truly be said of it
afterwards."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import processes
from jobs import Job
from testbed import Testbed, wait_for

ALL = ("trainer-shm", "trainer-gloo", "plain", "torch")
CHEAP = ("trainer-shm", "trainer-gloo", "plain")  # torch takes seconds of a processor to start
TRAINERS = ("trainer-shm", "trainer-gloo")

NONE: tuple[str, ...] = ()

# For processes of a run that has ended to be gone: its agents' 2 s, and Slurm's KillWait of 5 s.
LEFTOVER_S = 8.0


@dataclass(frozen=True)
class Truth:
    """What may be said of a fault.

    causes: the restarts' causes, in their order, any of these. blames: who may be named as the
    first that failed: "rank" (the target alone), "node" (a rank of the target's node), "nobody",
    "anybody". ends: the signals and codes that may be named; empty: any. states: of the run at its
    end. details: one of these words is in the run's detail; empty: any. resubmits: the run does not
    come to its end by itself, and does once it is submitted again.
    """

    causes: frozenset[tuple[str, ...]] = frozenset({("failure",)})
    blames: str = "rank"
    ends: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset({"completed"})
    details: tuple[str, ...] = ()
    resubmits: bool = False


def causes(*sequences: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    return frozenset(sequences)


@dataclass
class Scene:
    """One fault about to happen: to this job, on this testbed, with numbers drawn from the plan's
    seed."""

    testbed: Testbed
    job: Job
    rank: int
    draw: random.Random
    found: processes.Processes

    @property
    def node(self) -> str:
        return self.found.programs[self.rank].node


@dataclass
class Injected:
    """What was done: when (seconds of the clock), to whom; truth replaces the kind's where the
    moment decides about it."""

    at: float = field(default_factory=time.time)
    rank: int | None = None
    node: str = ""
    words: str = ""
    landed: bool = True
    truth: Truth | None = None


@dataclass(frozen=True)
class Kind:
    """lane: "job" where it concerns its job alone, "cluster" where all jobs of the testbed.
    submits: the fault happens while it is submitted. early: it happens when the attempt has
    started, before its ranks have joined. disk: what lies on a small disk ("run", "checkpoints").
    resources, causes: more of the spec's resources, and another retry.on. slow_ms: of the plain
    program's last steps, so that the job still runs when the fault is noticed. is_long: it takes
    the better part of a minute. leftover_s: for its processes to go after its end. bound_s: from
    the fault to the run's end, with a restart.
    """

    name: str
    inject: Callable[[Scene], Injected]
    truth: Truth
    jobs: tuple[str, ...] = CHEAP
    lane: str = "job"
    weight: int = 2
    bound_s: float = 60
    early: bool = False
    disk: str = ""
    resources: str = ""
    causes: str = ""
    slow_ms: int = 0
    is_long: bool = False
    leftover_s: float = LEFTOVER_S
    submit: Callable[[Job, random.Random], str] | None = None


def wait_while(job: Job, seconds: float) -> bool:
    """Waits, unless the run ends before; False then."""
    return not wait_for(job.has_ended, seconds)


def attempt_has_ended(job: Job) -> bool:
    return job.has_event("attempt_end")
