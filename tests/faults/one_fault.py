"""Tests one fault, from the submission of its job to the judgement of the outcome."""

import json
import pathlib
import random
import shutil
import subprocess
import time
from dataclasses import asdict, dataclass, field

import oracle
import processes
import table
from jobs import TYPES, Job, JsonObject
from kinds import Injected, Kind, Scene
from plan import Planned
from testbed import Failure, Testbed, wait_for

# The time limit of each of three waits: for the start of a job, for the moment of its fault, and
# for the end of a resubmitted run.
WAIT_LIMIT_S = 60.0
TRIES = 4  # tries of a fault if the job ends before it; each try injects the fault earlier


@dataclass
class Outcome:
    """One line of the results. words: the description of the fault. landed: the fault has happened.
    verdict_s: see oracle.verdict_s(). seconds: the time from the fault to the run's end. recovered:
    the run, or its resubmission if one is needed, has completed. resumed, resumed_at: the run
    completed after a restart, and resumed at this step (None if the step is not known).
    has_same_bits: the result equals that of an undisturbed run; None without a result. untrue: the
    statements of the record or of `dlrun status` that do not fit the fault. error: why the fault
    could not be tested to its end. took_s: the time from the job's submission to the end of the
    testbed's repair."""

    number: int
    kind: str
    job: str
    words: str = ""
    landed: bool = False
    state: str = ""
    restarts: list[str] = field(default_factory=list)
    verdict_s: float | None = None
    seconds: float = 0.0
    recovered: bool = False
    resubmitted: bool = False
    resumed: bool = False
    resumed_at: int | None = None
    has_same_bits: bool | None = None
    hung: bool = False
    untrue: list[str] = field(default_factory=list)
    wrong_starts: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    error: str = ""
    commit: str = ""
    took_s: float = 0.0

    @property
    def is_good(self) -> bool:
        return table.is_good(asdict(self))

    def line(self) -> str:
        return json.dumps(asdict(self))


class References:
    """The exact results of undisturbed runs, by job type, for all testbeds of a campaign."""

    def __init__(self) -> None:
        self.bits: dict[str, dict[str, str]] = {}

    def run_undisturbed(self, testbed: Testbed, type_name: str) -> None:
        """Runs a job of this type without a fault, and keeps its results."""
        job = Job(testbed, TYPES[type_name], f"undisturbed-{type_name}")
        job.submit()
        wait_for(job.has_ended, 120)
        status = job.status()
        bits = job.bits(status["result"])
        if status["state"] != "completed" or status["restarts"] or not bits:
            end = f"{status['state']}: {status['detail']} {status['restarts']}"
            raise Failure(f"the undisturbed {type_name} ended {end}")
        self.bits[type_name] = bits


def _complete_processes(job: Job) -> processes.Processes | None:
    """Returns the run's processes; None until all ranks, lead and srun have started."""
    found = processes.find(job.run)
    is_whole = (
        len(found.programs) == job.type.ranks == len(found.agents) == len(found.guards)
        and found.lead
        and found.srun
    )
    return found if is_whole else None


def _wait_for_moment(
    job: Job, planned: Planned, kind: Kind, try_number: int
) -> processes.Processes | None:
    """Waits for the moment of the fault, and returns the run's processes. For a kind with
    is_before_join, returns the processes at that moment. For other kinds, returns the processes
    that were found when all had started; returns None if the run ended before the moment of the
    fault, or if some of its processes did not start within WAIT_LIMIT_S."""
    if kind.is_before_join:
        wait_for(lambda: job.has_event("started") or job.has_ended(), WAIT_LIMIT_S, every_s=0.002)
        return processes.find(job.run)
    found = job.wait_until(lambda: _complete_processes(job), WAIT_LIMIT_S)
    wanted_step = int(planned.progress * job.type.steps) // (try_number + 1)
    wait_for(
        lambda: job.newest_saved_step() >= wanted_step or job.has_ended(),
        WAIT_LIMIT_S,
        every_s=0.005,
    )
    time.sleep(planned.delay_s)
    return found if found and not job.has_ended() else None


def _new_job(testbed: Testbed, planned: Planned, kind: Kind, try_number: int) -> Job:
    """Creates the job's folder and spec. Takes a disk if the kind needs one. Does not submit the
    job."""
    disk = testbed.take_disk() if kind.folder_on_small_disk else None
    name = f"f{planned.number}" + (f"-{try_number}" if try_number else "")
    return Job(
        testbed,
        TYPES[planned.job],
        name,
        kind.resources,
        kind.retry_on,
        kind.slow_ms,
        disk / "runs" if disk and kind.folder_on_small_disk == "run" else None,
        disk / "ckpt" if disk and kind.folder_on_small_disk == "checkpoints" else None,
    )


def _is_held(status: JsonObject) -> bool:
    """Returns True if Slurm will not start the job by itself. If the controller has forgotten that
    the job started, it starts the job again. This start fails, because the job's nodes still run
    it, and Slurm then holds the job."""
    return status["state"] == "pending" and "requeued held" in (status["detail"] or "")


def _is_over(job: Job) -> bool:
    if job.has_ended():
        return True
    status = job.status()
    return _is_held(status) or status["state"] in (
        "completed",
        "failed",
        "cancelled",
        "timeout",
        "unknown",
    )


def _wait_for_end(job: Job, limit_s: float) -> bool:
    """Waits until the run's record has an end, or until dlrun status reports that the job has ended
    or that Slurm holds it. Calls dlrun status rarely, because each call starts a process. Returns
    False after limit_s."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        if wait_for(
            job.has_ended, min(2.0, max(0.0, until - time.monotonic())), every_s=0.03
        ) or _is_over(job):
            return True
    return False


def _resubmit(job: Job, outcome: Outcome) -> JsonObject | None:
    """Does what a user would do with a run that cannot recover by itself: resubmits it. Returns the
    new run's status; None if the resubmission failed."""
    old_run_id = job.run_id
    if _is_held(job.status()):
        job.dlrun("cancel", job.run_id)
        job.testbed.mend()  # Slurm has drained the nodes where the job ran
    done = job.dlrun("resubmit", job.run_id, "--json")
    try:
        job.set_run(json.loads(done.stdout)["path"])
    except (ValueError, KeyError):
        outcome.error = f"dlrun resubmit {old_run_id}: exit {done.returncode}: {done.stderr}"
        return None
    outcome.resubmitted = True
    _wait_for_end(job, WAIT_LIMIT_S)
    return job.status()


def _judge(
    job: Job,
    kind: Kind,
    injected: Injected,
    found: processes.Processes,
    expected_bits: dict[str, str],
    outcome: Outcome,
) -> None:
    """Waits for the end of the run, resubmits it if that is expected after this fault
    (Truth.needs_resubmission), and writes the judgement into the outcome. found: the run's
    processes before the fault."""
    truth = injected.truth or kind.truth
    outcome.hung = not _wait_for_end(job, kind.end_limit_s - (time.time() - injected.time_s))
    outcome.seconds = round(time.time() - injected.time_s, 3)
    status, events = job.status(), job.events()
    outcome.state, outcome.restarts = status["state"], [
        restart["cause"] for restart in status["restarts"]
    ]
    verdict_s = oracle.verdict_s(events, injected)
    outcome.verdict_s = None if verdict_s is None else round(verdict_s, 3)
    outcome.untrue = oracle.untrue_statements(
        status, events, injected, truth, {rank: one.node for rank, one in found.programs.items()}
    )
    outcome.resumed = status["state"] == "completed" and bool(status["attempt"])
    if outcome.resumed:
        outcome.resumed_at = job.resumed_at(status["attempt"])
    outcome.wrong_starts = oracle.wrong_starts(job, status["attempt"])
    runs, ids = [job.run], {status["job"] or ""}
    if (
        truth.needs_resubmission
        and not outcome.hung
        and status["state"] in truth.states
        and status["state"] != "completed"
    ):
        status = _resubmit(job, outcome) or status
        runs.append(job.run)
        ids.add(status["job"] or "")
    outcome.recovered = status["state"] == "completed"
    if outcome.recovered:
        outcome.has_same_bits = job.bits(status["result"]) == expected_bits
    outcome.leftovers = oracle.leftovers(job.testbed, runs, ids, kind.leftover_limit_s)


def _keep(job: Job, outcome: Outcome, bad_folder: pathlib.Path) -> None:
    """Copies the files that are needed to understand a fault with a wrong outcome."""
    to = bad_folder / f"{outcome.number}-{outcome.kind.replace(' ', '-')}"
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(
        job.folder,
        to,
        ignore=shutil.ignore_patterns("*.safetensors", ".agents", "*.new"),
        dirs_exist_ok=True,
    )
    if job.is_submitted and not job.run.is_relative_to(job.folder):
        shutil.copytree(
            job.run, to / "run", ignore=shutil.ignore_patterns("*.safetensors"), dirs_exist_ok=True
        )
    (to / "outcome.json").write_text(outcome.line() + "\n")
    (to / "slurmctld.log").write_text(
        "\n".join(
            (job.testbed.state / "log" / "slurmctld.log")
            .read_text(errors="replace")
            .splitlines()[-200:]
        )
    )


def _clean_up(job: Job, kind: Kind, outcome: Outcome) -> None:
    """Cancels the job, kills its processes if it hung or left some, and gives its disk back. Keeps
    the job's files."""
    job.testbed.as_root("scancel", "-f", "-n", job.name)
    if outcome.hung or outcome.leftovers:
        for pid, _ in processes.find(job.run).all if job.is_submitted else []:
            subprocess.run(["kill", "-KILL", str(pid)], stderr=subprocess.DEVNULL)
    if kind.folder_on_small_disk:
        job.testbed.give_disk_back((job.given_checkpoints or job.runs).parent)


def run_one_fault(
    testbed: Testbed,
    planned: Planned,
    kind: Kind,
    expected_bits: dict[str, str],
    bad_folder: pathlib.Path,
) -> Outcome:
    """Submits the job, injects the fault and judges the outcome. If the job ended before the fault,
    tries again with a new job, at most TRIES times. Never raises because of dlrun's behaviour."""
    for try_number in range(TRIES):
        outcome = Outcome(planned.number, kind.name, planned.job)
        job = _new_job(testbed, planned, kind, try_number)
        generator = random.Random(planned.seed)
        try:
            if kind.submit:
                outcome.words = kind.submit(job, generator)
                injected = Injected(words=outcome.words)
                found = processes.Processes()
            else:
                job.submit()
                alive = _wait_for_moment(job, planned, kind, try_number)
                if alive is None:
                    injected, found = Injected(landed=False), processes.Processes()
                else:
                    found = alive
                    injected = kind.inject(Scene(testbed, job, planned.rank, generator, found))
            outcome.words, outcome.landed = injected.words, injected.landed
            if injected.landed:
                _judge(job, kind, injected, found, expected_bits, outcome)
        except (Failure, OSError, subprocess.SubprocessError) as error:
            outcome.error = f"{type(error).__name__}: {error}"
        if outcome.landed and not outcome.is_good:
            _keep(job, outcome, bad_folder)
        _clean_up(job, kind, outcome)
        if outcome.is_good:
            shutil.rmtree(job.folder, ignore_errors=True)
        if outcome.landed or outcome.error:
            break
    return outcome
