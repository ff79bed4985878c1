"""Draws the faults of a campaign from its seed. A seed always gives the same faults, whatever their
outcomes.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from jobs import TYPES
from kinds import Kind


@dataclass(frozen=True)
class Planned:
    """One planned fault. It happens delay_s seconds after the job has saved the fraction `progress`
    (0 to 1) of its steps. Faults with Kind.is_before_join ignore both values. If the job ends
    before the fault, the campaign tries the fault again with a new job, and waits for fewer steps.
    seed: for all other random choices."""

    number: int
    kind: str
    job: str
    rank: int
    progress: float
    delay_s: float
    seed: int


def draw(kinds: Sequence[Kind], count: int, seed: int) -> list[Planned]:
    """Draws `count` faults: one of each kind in random order, then kinds by their weights."""
    generator = random.Random(seed)
    each_once = list(kinds)
    generator.shuffle(each_once)
    planned = []
    for number in range(count):
        kind = (
            each_once[number]
            if number < len(each_once)
            else generator.choices(kinds, [kind.weight for kind in kinds])[0]
        )
        weights = [1 if name == "torch" else 4 for name in kind.jobs]
        job = generator.choices(kind.jobs, weights)[0]
        planned.append(
            Planned(
                number,
                kind.name,
                job,
                generator.randrange(TYPES[job].ranks),
                generator.uniform(0.0, 0.7),
                generator.uniform(0.0, 0.05),
                generator.randrange(1 << 31),
            )
        )
    return planned
