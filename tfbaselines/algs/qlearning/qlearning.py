"""Q-learning with a table (Watkins and Dayan 1992).

In the cell s of an observation take the action of the largest Q(s, a), or any action with probability epsilon.

    Q(s, a) <- Q(s, a) + lr (r + discount max_a' Q(s', a') - Q(s, a))

The maximum is 0 after the end of an episode, and the value of the real last observation after a time limit. Epsilon
falls by the factor epsilon_decay with every episode, down to epsilon_min. Ranks explore separately and merge their
tables after each of their episodes.
"""

from typing import Any

import numpy as np

from tfbaselines.algs.qlearning import ALGORITHM, NETWORK, Config
from tfbaselines.algs.qlearning.table import Cells, TablePolicy, tables_part
from tfbaselines.config.algorithm import takes
from tfbaselines.config.config import NetworkSpec
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.base import ended_episodes, last_observation
from tfbaselines.envs.wrappers import require_end
from tfbaselines.errors import bad_argument
from tfbaselines.logs import logger
from tfbaselines.parallel import mpi
from tfbaselines.rollout.collector import random_actions
from tfbaselines.rollout.rollout import continues
from tfbaselines.training.build import check_network
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.on_policy import SearchRun


@takes(ALGORITHM)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Learn a table with Q-learning; the only network is 'table'."""
    config = Config.of(kwargs)
    with SearchRun(ALGORITHM, env, config, of_episodes=True) as run:
        env, policy = run.env, make_policy(network, run.env, config)
        several, table = run.comm.size > 1, policy.table
        model, learner = PolicyModel(policy, rng=run.rng), Learner(env, policy, run.rng, config.discount, several)
        if policy.cells.unbounded.any() and not (config.load_path or run.options.resume):
            set_bounds(policy.cells, learner.seen(config.bounds_steps), run.comm)
            run.learned(config.bounds_steps * env.num_envs, [], {})
        for _ in run.search(model, learner):
            before = table.numpy() if several else None
            epsilon = max(config.epsilon_min, config.epsilon_greedy * config.epsilon_decay**run.episodes.count)
            steps, episodes, error = learner.run(epsilon, run.rates()["lr"])
            if several:
                merge_tables(table.array, before, learner.tried, run.comm)
            run.learned(steps, episodes, {"epsilon": epsilon, "td_error": error})
    return model


def make_policy(network: NetworkSpec, env: Any, config: Config, comm: Any = None) -> TablePolicy:
    """Make a table; `comm` has no effect."""
    check_network(network, config)
    if network != NETWORK:
        accepted = f"qlearning has no dense, convolutional or recurrent networks: only '{NETWORK}'"
        raise bad_argument("network", network, accepted)
    cells = Cells(tables_part(env.observation_space), config.grid_size, config.low, config.high)
    return TablePolicy(env.observation_space, env.action_space, cells, config.initial_value)


class Learner:
    """Acts in all environments and updates the table after each step.

    Attributes:
        tried: [cells, actions] number of updates of each value in the latest run, float32; None unless `count`.
    """

    def __init__(
        self, env: VecEnv, policy: TablePolicy, rng: np.random.Generator, discount: float, count: bool = False
    ) -> None:
        self._env = env
        self.policy = policy
        self._rng = rng
        self._discount = discount
        self.tried = np.zeros_like(policy.table.array) if count else None
        self._obs: np.ndarray | None = None

    def run(self, epsilon: float, lr: float) -> tuple[int, list[dict[str, Any]], float]:
        """Learn until an episode ends, or several in the same step.

        Returns:
            Environment steps, the infos' 'episode' entries, and the mean magnitude of the errors.
        """
        env, policy, table = self._env, self.policy, self.policy.table.array
        start, width = int(env.action_space.start), table.shape[1]
        if self._obs is None:
            self._obs = env.reset()
        if self.tried is not None:
            self.tried.fill(0.0)
        obs, (cells, forbidden), errors, over = self._obs, policy.look(self._obs), [], False
        while not over:
            actions = self._explored(policy.values(cells, forbidden).argmax(axis=1), epsilon, forbidden)
            obs, rewards, dones, infos = env.step(actions + start)
            next_cells, forbidden = policy.look(obs)
            after = policy.values(next_cells, forbidden).max(axis=1)
            over = dones.any()
            if over:
                self._end(after, dones, infos)
            pairs = cells * width + actions
            errors.append(rewards + self._discount * after - table.take(pairs))
            learn_from(table, pairs, errors[-1], lr)
            if self.tried is not None:
                np.add.at(self.tried.reshape(-1), pairs, 1.0)
            cells = next_cells
            require_end(len(errors))
        self._obs = obs
        return len(errors) * env.num_envs, ended_episodes(infos, dones), float(np.abs(errors).mean())

    def seen(self, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Take random steps and return the smallest and largest observations, [D] each; start new episodes."""
        env = self._env
        obs, mask = self.policy.apart(env.reset())
        low, high = _range_of(obs)
        for _ in range(steps):
            if mask is None:
                actions = random_actions(env.action_space, self._rng, env.num_envs)
            else:
                actions = self._allowed(mask > 0) + int(env.action_space.start)
            obs, mask = self.policy.apart(env.step(actions)[0])
            least, most = _range_of(obs)
            low, high = np.minimum(low, least), np.maximum(high, most)
        return low, high

    def state(self) -> dict[str, Any]:
        """Return the observations to act on next; empty before the first run."""
        return {} if self._obs is None else {"obs": self._obs}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `state` if the environments' episodes were restored before this call."""
        if continues(self._env, state):
            self._obs = np.asarray(state["obs"], self._env.observation_space.dtype)

    def _explored(self, actions: np.ndarray, epsilon: float, forbidden: np.ndarray | None) -> np.ndarray:
        """Replace some greedy actions [N], counted from 0, in place, by random ones that are not forbidden [N, A]."""
        drawn, width = self._rng.random(len(actions)), self.policy.table.shape[1]
        random = drawn < epsilon
        if not random.any():
            return actions
        if forbidden is not None:
            actions[random] = self._allowed(forbidden[random] == 0)
        else:
            # Given that it is below epsilon, the drawn number is uniform again: no other draw is needed.
            actions[random] = np.minimum(drawn[random] * (width / epsilon), width - 1).astype(np.int64)
        return actions

    def _allowed(self, allowed: np.ndarray) -> np.ndarray:
        """Draw random actions [B], counted from 0, from the allowed ones [B, A]."""
        return np.where(allowed, self._rng.random(allowed.shape), -1.0).argmax(axis=1)

    def _end(self, after: np.ndarray, dones: np.ndarray, infos: list[dict[str, Any]]) -> None:
        """Set the next values [N] of ended episodes: 0, or after a time limit the value of the last observation."""
        for i in np.flatnonzero(dones):
            after[i] = 0.0
            if infos[i].get("TimeLimit.truncated"):
                last = np.asarray(last_observation(infos[i]))[None]
                after[i] = self.policy.values(*self.policy.look(last)).max()


def _range_of(obs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and largest numbers [D] of observations [N, ...]."""
    rows = obs.reshape(len(obs), -1)
    return rows.min(axis=0), rows.max(axis=0)


def learn_from(table: np.ndarray, pairs: np.ndarray, errors: np.ndarray, lr: float) -> None:
    """Move values of the table, in place, towards their targets: by errors [N], at indices [N] into the flat table.

    Several environments with the same cell and action take as many steps towards the mean of their targets.
    """
    flat = table.reshape(-1)
    if len(pairs) == 1:
        flat[pairs] += lr * errors
        return
    different, which, counts = np.unique(pairs, return_inverse=True, return_counts=True)
    means = np.bincount(which, errors) / counts
    flat[different] += (1.0 - (1.0 - lr) ** counts) * means


def merge_tables(table: np.ndarray, before: np.ndarray, tried: np.ndarray, comm: mpi.Communicator) -> None:
    """Merge the tables of all ranks, in place: average their changes, weighted by each rank's number of updates.

    `before` is the table of every rank before the changes, `tried` the number of this rank's updates since then.
    """
    change, count = comm.sum(np.stack([(table - before) * tried, tried]))
    table[...] = before + change / np.maximum(count, 1.0)


def set_bounds(cells: Cells, seen: tuple[np.ndarray, np.ndarray], comm: mpi.Communicator) -> None:
    """Bound the unbounded dimensions by the observations of all ranks, and log the bounds."""
    missing = np.flatnonzero(cells.unbounded)
    low, high = -comm.max(-seen[0].astype(np.float64)), comm.max(seen[1].astype(np.float64))
    cells.bound(low, high)
    ranges = ", ".join(f"{cells.low[d]:.3g} to {cells.high[d]:.3g} in dimension {d}" for d in missing)
    logger.info(f"the observation space is unbounded; bounds of the grid from random steps: {ranges}")
