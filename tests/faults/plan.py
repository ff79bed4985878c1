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
    """One planned fault. It happens after the part `progress` (0 to 1) of the job's steps, plus
    delay_s seconds. seed: for all other random choices."""

    number: int
    kind: str
    job: str
    rank: int
    progress: float
    delay_s: float
    seed: int


def draw(kinds: Sequence[Kind], count: int, seed: int) -> list[Planned]:
    """Draws the faults: one of each kind in random order, then kinds by their weights."""
    chance = random.Random(seed)
    each_once = list(kinds)
    chance.shuffle(each_once)
    planned = []
    for number in range(count):
        kind = (
            each_once[number]
            if number < len(each_once)
            else chance.choices(kinds, [kind.weight for kind in kinds])[0]
        )
        weights = [1 if name == "torch" else 4 for name in kind.jobs]
        job = chance.choices(kind.jobs, weights)[0]
        planned.append(
            Planned(
                number,
                kind.name,
                job,
                chance.randrange(TYPES[job].ranks),
                chance.uniform(0.0, 0.7),
                chance.uniform(0.0, 0.05),
                chance.randrange(1 << 31),
            )
        )
    return planned
