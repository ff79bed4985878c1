"""The jobs that the faults are injected into: their specs, their progress, the number of their
starts, and the exact bits of their results.
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from testbed import Failure, T, Testbed, wait_for

JsonObject = dict[str, Any]  # a line of events.jsonl, or an object that a command prints as JSON

COMMON = """\
name: {name}
resources: {{nodes: {nodes}, tasks_per_node: {per_node}, cpus_per_task: 1, time: 5m{resources}}}
health: {{hang_after: {hang_after}}}
retry: {{max: 3, on: [{retry_on}]}}
"""
TRAINER = """\
train:
  data: {{dataset: digits, train_samples: 8000, test_samples: 100}}
  layers: [conv2d 8 5 stride 2, relu, dropout 0.25, maxpool 2, dense 10]
  optimizer: {{name: adam}}
  backend: {backend}
  batch: 16
  epochs: 10
  seed: 5
checkpoint: {{dir: {checkpoints}, every: 10 steps, keep: 3, signal_before: 60s}}
"""
PROGRAM = """\
launch:
  preset: {preset}
  command: [{interpreter}, {programs}/{program}, {folder}, {steps}, {step_ms}, {slow_ms}]
checkpoint: {{signal_before: 60s}}
"""


@dataclass(frozen=True)
class JobType:
    """One type of job. text: the part of its spec after COMMON. placeholders: values for the
    placeholders of this text; Job has the values of the others. steps: the last step that rank 0
    reports. hang_after: the value of health.hang_after in seconds."""

    name: str
    text: str
    nodes: int
    per_node: int
    steps: int
    placeholders: dict[str, str]
    hang_after: int = 6

    @property
    def ranks(self) -> int:
        return self.nodes * self.per_node

    @property
    def is_trainer(self) -> bool:
        return self.text is TRAINER


TYPES = {
    job_type.name: job_type
    for job_type in (
        JobType("trainer-shm", TRAINER, 1, 2, 2500, {"backend": "shm"}),
        JobType("trainer-gloo", TRAINER, 2, 1, 2500, {"backend": "gloo"}),
        JobType(
            "plain",
            PROGRAM,
            2,
            2,
            80,
            {
                "preset": "plain",
                "program": "plain.py",
                "interpreter": "python3, -I, -S",
                "step_ms": "25",
            },
        ),
        JobType(
            "torch",
            PROGRAM,
            2,
            1,
            60,
            {
                "preset": "torch",
                "program": "torch_ddp.py",
                "interpreter": "python3",
                "step_ms": "25",
            },
            hang_after=60,
        ),
    )
}


class Job:
    """A run of one type in a folder of its own. The constructor creates the folder and the spec;
    submit() submits the run.

    runs: the folder in which dlrun makes the run's directory, by default `runs` in the job's
        folder.
    checkpoints: the folder of the trainer's checkpoints, by default `ckpt` in the run's directory.
    resources, retry_on, slow_ms: as in Kind (kinds.py)."""

    def __init__(
        self,
        testbed: Testbed,
        job_type: JobType,
        name: str,
        resources: str = "",
        retry_on: str = "",
        slow_ms: int = 0,
        runs: pathlib.Path | None = None,
        checkpoints: pathlib.Path | None = None,
    ) -> None:
        self.testbed, self.type, self.name = testbed, job_type, name
        self.folder = testbed.home / name
        self.folder.mkdir()
        for job_folder in (self.folder, self.folder / "work"):
            job_folder.mkdir(exist_ok=True)
            self.give_to_user(job_folder)
        self.runs = runs or self.folder / "runs"
        self.given_checkpoints = checkpoints
        for folder in (self.runs, checkpoints):
            if folder:
                folder.mkdir(exist_ok=True)
                self.give_to_user(folder)
        text = (COMMON + job_type.text).format(
            name=name,
            nodes=job_type.nodes,
            per_node=job_type.per_node,
            resources=resources,
            hang_after=job_type.hang_after,
            retry_on=retry_on or "failure, hang, node_failure, preemption, timeout",
            checkpoints=checkpoints or "ckpt",
            programs=testbed.home / "programs",
            folder=self.folder / "work",
            steps=job_type.steps,
            slow_ms=slow_ms,
            **job_type.placeholders,
        )
        (self.folder / "exp.yaml").write_text(text)
        self._run: pathlib.Path | None = None
        self.run_id = ""

    @property
    def is_submitted(self) -> bool:
        return self._run is not None

    @property
    def run(self) -> pathlib.Path:
        """Returns the run's directory."""
        if self._run is None:
            raise Failure(f"{self.name} is not submitted")
        return self._run

    @property
    def checkpoints(self) -> pathlib.Path:
        return self.given_checkpoints or self.run / "ckpt"

    def give_to_user(self, path: pathlib.Path) -> None:
        os.chown(path, self.testbed.user.pw_uid, self.testbed.user.pw_gid)

    def dlrun(
        self, *words: str, path_prefix: str = "", limit_s: float = 60
    ) -> subprocess.CompletedProcess[str]:
        return self.testbed.as_user(["dlrun", *words], self.folder, path_prefix, limit_s)

    def submit(self) -> None:
        done = self.dlrun("submit", "exp.yaml", "--runs", str(self.runs), "--json")
        try:
            self.set_run(json.loads(done.stdout)["path"])
        except (ValueError, KeyError) as error:
            raise Failure(f"dlrun submit: exit {done.returncode}: {done.stderr} {error}") from None

    def set_run(self, directory: str) -> None:
        self._run = pathlib.Path(directory)
        self.run_id = self.run.name

    # The run's record.

    def events(self) -> list[JsonObject]:
        """Returns the lines of events.jsonl. Leaves out lines that are not JSON, and an unfinished
        line at the end, which lead may still be writing."""
        try:
            text = (self.run / "events.jsonl").read_bytes()
        except OSError:
            return []
        found = []
        for line in text[: text.rfind(b"\n") + 1].splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                pass
        return found

    def has_event(self, name: str, attempt: int | None = None) -> bool:
        return any(
            event["event"] == name and attempt in (None, event["attempt"])
            for event in self.events()
        )

    def has_ended(self) -> bool:
        return self.has_event("ended")

    def status(self) -> JsonObject:
        done = self.dlrun("status", self.run_id, "--json")
        try:
            status: JsonObject = json.loads(done.stdout)
        except ValueError:
            raise Failure(
                f"dlrun status {self.run_id}: exit {done.returncode}: {done.stderr}"
            ) from None
        return status

    def log(self, attempt: int, rank: int) -> str:
        try:
            return (self.run / "logs" / f"attempt-{attempt}" / f"rank-{rank:04}.log").read_text(
                errors="replace"
            )
        except OSError:
            return ""

    # The run's progress and its saved files.

    def checkpoint_names(self) -> list[str]:
        """Returns the names of the trainer's checkpoints, oldest first. The newest one may be
        unfinished."""
        try:
            return sorted(
                name for name in os.listdir(self.checkpoints) if re.fullmatch(r"step-\d+", name)
            )
        except OSError:
            return []

    def newest_saved_step(self) -> int:
        """Returns the step of the newest checkpoint or saved state; 0 if there is none. For torch,
        this is the last recorded progress, which the program reports after it has saved."""
        if self.type.is_trainer:
            return max((int(name[5:]) for name in self.checkpoint_names()), default=0)
        try:
            if self.type.name == "plain":
                return int(json.loads((self.folder / "work" / "state-0").read_text())["step"])
            saved = self.folder / "work" / "saved.pt"
            last = [event.get("step", 0) for event in self.events() if event["event"] == "progress"]
            return int(last[-1]) if last and saved.exists() else 0
        except (OSError, ValueError):
            return 0

    def starts(self) -> list[tuple[int, int, str, bool]]:
        """Returns (attempt, rank, node, has_overlap) for every start. has_overlap: another program
        of the rank still ran; always False for torch. For the trainer, returns only the starts of
        rank 0, with an empty node and without overlap."""
        if self.type.is_trainer:
            found = []
            for path in sorted(self.run.glob("logs/attempt-*/rank-0000.log")):
                attempt = int(path.parent.name[8:])
                found += [(attempt, 0, "", False)] * path.read_text(errors="replace").count(
                    "\nmodel: "
                )
            return found
        try:
            lines = (self.folder / "work" / "starts").read_text().splitlines()
        except OSError:
            return []
        return [
            (int(words[0]), int(words[1]), words[3], words[4] != "alone")
            for words in map(str.split, lines)
        ]

    def bits(self, result: JsonObject | None) -> dict[str, str] | None:
        """Returns the run's exact results; None if the run has not finished, or if the trainer's
        last checkpoint cannot be read. result: from `dlrun status`; used only for the trainer.
        """
        if not self.type.is_trainer:
            found = {
                path.name: path.read_text()
                for path in sorted((self.folder / "work").glob("final-*"))
                if path.suffix != ".new"
            }
            return found if len(found) == self.type.ranks else None
        if not result:
            return None
        found = {
            key: str(result.get(key))
            for key in ("parameters", "test_accuracy", "test_loss", "steps")
        }
        last = self.checkpoints / f"step-{self.type.steps:08}"
        for name in ("model.safetensors", "optimizer.safetensors"):
            try:
                found[name] = hashlib.sha256((last / name).read_bytes()).hexdigest()
            except OSError:
                return None
        return found

    def resumed_at(self, attempt: int) -> int | None:
        """Returns the step from which this attempt of the trainer resumed: 0 without a checkpoint.
        Returns None for other programs, whose logs do not show the step."""
        if not self.type.is_trainer:
            return None
        match = re.search(r"resumed from .* at step (\d+)", self.log(attempt, 0))
        return int(match[1]) if match else 0

    def wait_until(self, condition: Callable[[], T], limit_s: float) -> T:
        """Waits like wait_for(), but also stops waiting when the run has ended. Then calls
        condition() once more, and returns its value."""
        wait_for(lambda: condition() or self.has_ended(), limit_s)
        return condition()
