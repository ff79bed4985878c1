"""Faults of processes: they are killed, suspended for good, or suspended for a while."""

import signal
from collections.abc import Callable

import processes
from kinds import (
    ALL_JOBS,
    CHEAP_JOBS,
    EMPTY_RESTART_LIST,
    Injected,
    Kind,
    Scene,
    Truth,
    causes,
    wait_while_running,
)

# The range of seconds of a short pause, which nothing notices, and of a long pause, which is longer
# than lead's lease.
SHORT_S, LONG_S = (0.3, 2.0), (14.0, 16.0)


def victim(scene: Scene, role: str) -> processes.Process | None:
    """Returns the process with this role that belongs to the target rank, to its node (slurmstepd),
    or to the whole run (lead, srun); None if it was not found."""
    found = scene.processes
    return {
        "program": found.programs.get(scene.rank),
        "agent": found.agents.get(scene.rank),
        "guard": found.guards.get(scene.rank),
        "lead": found.lead,
        "srun": found.srun,
        "slurmstepd": found.stepds.get(scene.node),
    }[role]


def kill(role: str) -> Callable[[Scene], Injected]:
    """Returns a function that kills the process with SIGKILL."""

    def inject(scene: Scene) -> Injected:
        process = victim(scene, role)
        injected = Injected(
            rank=scene.rank,
            node=scene.node,
            words=f"SIGKILL of {role} {process.pid if process else '?'}",
        )
        injected.landed = process is not None and processes.send(process, signal.SIGKILL)
        return injected

    return inject


def suspend(role: str) -> Callable[[Scene], Injected]:
    """Returns a function that suspends the process with SIGSTOP and never resumes it. A process
    that is still suspended after the end of the run counts as a leftover."""

    def inject(scene: Scene) -> Injected:
        process = victim(scene, role)
        injected = Injected(
            rank=scene.rank,
            node=scene.node,
            words=f"SIGSTOP of {role} {process.pid if process else '?'}",
        )
        injected.landed = process is not None and processes.send(process, signal.SIGSTOP)
        return injected

    return inject


def pause(role: str, range_s: tuple[float, float]) -> Callable[[Scene], Injected]:
    """Returns a function that suspends the process with SIGSTOP for a time in this range of
    seconds. If the run ends earlier, the function then resumes the process."""

    def inject(scene: Scene) -> Injected:
        process = victim(scene, role)
        length_s = scene.generator.uniform(*range_s)
        injected = Injected(
            rank=scene.rank,
            node=scene.node,
            words=f"SIGSTOP of {role} {process.pid if process else '?'} for {length_s:.1f} s",
        )
        injected.landed = process is not None and processes.send(process, signal.SIGSTOP)
        if process and injected.landed:
            wait_while_running(scene.job, length_s)
            processes.send(process, signal.SIGCONT)
        return injected

    return inject


# Seconds until the processes must be gone if all ranks have ended with 0, but Slurm does not end
# their step: lead waits for Slurm (kStepEndLimit, 90 s) and then ends the step itself.
STEP_END_LIMIT_S = 100.0

KILLED_CODES = frozenset({"SIGKILL", "137"})
UNHARMED = Truth(causes=causes(EMPTY_RESTART_LIST), blames="nobody")

KINDS = (
    Kind("kill program", kill("program"), Truth(codes=KILLED_CODES), jobs=ALL_JOBS, weight=6),
    Kind("kill agent", kill("agent"), Truth(codes=KILLED_CODES), jobs=ALL_JOBS, weight=4),
    Kind("kill guard", kill("guard"), Truth(codes=KILLED_CODES), weight=4),
    # Without lead, no process can restart the run. Slurm reports that the job failed.
    Kind(
        "kill lead",
        kill("lead"),
        Truth(
            causes=causes(EMPTY_RESTART_LIST),
            blames="nobody",
            states=frozenset({"failed"}),
            needs_resubmission=True,
        ),
        weight=3,
    ),
    Kind("kill srun", kill("srun"), Truth(blames="nobody"), weight=3),
    Kind(
        "kill slurmstepd",
        kill("slurmstepd"),
        # The ranks of this slurmstepd continue, and may complete.
        Truth(causes=causes(("failure",), ("node_failure",), EMPTY_RESTART_LIST), blames="node"),
        weight=3,
        is_long=True,
        leftover_limit_s=STEP_END_LIMIT_S,
    ),
    Kind(
        "stop program",
        suspend("program"),
        Truth(causes=causes(("hang",)), codes=frozenset({"79"})),
        jobs=CHEAP_JOBS,
        weight=4,
    ),
    Kind(
        "stop agent",
        suspend("agent"),
        Truth(causes=causes(("hang",), ("node_failure",), ("failure",))),
        weight=3,
        end_limit_s=90,
        is_long=True,
    ),
    Kind(
        "stop guard",
        suspend("guard"),
        UNHARMED,
        is_long=True,
        leftover_limit_s=STEP_END_LIMIT_S,
    ),
    Kind("pause lead", pause("lead", SHORT_S), UNHARMED, weight=2),
    Kind("pause srun", pause("srun", SHORT_S), UNHARMED, weight=2),
    Kind("pause agent", pause("agent", SHORT_S), UNHARMED, weight=2),
    Kind("pause slurmstepd", pause("slurmstepd", SHORT_S), UNHARMED, weight=2),
    Kind(
        "pause lead beyond its lease",
        pause("lead", LONG_S),
        Truth(causes=causes(EMPTY_RESTART_LIST, ("failure",)), blames="nobody"),
        weight=2,
        end_limit_s=90,
        slow_ms=1500,
    ),
)
