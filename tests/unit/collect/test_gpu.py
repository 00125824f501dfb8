"""harness.collect.gpu: NVIDIA GPUs, where there are any. A stand-in for NVML's binding, since no GPU is here."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from harness.collect.gpu import GpuReader


class NoGpuError(Exception):
    """What NVML raises."""


def _nvml(**calls: Any) -> ModuleType:
    module = ModuleType("pynvml")
    found = {
        "NVMLError": NoGpuError,
        "NVML_CLOCK_SM": 1,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetUtilizationRates": lambda index: SimpleNamespace(gpu=7 + index, memory=3),
        "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(used=10**9),
        "nvmlDeviceGetPowerUsage": lambda _: 250_500,
        "nvmlDeviceGetClockInfo": lambda _handle, _clock: 1980,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda _: 4,
    }
    vars(module).update(found | calls)
    return module


def _fail(*_: object) -> None:
    raise NoGpuError


def test_every_gpu_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each GPU's own figures, in their units."""
    monkeypatch.setitem(sys.modules, "pynvml", _nvml())
    with GpuReader() as gpus:
        values = {(gpu, name): value for gpu, name, value in gpus.read()}
    assert (values["gpu-0", "utilization_percent"], values["gpu-1", "utilization_percent"]) == (7.0, 8.0)
    assert (values["gpu-0", "memory_used_bytes"], values["gpu-0", "power_w"]) == (1e9, 250.5)
    assert (values["gpu-0", "sm_clock_mhz"], values["gpu-0", "throttle_reasons"]) == (1980.0, 4.0)


def test_what_a_gpu_does_not_tell_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A figure that NVML refuses is absent, never 0; the others are there."""
    monkeypatch.setitem(sys.modules, "pynvml", _nvml(nvmlDeviceGetPowerUsage=_fail))
    with GpuReader() as gpus:
        names = {name for _, name, _ in gpus.read()}
    assert "power_w" not in names
    assert "utilization_percent" in names


@pytest.mark.parametrize("module", [None, _nvml(nvmlInit=_fail)], ids=["no binding", "no driver"])
def test_without_nvml_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch, module: ModuleType | None) -> None:
    """No binding installed, or no driver under it: nothing to read, and no error."""
    monkeypatch.setitem(sys.modules, "pynvml", module)  # type: ignore[arg-type] # None makes its import fail
    with GpuReader() as gpus:
        assert gpus.read() == ()
