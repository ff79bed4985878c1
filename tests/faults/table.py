"""Makes the text of bench/results/faults.md: the outcomes of a campaign by kind."""

import datetime
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Sequence

from jobs import JsonObject

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))
import bench_common  # noqa: E402  describes the machine

HEAD = """\
| fault | count | recovered | resumed to the bit | hangs | untrue verdicts | wrong starts \
| leftovers | verdict s, median | max |
|---|---|---|---|---|---|---|---|---|---|
"""
LEGEND = """
The columns mean:

- **recovered**: the run completed. Runs that cannot restart by themselves (lead was killed, the
  time limit was reached, or Slurm holds the job) count if they completed after one
  `dlrun resubmit`.
- **resumed to the bit**: of the runs that restarted, the number whose result equals that of an
  undisturbed run bit for bit.
- **hangs**: runs that did not end within the time limit for this kind of fault.
- **untrue verdicts**: runs for which dlrun reported a wrong state, cause, rank, node or signal.
- **wrong starts**: runs in which a rank's program was started twice in one attempt, in an attempt
  that is not on the record, or while an earlier program of the rank still ran.
- **leftovers**: runs with a process, or a file in /dev/shm, that still existed some time after the
  run's end: usually 8 s, and up to 100 s for some kinds of faults.
- **verdict**: seconds from the fault to the recorded end of the attempt; empty if the fault need
  not end an attempt.
"""


def is_good(outcome: JsonObject) -> bool:
    """Returns True if the run ended in time and recovered, with the right bits and without a wrong
    statement, a wrong start, a leftover or an error of the test. outcome: a line of the results
    (one_fault.Outcome)."""
    wrong = ("hung", "untrue", "wrong_starts", "leftovers", "error")
    return (
        bool(outcome["recovered"])
        and outcome["has_same_bits"] is not False
        and not any(outcome[what] for what in wrong)
    )


def _row(name: str, outcomes: Sequence[JsonObject]) -> str:
    resumed = [one for one in outcomes if one["resumed"]]
    verdicts = [one["verdict_s"] for one in outcomes if one["verdict_s"] is not None]
    cells = [
        name,
        len(outcomes),
        sum(bool(one["recovered"]) for one in outcomes),
        f"{sum(one['has_same_bits'] is True for one in resumed)} of {len(resumed)}",
        *(sum(bool(one[what]) for one in outcomes) for what in ("hung", "untrue", "wrong_starts")),
        sum(bool(one["leftovers"]) for one in outcomes),
        f"{statistics.median(verdicts):.2f}" if verdicts else "",
        f"{max(verdicts):.2f}" if verdicts else "",
    ]
    return "| " + " | ".join(map(str, cells)) + " |\n"


def commit_of_repository() -> str:
    """Returns the commit of this repository, with `-dirty` if files are changed."""
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(words, capture_output=True, text=True)
    return done.stdout.strip() or "no commit"


def outcome_table(outcomes: Sequence[JsonObject]) -> str:
    kinds: dict[str, list[JsonObject]] = {}
    for one in outcomes:
        kinds.setdefault(one["kind"], []).append(one)
    all_rows = [_row(name, kinds[name]) for name in sorted(kinds)]
    return HEAD + "".join(all_rows) + _row("**all**", outcomes)


def _what_went_wrong(outcomes: Sequence[JsonObject]) -> str:
    lines = []
    for one in outcomes:
        if is_good(one):
            continue
        found = [*one["untrue"], *one["wrong_starts"], *one["leftovers"][:1]]
        found += ["had not ended in time"] * bool(one["hung"])
        found += ["its result has other bits"] * (one["has_same_bits"] is False)
        found += [one["error"]] * bool(one["error"])
        found += ["not recovered"] * (not one["recovered"])
        lines.append(f"- #{one['number']} {one['kind']}, {one['job']}: {'; '.join(found)}\n")
    return "\nWhat went wrong:\n\n" + "".join(lines) if lines else ""


def page(outcomes: Sequence[JsonObject], seed: int, testbed_count: int) -> str:
    """Returns the whole text of faults.md."""
    commits = ", then ".join(dict.fromkeys(str(one["commit"]) for one in outcomes))
    seconds = sum(one["took_s"] for one in outcomes)
    count, kind_count = len(outcomes), len({one["kind"] for one in outcomes})
    return (
        "# Injected faults and the outcomes of their jobs\n\n"
        f"`tests/faults/campaign --seed {seed}`, {datetime.date.today()}, at {commits}: "
        f"{count} faults of {kind_count} kinds, {seconds / 3600:.1f} hours in sum, on "
        f"{testbed_count} testbeds. "
        f"{bench_common.machine()}.\n{LEGEND}\n{outcome_table(outcomes)}"
        f"{_what_went_wrong(outcomes)}"
    )
