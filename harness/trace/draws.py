"""Random numbers that are the same on every machine: each has a name and comes from sha256."""

import hashlib
from collections.abc import Iterator


def uniform(seed: int, purpose: str, index: int) -> float:
    """A uniform in [0, 1) with 53 random bits, fixed by seed, purpose and index."""
    digest = hashlib.sha256(f"{seed}|{purpose}|{index}".encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53


def whole(seed: int, purpose: str, index: int, least: int, most: int) -> int:
    """A whole number from `least` to `most`, each as likely as the others."""
    return least + int(uniform(seed, purpose, index) * (most - least + 1))


def shuffled(seed: int, purpose: str, count: int) -> list[int]:
    """The numbers 0 to count - 1 in a random order (Fisher and Yates)."""
    order = list(range(count))
    for i in range(count - 1, 0, -1):
        j = whole(seed, purpose, i, 0, i)
        order[i], order[j] = order[j], order[i]
    return order


def without_end(seed: int, purpose: str) -> Iterator[float]:
    """Uniforms in [0, 1), one after the other."""
    index = 0
    while True:
        yield uniform(seed, purpose, index)
        index += 1
