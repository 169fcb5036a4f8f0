"""Made-up demand: subjects whose traffic follows Zipf's law, and members that want some of them.

Subject r of n has a share of the traffic proportional to r^-exponent. Each member wants a number of subjects. A part
`locality` of its wishes goes to the subjects of its own community, the rest to all subjects; either way a subject is
wished for in proportion to r^-interest_exponent. Communities have equally many subjects, popular and unpopular ones,
and equally many members.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from gossamer.analysis.channels import Demand
from gossamer.core.schema import setting
from gossamer.pipeline.channels.interests import Interests


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The demand of an experiment, as its file gives it."""

    subjects: int = setting(10_000, "Number of subjects.", low=1, high=1_000_000)
    members: int = setting(1_000, "Number of members.", low=1, high=100_000)
    wishes: int = setting(30, "How many subjects a member wants.", low=1, high=10_000)
    exponent: float = setting(1.0, "Exponent of Zipf's law for the traffic.", low=0.0, high=4.0)
    interest_exponent: float = setting(0.8, "Exponent of Zipf's law for the wishes.", low=0.0, high=4.0)
    locality: float = setting(0.9, "The part of a member's wishes that its own community makes.", low=0.0, high=1.0)
    communities: int = setting(32, "Number of communities.", low=1, high=10_000)
    channels: int = setting(16, "Number of channels.", low=1, high=128)
    drift: float = setting(
        0.0, "The part of the members that want something else after the map was found.", low=0.0, high=1.0
    )
    name: str = setting("", "Name of the run.")
    seed: int = setting(1, "Seed of the random generator.")


def subject_names(load: Workload) -> list[str]:
    """The names of the subjects, community by community."""
    return [f"market{s % load.communities}.share{s // load.communities}" for s in range(load.subjects)]


def demand(load: Workload, *, later: bool = False) -> Demand:
    """Draw the demand of a workload; `later`, when a part of the members wants something else."""
    random = np.random.default_rng(load.seed)
    wished = [_wishes(load, member % load.communities, random) for member in range(load.members)]
    if later:
        for member in random.choice(load.members, round(load.drift * load.members), replace=False):
            wished[member] = _wishes(load, int(random.integers(load.communities)), random)
    edges = np.cumsum([0, *map(len, wished)])
    by_member = csr_matrix(
        (np.ones(edges[-1], np.int8), np.concatenate(wished), edges), shape=(load.members, load.subjects)
    )
    return Demand(_zipf(load.subjects, load.exponent), by_member.T.tocsr())


def interests(load: Workload, drawn: Demand) -> Interests:
    """The same demand as subscriptions: every member subscribes to each subject that it wants."""
    rows = (drawn.row(subject) for subject in range(load.subjects))
    return {
        name: tuple(f"m{member}" for member in row)
        for name, row in zip(subject_names(load), rows, strict=True)
        if len(row)
    }


def _wishes(load: Workload, community: int, random: np.random.Generator) -> NDArray[np.int64]:
    """The subjects that one member wants; subject s belongs to community s modulo their number."""
    own = np.arange(community % min(load.communities, load.subjects), load.subjects, load.communities)
    near = int(random.binomial(load.wishes, load.locality))
    parts = [(own, near), (np.arange(load.subjects), load.wishes - near)]
    drawn = [
        random.choice(of, min(count, len(of)), replace=False, p=_zipf(len(of), load.interest_exponent))
        for of, count in parts
        if count
    ]
    return np.unique(np.concatenate(drawn))


def _zipf(count: int, exponent: float) -> NDArray[np.float64]:
    shares = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    found: NDArray[np.float64] = shares / shares.sum()
    return found
