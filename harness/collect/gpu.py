"""NVIDIA GPUs, by NVML; nothing where there are none, or where its Python binding (nvidia-ml-py) is not installed."""

import contextlib
import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Self

Reading = tuple[str, str, float]


class GpuReader:
    """A context manager that reads every GPU of the machine; without NVML it has none."""

    def __init__(self) -> None:
        self._nvml: ModuleType | None = None
        self._handles: list[object] = []

    def __enter__(self) -> Self:
        try:
            self._nvml = importlib.import_module("pynvml")
        except ImportError:
            return self
        try:
            self._nvml.nvmlInit()
            self._handles = [self._nvml.nvmlDeviceGetHandleByIndex(i) for i in range(self._nvml.nvmlDeviceGetCount())]
        except self._nvml.NVMLError:
            self._handles = []
        return self

    def __exit__(self, *_: object) -> None:
        if self._nvml is not None and self._handles:
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()

    def read(self) -> tuple[Reading, ...]:
        """(GPU, name, value): `utilization_percent` and `memory_utilization_percent` (shares of time in which a kernel
        ran, or memory moved), `memory_used_bytes`, `power_w`, `sm_clock_mhz`, `throttle_reasons` (NVML's bit mask).

        What a GPU does not tell is left out.
        """
        return tuple(
            (f"gpu-{index}", name, value)
            for index, handle in enumerate(self._handles)
            for name, value in self._one(handle)
        )

    def _one(self, handle: object) -> Iterator[tuple[str, float]]:
        nvml = self._nvml
        assert nvml is not None  # noqa: S101 - there are no handles without it
        with contextlib.suppress(nvml.NVMLError):
            rates = nvml.nvmlDeviceGetUtilizationRates(handle)
            yield "utilization_percent", float(rates.gpu)
            yield "memory_utilization_percent", float(rates.memory)
        with contextlib.suppress(nvml.NVMLError):
            yield "memory_used_bytes", float(nvml.nvmlDeviceGetMemoryInfo(handle).used)
        with contextlib.suppress(nvml.NVMLError):
            yield "power_w", nvml.nvmlDeviceGetPowerUsage(handle) / 1e3
        with contextlib.suppress(nvml.NVMLError):
            yield "sm_clock_mhz", float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))
        with contextlib.suppress(nvml.NVMLError):
            yield "throttle_reasons", float(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
