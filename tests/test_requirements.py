"""What the pinned files install is whole: `make bench` on a fresh clone has no tests' packages to fall back on."""

import importlib.metadata
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

FOLDER = Path(__file__).parents[1] / "requirements"
LEFT_OUT = {
    "live": {
        *("torchaudio", "torchcodec", "torchvision", "triton", "opencv-python-headless", "nvtx", "pytest"),
        *("awscrt", "cuda-python", "cufile-python", "cupy-cuda13x", "google-api-core", "google-cloud-bigtable"),
    },
}
INSTALLED_TOGETHER = {"core": ("core",), "live": ("core", "torch", "live"), "dev": ("core", "dev")}


def _name(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


def _pins(name: str) -> dict[str, str]:
    """Versions by normalised name."""
    lines = (FOLDER / f"{name}.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {_name(package): version for package, version in pairs}


def _required(package: str) -> list[Requirement]:
    """What an installed package asks for on this machine, extras apart."""
    try:
        lines = importlib.metadata.requires(package) or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    found = [Requirement(line) for line in lines]
    return [one for one in found if one.marker is None or one.marker.evaluate({"extra": ""})]


@pytest.mark.parametrize("name", INSTALLED_TOGETHER)
def test_whatever_a_pinned_package_requires_is_pinned_with_it(name: str) -> None:
    """Each requirement is in the files installed before or with it, at a version it takes, or left out by name."""
    pinned = {package: version for part in INSTALLED_TOGETHER[name] for package, version in _pins(part).items()}
    missing = {
        f"{package} requires {one}"
        for package in _pins(name)
        for one in _required(package)
        if _name(one.name) not in LEFT_OUT.get(name, set())
        and (_name(one.name) not in pinned or not one.specifier.contains(pinned[_name(one.name)], prereleases=True))
    }
    assert missing == set()


def test_one_package_has_one_version() -> None:
    """A package in two files is pinned to the same version in both: they are installed into one environment."""
    versions: dict[str, set[str]] = {}
    for name in ("core", "torch", "live", "dev"):
        for package, version in _pins(name).items():
            versions.setdefault(package, set()).add(version)
    assert {package: found for package, found in versions.items() if len(found) > 1} == {}
