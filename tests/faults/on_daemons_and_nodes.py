"""Faults of the testbed itself: daemons are killed, ended or paused, nodes are lost, and links are
unplugged. Only one job uses the testbed during such a fault.
"""

import dataclasses
import os
import pathlib
import signal
import time
from collections.abc import Callable

from kinds import EMPTY_RESTART_LIST, Injected, Kind, Scene, Truth, causes, wait_while_running
from testbed import wait_for

# Each of the last 20 steps of the plain program takes at least this long, so that the job still
# runs when Slurm declares a node lost, after 10 to 30 s.
SLOW_MS = 2000
NOTICE_LIMIT_S = 90.0  # time limit for the run to notice the loss of a node and to continue


def _target(scene: Scene, daemon: str) -> str:
    """Returns the daemon as an argument of tests/testbed/fault, where a node stands for its
    slurmd."""
    return scene.node if daemon == "slurmd" else daemon


def restart(daemon: str, how: str) -> Callable[[Scene], Injected]:
    """Returns a function that ends the daemon, and starts it again after up to 3 s. how: "kill"
    (KILL) or "stop" (TERM)."""

    def inject(scene: Scene) -> Injected:
        target, length_s = _target(scene, daemon), scene.generator.uniform(0.1, 3.0)
        injected = Injected(
            rank=scene.rank,
            node=scene.node,
            words=f"{daemon} ({target}): {how}, started again after {length_s:.1f} s",
        )
        scene.testbed.fault(how, target)
        wait_while_running(scene.job, length_s)
        scene.testbed.command("up", "--again")
        return injected

    return inject


def pause(daemon: str, range_s: tuple[float, float]) -> Callable[[Scene], Injected]:
    def inject(scene: Scene) -> Injected:
        target, length_s = _target(scene, daemon), scene.generator.uniform(*range_s)
        injected = Injected(
            rank=scene.rank,
            node=scene.node,
            words=f"{daemon} ({target}) is paused for {length_s:.1f} s",
        )
        scene.testbed.fault("pause", target)
        time.sleep(length_s)  # The pause has its full length, even if the run ends meanwhile.
        scene.testbed.fault("resume", target)
        return injected

    return inject


def unplug(range_s: tuple[float, float]) -> Callable[[Scene], Injected]:
    def inject(scene: Scene) -> Injected:
        length_s = scene.generator.uniform(*range_s)
        injected = Injected(
            rank=scene.rank,
            node=scene.node,
            words=f"{scene.node} is unplugged for {length_s:.1f} s",
        )
        scene.testbed.fault("unplug", scene.node)
        time.sleep(length_s)
        scene.testbed.fault("plug", scene.node)
        return injected

    return inject


def _has_started_again_or_ended(scene: Scene) -> bool:
    return scene.job.has_event("started", 1) or scene.job.has_ended()


def unplug_until(until_restart: bool) -> Callable[[Scene], Injected]:
    """Returns a function that unplugs a node, and plugs it in again when the run has ended, or
    after NOTICE_LIMIT_S. until_restart: also when the run has started again on other nodes. If the
    run's lead is on the unplugged node, lead reports that the other nodes no longer answer, so the
    run may blame any rank or node."""

    def inject(scene: Scene) -> Injected:
        until = "goes on" if until_restart else "has ended"
        words = f"{scene.node} is unplugged until the run {until}"
        injected = Injected(rank=scene.rank, node=scene.node, words=words)
        lead = scene.processes.known_lead()
        if lead.node == scene.node:
            injected.truth = dataclasses.replace(LOST, blames="anybody")
            injected.words += ", lead is there"
        scene.testbed.fault("unplug", scene.node)
        wait_for(
            lambda: (
                _has_started_again_or_ended(scene) if until_restart else scene.job.has_ended()
            ),
            NOTICE_LIMIT_S,
        )
        scene.testbed.fault("plug", scene.node)
        return injected

    return inject


def _pids_of_node(cgroups: pathlib.Path, node: str) -> list[int]:
    pids = []
    for file in (cgroups / node).rglob("cgroup.procs"):
        try:
            pids += [int(pid) for pid in file.read_text().split()]
        except OSError:
            pass
    return pids


def lose_node(scene: Scene) -> Injected:
    """Takes the node off the network and kills its slurmd and all its other processes, like a power
    failure. Plugs the node in again when the run has restarted or ended, or after
    NOTICE_LIMIT_S."""
    injected = Injected(
        rank=scene.rank, node=scene.node, words=f"all processes of {scene.node} are killed"
    )
    # The node loses its network first, so that no process can report another's end.
    scene.testbed.fault("unplug", scene.node)
    while pids := _pids_of_node(scene.testbed.cgroups, scene.node):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)
    wait_for(lambda: _has_started_again_or_ended(scene), NOTICE_LIMIT_S)
    scene.testbed.fault("plug", scene.node)
    return injected


UNHARMED = Truth(causes=causes(EMPTY_RESTART_LIST), blames="nobody")
# A killed controller forgets all changes since its last save; it saves every few seconds. The nodes
# then kill a forgotten job immediately, and dlrun can only report that the job is gone. If the
# controller has forgotten only the start of a job, the job is pending again and starts a second
# time. This start fails on the nodes where the job runs. The controller then holds the job, and
# dlrun reports this.
FORGOTTEN = Truth(
    causes=causes(EMPTY_RESTART_LIST),
    blames="nobody",
    states=frozenset({"completed", "unknown", "pending"}),
    details=("Slurm no longer knows", "ended with 0", "`scontrol release"),
    needs_resubmission=True,
)
LOST = Truth(causes=causes(("node_failure",)), blames="node")
# The slurmstepd of a node stays until the controller, which was away or could not be reached,
# answers again; dlrun has no influence on this time.
SLURM_CLEANUP_LIMIT_S = 60.0

KINDS = (
    Kind("kill slurmd, start it again", restart("slurmd", "kill"), UNHARMED, lane="cluster"),
    Kind("restart slurmd", restart("slurmd", "stop"), UNHARMED, lane="cluster"),
    Kind("pause slurmd", pause("slurmd", (0.3, 4.0)), UNHARMED, lane="cluster"),
    Kind(
        "kill slurmctld, start it again",
        restart("slurmctld", "kill"),
        FORGOTTEN,
        lane="cluster",
        leftover_limit_s=SLURM_CLEANUP_LIMIT_S,
    ),
    Kind(
        "restart slurmctld",
        restart("slurmctld", "stop"),
        UNHARMED,
        lane="cluster",
        leftover_limit_s=SLURM_CLEANUP_LIMIT_S,
    ),
    Kind("pause slurmctld", pause("slurmctld", (0.3, 6.0)), UNHARMED, lane="cluster"),
    Kind("kill munged, start it again", restart("munged", "kill"), UNHARMED, lane="cluster"),
    Kind("pause munged", pause("munged", (0.3, 4.0)), UNHARMED, lane="cluster"),
    Kind("unplug a node for a moment", unplug((0.2, 2.5)), UNHARMED, lane="cluster"),
    Kind(
        "unplug a node until the run has ended",
        unplug_until(until_restart=False),
        LOST,
        jobs=("plain",),
        lane="cluster",
        weight=1,
        slow_ms=SLOW_MS,
        is_long=True,
        leftover_limit_s=SLURM_CLEANUP_LIMIT_S,
        end_limit_s=150,
    ),
    Kind(
        "unplug a node until the run goes on",
        unplug_until(until_restart=True),
        LOST,
        jobs=("plain",),
        lane="cluster",
        weight=1,
        slow_ms=SLOW_MS,
        is_long=True,
        leftover_limit_s=SLURM_CLEANUP_LIMIT_S,
        end_limit_s=150,
    ),
    Kind(
        "lose a node",
        lose_node,
        LOST,
        jobs=("plain",),
        lane="cluster",
        weight=1,
        slow_ms=SLOW_MS,
        is_long=True,
        end_limit_s=150,
    ),
)
