"""Finds the processes of a run by their role: program, agent and guard of each rank, lead, srun,
and the slurmstepd of each node. The guard is the first process of a rank's task; its child is the
rank's agent (runtime/agent/guard.h).
"""

import os
import pathlib
import signal
from dataclasses import dataclass, field

from testbed import Failure


@dataclass(frozen=True)
class Process:
    pid: int
    node: str
    rank: int | None


@dataclass
class Processes:
    """The processes of one run at one moment. The keys of programs, agents and guards are ranks.
    The keys of stepds are nodes: one slurmstepd of the ranks' step runs on each node."""

    programs: dict[int, Process] = field(default_factory=dict)
    agents: dict[int, Process] = field(default_factory=dict)
    guards: dict[int, Process] = field(default_factory=dict)
    stepds: dict[str, Process] = field(default_factory=dict)
    lead: Process | None = None
    srun: Process | None = None
    all: list[tuple[int, str]] = field(
        default_factory=list
    )  # every process of the run, with its name

    def known_lead(self) -> Process:
        if self.lead is None:
            raise Failure("lead is not found")
        return self.lead


@dataclass(frozen=True)
class _Seen:
    """A process as /proc shows it. words: its arguments."""

    pid: int
    parent_pid: int
    name: str
    words: list[str]
    env: dict[str, str]


def _environment(pid: int) -> bytes:
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def stat_of(pid: int) -> tuple[int, str, str]:
    """Returns the parent's process id, and the process's own name and the letter of its state;
    (0, "", "X") if the process is gone."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0, "", "X"
    name = text[text.index("(") + 1 : text.rindex(")")]
    rest = text[text.rindex(")") + 2 :].split()
    return int(rest[1]), name, rest[0]


def _process_with(variable: bytes, pid: int) -> _Seen | None:
    """Returns the process; None if it has ended, or if its environment lacks the variable (as
    NAME=VALUE)."""
    environment = _environment(pid)
    if variable not in environment:
        return None
    parent, name, state = stat_of(pid)
    if state in "ZX":
        return None
    try:
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return None
    env = dict(
        item.split("=", 1)
        for item in environment.decode(errors="replace").split("\0")
        if "=" in item
    )
    return _Seen(pid, parent, name, words, env)


def find(run: pathlib.Path) -> Processes:
    """Finds the processes in /proc that have the run's directory in their environment."""
    variable = b"DLRUN_RUN=" + str(run).encode() + b"\0"
    seen = {
        pid: found
        for entry in os.listdir("/proc")
        if entry.isdigit() and (found := _process_with(variable, pid := int(entry)))
    }
    processes = Processes(all=[(one.pid, one.name) for one in seen.values()])
    for one in seen.values():
        rank = (
            int(one.env["SLURM_PROCID"])
            if one.env.get("SLURM_STEP_ID", "").isdigit() and "SLURM_PROCID" in one.env
            else None
        )
        process = Process(one.pid, one.env.get("SLURMD_NODENAME", ""), rank)
        parent = seen.get(one.parent_pid)
        if one.name == "dlrun-agent" and one.words[1:2] == ["lead"]:
            if parent is None:  # Lead's helpers are child processes of lead.
                processes.lead = process
        elif one.name == "srun" and parent and parent.name == "dlrun-agent":
            processes.srun = process
        elif rank is not None and one.name == "dlrun-agent" and one.words[1:2] == ["rank"]:
            if parent and parent.name == "dlrun-agent":
                processes.agents[rank] = process
            else:
                processes.guards[rank] = process
                if stepd := _stepd(one.parent_pid, process.node):
                    processes.stepds[process.node] = stepd
        elif rank is not None and parent and parent.name == "dlrun-agent":
            processes.programs[rank] = process
    return processes


def _stepd(pid: int, node: str) -> Process | None:
    return Process(pid, node, None) if stat_of(pid)[1] == "slurmstepd" else None


def send(process: Process, number: signal.Signals) -> bool:
    """Sends a signal. Returns False if the process is gone."""
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    return True
