"""Seconds that a run spends in each phase: collect, update, test, save; with --timers also act and environment.

    collect     steps of the environments, with the actions: act and environment
    update      the rest of an update of the algorithm: advantages, gradient steps, replay
    test        tests between updates
    save        checkpoints

The phases are read twice an update. Only --timers reads the clock in every step, in a wrapper of the environments.
"""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.base import StepResult, VecEnvWrapper

PREFIX = "timers/"


class Timers:
    """Count the seconds of each phase of a run.

    Attributes:
        seconds: seconds by phase, since the run began or was resumed.

    Args:
        steps: time the environments in every step.
    """

    def __init__(self, steps: bool) -> None:
        self.seconds: dict[str, float] = {}
        self._steps = steps
        self._began = self._update_began = time.perf_counter()
        self._before = 0.0

    def watched(self, env: VecEnv) -> VecEnv:
        """Return environments that count their seconds, if steps are timed."""
        return TimedEnvs(env, self) if self._steps else env

    def add(self, phase: str, started: float) -> None:
        """Add the time since `started`, a time.perf_counter()."""
        self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - started

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a block."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, started)

    def begin_update(self) -> None:
        """Begin the time of an update of the algorithm."""
        self._update_began = time.perf_counter()
        self._before = self._apart()

    def end_update(self) -> None:
        """Count what the update took beside its other phases."""
        self.add("update", self._update_began + self._apart() - self._before)

    def _apart(self) -> float:
        return sum(self.seconds.get(name, 0.0) for name in ("collect", "test", "save"))

    def phases(self) -> dict[str, float]:
        """Return the seconds of each phase in their order, and of everything else."""
        seconds = self.seconds
        whole = time.perf_counter() - self._began
        shown = {name: seconds[name] for name in ("collect", "update", "test", "save") if name in seconds}
        shown["other"] = max(0.0, whole - sum(shown.values()))
        if "environment" in seconds and "collect" in seconds:
            # Tests step other environments.
            shown["environment"] = seconds["environment"]
            shown["act"] = max(0.0, seconds["collect"] - seconds["environment"])
        return shown

    def columns(self) -> dict[str, float]:
        """Return the columns of the logs: seconds and shares of the phases, if steps are timed."""
        if not self._steps:
            return {}
        phases = self.phases()
        whole = max(time.perf_counter() - self._began, 1e-9)
        shares = {f"{PREFIX}{name}_share": seconds / whole for name, seconds in phases.items()}
        return {f"{PREFIX}{name}": seconds for name, seconds in phases.items()} | shares

    def text(self) -> str:
        """Return one line with the seconds and shares of the phases."""
        whole = max(time.perf_counter() - self._began, 1e-9)
        phases = self.phases()
        inner = {name: phases.pop(name) for name in ("act", "environment") if name in phases}
        words = [f"{name} {seconds:.1f} s ({100 * seconds / whole:.0f} %)" for name, seconds in phases.items()]
        if inner:
            parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in inner.items())
            words[0] += f" with {parts}"
        return f"time: {whole:.1f} s: {', '.join(words)}"


class TimedEnvs(VecEnvWrapper):
    """Environments that count the seconds of their steps, whether these are taken by `step` or in two parts."""

    keeps_observations = True

    def __init__(self, venv: VecEnv, timers: Timers) -> None:
        super().__init__(venv)
        self._timers = timers

    def reset(self) -> np.ndarray:
        return self.venv.reset()

    def step(self, actions: Any) -> StepResult:
        started = time.perf_counter()
        result = self.venv.step(actions)
        self._timers.add("environment", started)
        return result

    def step_async(self, actions: Any) -> None:
        started = time.perf_counter()
        self.venv.step_async(actions)
        self._timers.add("environment", started)

    def step_wait(self) -> StepResult:
        started = time.perf_counter()
        result = self.venv.step_wait()
        self._timers.add("environment", started)
        return result
