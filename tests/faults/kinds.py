"""The types that describe a kind of fault: its jobs, the function that injects it, and the
statements about the run that are true afterwards. all_kinds.py lists the kinds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from jobs import Job
from processes import Processes
from testbed import Testbed, wait_for

ALL_JOBS = ("trainer-shm", "trainer-gloo", "plain", "torch")
CHEAP_JOBS = ("trainer-shm", "trainer-gloo", "plain")  # torch needs seconds to start.
TRAINER_JOBS = ("trainer-shm", "trainer-gloo")

EMPTY_RESTART_LIST: tuple[str, ...] = ()  # for Truth.causes: a run whose list of restarts is empty

# Seconds until the processes of an ended run must be gone: 2 s for the agents, 5 s for Slurm's
# KillWait, and 1 s more.
LEFTOVER_LIMIT_S = 8.0


@dataclass(frozen=True)
class Truth:
    """The true statements about a run after a fault.

    causes: the alternatives; each is the sequence of causes of the run's restarts.
    blames: the rank that the run may name as the first to fail: "rank" (only the target), "node" (a
        rank of the target's node, or the node itself as lost), "nobody" (none), "anybody" (any).
    codes: the signals and exit codes that the run may report; empty: any.
    states: the possible final states of the run.
    details: words of which the run's detail must contain one; empty: any detail.
    needs_resubmission: the run finishes only after it is submitted again."""

    causes: frozenset[tuple[str, ...]] = frozenset({("failure",)})
    blames: str = "rank"
    codes: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset({"completed"})
    details: tuple[str, ...] = ()
    needs_resubmission: bool = False


def causes(*sequences: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    return frozenset(sequences)


@dataclass
class Scene:
    """One fault about to be injected: its testbed, its job, the target rank, a generator of random
    numbers that was created from Planned.seed, and the job's processes."""

    testbed: Testbed
    job: Job
    rank: int
    generator: random.Random
    processes: Processes

    @property
    def node(self) -> str:
        return self.processes.programs[self.rank].node


@dataclass
class Injected:
    """The injected fault: its time (seconds since the epoch), its target, and its description
    (words).

    landed: False if the fault did not happen, for example because its target had ended before.
    truth: replaces the kind's truth if the moment of the fault decides the outcome."""

    time_s: float = field(default_factory=time.time)
    rank: int | None = None
    node: str = ""
    words: str = ""
    landed: bool = True
    truth: Truth | None = None


@dataclass(frozen=True)
class Kind:
    """One kind of fault.

    jobs: the types of jobs that may get the fault (jobs.TYPES).
    lane: "job" if it affects only its job, "cluster" if it affects all jobs of the testbed.
    weight: how often the plan draws this kind, relative to the others.
    submit: for a fault during the submission: submits the job with the fault and returns the
        description of the fault. inject is then not called.
    is_before_join: the fault happens after the attempt has started, before its ranks have joined.
    folder_on_small_disk: "run" (Job.runs), "checkpoints" or "" (none).
    resources, retry_on: additional text of the spec's resources, and the value of retry.on.
    slow_ms: the least duration of each of the plain program's last steps, so that the job still
        runs when the fault is noticed.
    is_long: the fault takes almost a minute or more.
    leftover_limit_s: the time limit from the run's end until its processes have disappeared.
    end_limit_s: the time limit from the fault to the run's end, including restarts."""

    name: str
    inject: Callable[[Scene], Injected]
    truth: Truth
    jobs: tuple[str, ...] = CHEAP_JOBS
    lane: str = "job"
    weight: int = 2
    end_limit_s: float = 60
    is_before_join: bool = False
    folder_on_small_disk: str = ""
    resources: str = ""
    retry_on: str = ""
    slow_ms: int = 0
    is_long: bool = False
    leftover_limit_s: float = LEFTOVER_LIMIT_S
    submit: Callable[[Job, random.Random], str] | None = None


def wait_while_running(job: Job, seconds: float) -> bool:
    """Waits for `seconds`. Returns False as soon as the run has ended."""
    return not wait_for(job.has_ended, seconds)


def attempt_has_ended(job: Job) -> bool:
    return job.has_event("attempt_end")
