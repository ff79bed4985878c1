"""Compares a run's record and `dlrun status --json` with the injected fault, and finds every
statement that is not true.
"""

import glob
import os
import pathlib
from collections import Counter
from datetime import datetime

import processes
from jobs import Job, JsonObject
from kinds import Injected, Truth
from testbed import Testbed, wait_for


def epoch_seconds_of(event: JsonObject) -> float:
    """Returns the time of an event in seconds since the epoch."""
    return datetime.fromisoformat(event["t"].replace("Z", "+00:00")).timestamp()


def bad_ends(events: list[JsonObject]) -> list[JsonObject]:
    """Returns the events that end an attempt with a reason other than `ok`."""
    return [
        event for event in events if event["event"] == "attempt_end" and event["reason"] != "ok"
    ]


def verdict_s(events: list[JsonObject], injected: Injected) -> float | None:
    """Returns the seconds from the fault to the first later event of bad_ends(); None if there is
    no later one."""
    later = [
        epoch_seconds_of(event) - injected.time_s
        for event in bad_ends(events)
        if epoch_seconds_of(event) >= injected.time_s - 0.05
    ]
    return max(0.0, min(later)) if later else None


def _untrue_blame(
    end: JsonObject, injected: Injected, truth: Truth, nodes: dict[int, str]
) -> list[str]:
    """Returns a text for each untrue statement about the first failure. end: the end of an attempt.
    nodes: the nodes of this attempt's ranks."""
    first = end.get("first_failed")
    lost = end.get("lost_nodes", [])
    if lost and truth.blames == "node":
        if lost == [injected.node]:
            return []
        return [f"{', '.join(lost)} lost, expected {injected.node}"]
    if not first:
        return ["no rank is named"] if truth.blames in ("rank", "node") else []
    named = f"rank {first['rank']} on {first['host']} ({first['signal'] or first['code']})"
    if truth.blames == "anybody":
        return []
    if truth.blames == "nobody":
        return [f"{named} is blamed, although no rank failed by itself"]
    wrong = []
    if truth.blames == "rank" and first["rank"] != injected.rank:
        wrong.append(f"{named} is blamed, expected rank {injected.rank}")
    if first["host"] != injected.node:
        wrong.append(f"{named} is blamed, expected a rank on {injected.node}")
    if nodes.get(first["rank"], first["host"]) != first["host"]:
        wrong.append(f"{named}: that rank was on {nodes[first['rank']]}")
    if truth.codes and not {first["signal"], str(first["code"])} & truth.codes:
        wrong.append(f"{named}, expected {' or '.join(sorted(truth.codes))}")
    return wrong


def untrue_statements(
    status: JsonObject,
    events: list[JsonObject],
    injected: Injected,
    truth: Truth,
    nodes: dict[int, str],
) -> list[str]:
    """Returns a text for each statement that is not true. If the run restarted, also checks which
    rank or node it blames for its first restart. nodes: the nodes of the first attempt's ranks."""
    wrong = []
    reported = tuple(restart["cause"] for restart in status["restarts"])
    if reported not in truth.causes:
        expected = " or ".join(str(list(one)) for one in sorted(truth.causes))
        wrong.append(f"restarts {list(reported)}, expected {expected}")
    if status["state"] not in truth.states:
        expected = " or ".join(sorted(truth.states))
        wrong.append(f"state {status['state']} ({status['detail']}), expected {expected}")
    elif truth.details and not any(word in (status["detail"] or "") for word in truth.details):
        wrong.append(f"detail {status['detail']!r}, expected one with {' or '.join(truth.details)}")
    if reported:  # Checks the end that led to the first restart.
        for end in bad_ends(events)[:1]:
            wrong += _untrue_blame(end, injected, truth, nodes)
    return wrong


def wrong_starts(job: Job, last_attempt: int | None) -> list[str]:
    """Returns a text for each start that should not have happened: a second start of a rank in an
    attempt, a start in an attempt that is not on the record, and a start while an earlier program
    of the rank still ran. last_attempt: the last attempt on the record; None if it has none."""
    starts = job.starts()
    twice = [
        f"rank {rank} was started {count} times in attempt {attempt}"
        for (attempt, rank), count in Counter(
            (attempt, rank) for attempt, rank, _, _ in starts
        ).items()
        if count > 1
    ]
    strange = [
        f"attempt {attempt} of rank {rank} is not on the record"
        for attempt, rank, _, _ in starts
        if last_attempt is None or attempt > last_attempt
    ]
    overlaps = [
        f"rank {rank} of attempt {attempt} on {node}: an earlier program of the rank still ran"
        for attempt, rank, node, has_overlap in starts
        if has_overlap
    ]
    return twice + strange + overlaps


def _left_in_groups(testbed: Testbed, job_ids: set[str]) -> list[str]:
    """Returns the processes that are left in the control groups of these Slurm jobs."""
    left = []
    for job_id in job_ids:
        for file in glob.glob(
            f"{testbed.cgroups}/n*/slurm*/uid_*/job_{job_id}/**/cgroup.procs", recursive=True
        ):
            try:
                pids = pathlib.Path(file).read_text().split()
            except OSError:
                continue
            names = [processes.stat_of(int(pid))[1] for pid in pids]
            left += [f"{name} ({pid}) in {file}" for name, pid in zip(names, pids)]
    return left


def leftovers(
    testbed: Testbed, runs: list[pathlib.Path], job_ids: set[str], limit_s: float
) -> list[str]:
    """Waits until the processes of ended runs and the files in /dev/shm have disappeared. Returns
    those that are left after limit_s.

    No job of the campaign keeps a file in /dev/shm, so running jobs do not disturb this check."""

    def left() -> list[str]:
        found = [
            f"{name} ({pid}, {os.path.basename(run)})"
            for run in runs
            for pid, name in processes.find(run).all
        ]
        files = [f"/dev/shm/{name} on {node}" for node, name in testbed.shared_memory_files()]
        return found + _left_in_groups(testbed, job_ids) + files

    wait_for(lambda: not left(), limit_s, every_s=0.1)
    return left()
