"""How often a 95 % interval holds the truth, by simulation; docs/method.md has the table that this prints.

python -m tests.benchmark.coverage [SIMULATIONS]
"""

import sys

from tests.fakes.known_truths import of_one_run, of_pairs, of_repeats


def main(simulations: int) -> None:
    """Print a Markdown table."""
    scenarios = [
        *(of_one_run("p50", n, rho, 1000) for n in (200, 683) for rho in (0.0, 0.5, 0.8)),
        *(of_pairs("difference", n, rho, 1000) for n in (200, 683) for rho in (0.0, 0.5)),
        *(of_pairs("p50 ratio", 200, rho, 1000) for rho in (0.0, 0.5)),
        *(of_repeats("p50", repeats, 200, between) for repeats in (3, 5) for between in (0.0, 0.05)),
        *(of_one_run("p99", n, 0.0, 1000) for n in (200, 683, 5000)),
        of_one_run("p99", 683, 0.5, 1000),
        *(of_pairs("p99 ratio", n, 0.0, 1000) for n in (200, 683)),
    ]
    sys.stdout.write(f"| 95 % interval of | covers the truth, of {simulations:,} simulations |\n|---|---|\n")
    for scenario in scenarios:
        sys.stdout.write(f"| {scenario.name} | {scenario.coverage(simulations):.1%} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
