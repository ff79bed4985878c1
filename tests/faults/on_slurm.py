"""Faults from Slurm and from users: requeue, preemption, the time limit, and submissions that are
killed or lose their reply."""

import pathlib
import random
from collections.abc import Callable

from jobs import Job
from kinds import ALL_JOBS, EMPTY_RESTART_LIST, Injected, Kind, Scene, Truth, causes
from testbed import Failure, slurm_command, wait_for


def _job_id(scene: Scene) -> str:
    return str(next(event["job"] for event in scene.job.events() if event["event"] == "claimed"))


def requeue(scene: Scene) -> Injected:
    injected = Injected(rank=scene.rank, node=scene.node, words="scontrol requeue")
    scene.testbed.as_root("scontrol", "requeue", _job_id(scene))
    return injected


def preempt(scene: Scene) -> Injected:
    """Submits a second job, which has a higher priority and needs a node of this job. Waits until
    this job has started again or ended, for at most 60 s."""
    injected = Injected(
        rank=scene.rank, node=scene.node, words=f"a job of the partition batch takes {scene.node}"
    )
    scene.testbed.as_user(
        [
            "sbatch",
            "-w",
            scene.node,
            "--exclusive",
            "-t",
            "1",
            "-o",
            "/dev/null",
            "--wrap",
            "sleep 0.5",
        ],
        scene.job.folder,
    )
    wait_for(lambda: scene.job.has_event("claimed", 1) or scene.job.has_ended(), 60)
    return injected


def reach_limit(scene: Scene) -> Injected:
    injected = Injected(rank=scene.rank, node=scene.node, words="its time limit is 1 s from now")
    scene.testbed.as_root("scontrol", "update", f"JobId={_job_id(scene)}", "EndTime=now+1")
    return injected


def warn_of_limit(scene: Scene) -> Injected:
    """Moves the time limit to 60 s from now, and sends the warning signal in Slurm's place."""
    injected = Injected(rank=scene.rank, node=scene.node, words="USR1 ahead of the time limit")
    scene.testbed.as_root("scontrol", "update", f"JobId={_job_id(scene)}", "EndTime=now+60")
    scene.testbed.as_root("scancel", "--batch", "-s", "USR1", _job_id(scene))
    return injected


# A wrapper of sbatch. The word in the file `fault` selects what the wrapper kills (itself or dlrun,
# its parent process PPID), and when. With reply-lost, the wrapper submits the job but reports a
# timeout; with none, it only calls sbatch.
SBATCH = """\
#!/bin/bash
fault=$(cat {folder}/fault)
case $fault in
sbatch-before) kill -KILL $$ ;;
dlrun-before) kill -KILL $PPID $$ ;;
dlrun-while) kill -KILL $PPID; sleep 0.2 ;;
esac
answer=$({sbatch} "$@")
code=$?
case $fault in
sbatch-after) kill -KILL $$ ;;
dlrun-after) kill -KILL $PPID ;;
reply-lost)
    echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2
    exit 1
    ;;
esac
echo "$answer"
exit $code
"""
SUBMISSION_FAULTS = (
    "sbatch-before",
    "sbatch-after",
    "dlrun-before",
    "dlrun-while",
    "dlrun-after",
    "reply-lost",
)


def submit_with(faults: tuple[str, ...]) -> Callable[[Job, random.Random], str]:
    """Returns a function that submits the job with one of these faults. Like a user, the function
    submits the job once more if dlrun status says that nothing was submitted."""

    def submit(job: Job, generator: random.Random) -> str:
        fault = generator.choice(faults)
        folder = job.folder / "bin"
        folder.mkdir()
        text = SBATCH.format(folder=job.folder, sbatch=slurm_command("sbatch"))
        (folder / "sbatch").write_text(text)
        (folder / "sbatch").chmod(0o755)
        folder.chmod(0o755)
        (job.folder / "fault").write_text(fault)
        (job.folder / "fault").chmod(0o644)
        known_runs: set[pathlib.Path] = set()
        for _ in range(2):
            done = job.dlrun(
                "submit", "exp.yaml", "--runs", str(job.runs), "--json", path_prefix=str(folder)
            )
            (job.folder / "fault").write_text("none")
            # The names of two runs of the same second differ in a random part, so sorting does not
            # find the newer one.
            new_runs = set(job.runs.glob(f"{job.name}-*")) - known_runs
            if len(new_runs) != 1:
                raise Failure(f"dlrun submit: {len(new_runs)} new runs: {done.stderr}")
            known_runs |= new_runs
            job.set_run(str(*new_runs))

            def is_settled() -> bool:
                return "being submitted" not in (job.status()["detail"] or "")

            if not wait_for(is_settled, 30, every_s=0.2):
                raise Failure("dlrun status: the job is still being submitted after 30 s")
            if job.status()["state"] != "not_submitted":
                return fault
        raise Failure(f"the second dlrun submit, without a fault, submitted nothing: {done.stderr}")

    return submit


def _never_called(scene: Scene) -> Injected:
    raise AssertionError("Kind.submit injects this fault")


UNHARMED = Truth(causes=causes(EMPTY_RESTART_LIST), blames="nobody")
PREEMPTED = Truth(causes=causes(("preemption",), EMPTY_RESTART_LIST), blames="anybody")

KINDS = (
    # After a requeue by a user the job starts again. The run's list of restarts stays empty,
    # because such a requeue does not count for retry.max.
    Kind("requeue", requeue, UNHARMED, jobs=ALL_JOBS, weight=6),
    Kind(
        "preemption with grace",
        preempt,
        PREEMPTED,
        lane="cluster",
        resources=", partition: preempt, exclusive: true",
        end_limit_s=90,
        slow_ms=600,
    ),
    Kind(
        "preemption without grace",
        preempt,
        PREEMPTED,
        lane="cluster",
        resources=", partition: preempt-now, exclusive: true",
        end_limit_s=90,
    ),
    Kind(
        "time limit",
        reach_limit,
        Truth(
            causes=causes(EMPTY_RESTART_LIST),
            blames="nobody",
            states=frozenset({"timeout"}),
            details=("time limit",),
            needs_resubmission=True,
        ),
        jobs=("plain",),
        weight=2,
        retry_on="failure",
        slow_ms=4000,
        is_long=True,
        end_limit_s=90,
    ),
    Kind(
        "warning of the time limit",
        warn_of_limit,
        Truth(causes=causes(("timeout",), EMPTY_RESTART_LIST), blames="anybody"),
        weight=3,
    ),
    Kind(
        "lost reply of sbatch",
        _never_called,
        UNHARMED,
        jobs=("plain",),
        weight=2,
        submit=submit_with(("reply-lost",)),
    ),
    Kind(
        "sbatch or dlrun killed at submission",
        _never_called,
        UNHARMED,
        jobs=("plain",),
        weight=3,
        submit=submit_with(SUBMISSION_FAULTS[:-1]),
    ),
)
