"""The vector environment that the trainer of one behavior sees: a row for each agent of each copy."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfbaselines.envs.monitor import ResultsWriter
from tfbaselines.envs.vec.base import LAST, StepResult, VecEnv
from tfbaselines.envs.vec.gymnasium_vec import OneOf
from tfbaselines.envs.vec.observations import Fit, NumberChecks, Observations, flattened, with_named_parts
from tfbaselines.envs.vec.worker import check_spaces
from tfbaselines.envs.wrappers import clipped
from tfbaselines.multi.agents import Outcome


class BehaviorVecEnv(VecEnv):
    """The agents of one behavior; a step waits until every behavior has chosen its actions.

    Attributes:
        valid: [N] whether the agent of each row acts.
        actions: the actions of the present step, for the environment.

    Args:
        names: name of each row, for errors.
        spaces: spaces of an agent's observations and actions.
        flatten: flatten Dict and Tuple observations.
        wait: waits for the outcome of the actions, or of a reset.
    """

    valid: np.ndarray

    def __init__(self, names: Sequence[str], spaces: tuple[Any, Any], flatten: bool, wait: Callable[[], None]) -> None:
        self._one = OneOf(*spaces)
        check_spaces(self._one)
        self._shown = flattened(self._one) if flatten else with_named_parts(self._one)
        self._acting = clipped(self._one)
        super().__init__(len(names), self._shown.observation_space, self._one.action_space)
        self._wait = wait
        self._fit = Fit(self.observation_space)
        self._buffer = Observations(self.num_envs, self.observation_space)
        self._checks = NumberChecks(names, self._buffer)
        self.valid = np.zeros(self.num_envs, bool)
        self.actions: list[Any] | None = None
        self._outcomes: list[Outcome] = []
        self._begun = False
        self._began = time.time()
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, int)
        self._writers: list[ResultsWriter] = []

    def write_episodes(self, paths: Sequence[str], append: bool) -> None:
        """Write the episodes of each row to a monitor file."""
        header = {"t_start": self._began}
        self._writers = [ResultsWriter(path, header, append=append) for path in paths]

    def take(self, outcomes: list[Outcome]) -> None:
        """Take the rows after a reset or a step."""
        self._outcomes = outcomes

    def reset(self) -> Any:
        """Return the present observations; all behaviors begin together, and trained ones go on."""
        if not self._begun:
            self._begun = True
            self._wait()
            self._put(self._outcomes)
            self._checks.begun()
        return self._buffer.copy()

    def step_async(self, actions: np.ndarray) -> None:
        self.check_actions(actions)
        dtype, self.actions = self.action_space.dtype, []
        for action in actions:
            self._acting.step(action)
            chosen = np.asarray(self._one.action, dtype)
            self.actions.append(chosen if chosen.shape else chosen.item())

    def step_wait(self) -> StepResult:
        self._wait()
        outcomes = self._outcomes
        infos = [outcome.info for outcome in outcomes]
        rewards = np.array([outcome.reward for outcome in outcomes], np.float64)
        dones = np.array([outcome.done for outcome in outcomes], bool)
        self._returns += rewards
        self._lengths += self.valid
        for i in np.flatnonzero(dones & self.valid):
            self._end_episode(i, infos[i])
        self._put(outcomes)
        self._checks.stepped(rewards, dones)
        return self._buffer.copy(), rewards.astype(np.float32), dones, infos

    def _end_episode(self, i: int, info: dict[str, Any]) -> None:
        # An agent that dies may have no last observation: a termination needs none.
        info[LAST] = self._row(i) if info[LAST] is None else self._converted(info[LAST])
        self._fit(info[LAST], "final observation")
        self._checks.final(i, info)
        seconds = round(time.time() - self._began, 6)
        info["episode"] = {"r": round(float(self._returns[i]), 6), "l": int(self._lengths[i]), "t": seconds}
        if self._writers:
            self._writers[i].write_row(info["episode"])
        self._returns[i] = 0.0
        self._lengths[i] = 0

    def _put(self, outcomes: list[Outcome]) -> None:
        """Put the new observations into the batch; rows without one keep their last, and are not valid."""
        self.valid = np.array([outcome.obs is not None for outcome in outcomes])
        for i in np.flatnonzero(self.valid):
            obs = self._converted(outcomes[i].obs)
            self._fit(obs, "observation")
            self._buffer.put(i, obs)

    def _converted(self, obs: Any) -> Any:
        self._one.obs = obs
        return self._shown.reset()[0]

    def _row(self, i: int) -> Any:
        batch = self._buffer.copy()
        return {name: part[i] for name, part in batch.items()} if isinstance(batch, dict) else batch[i]
