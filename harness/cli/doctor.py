"""`kvreplay doctor`: what this machine can run, and the command that mends what it cannot."""

import json
from typing import Annotated

import typer

from harness.experiment.doctor import examine


def doctor(as_json: Annotated[bool, typer.Option("--json", help="one JSON document")] = False) -> None:
    """Say what is missing on this machine; exit 0 if the CPU stack can run live here, 1 if not."""
    checks = examine()
    if as_json:
        print(
            json.dumps([{"name": c.name, "ok": c.ok, "found": c.found, "remedy": c.remedy} for c in checks], indent=2)
        )
    else:
        for check in checks:
            mark = "ok     " if check.ok else "missing" if check.needed else "without"
            print(f"{mark}  {check.name}: {check.found}")
            if not check.ok and check.remedy:
                print(f"           {check.remedy}")
    raise typer.Exit(0 if all(check.ok or not check.needed for check in checks) else 1)
