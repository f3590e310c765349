"""The on-policy runner, which stores experience as arrays [T, N] (time, environment), and functions of returns."""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.base import ended_episodes, last_observation
from tfbaselines.files import require_memory
from tfbaselines.policy.base import BlockActor, SamplingActor
from tfbaselines.policy.policy import Policy


def backward_recursion(increment: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Compute x_t = increment_t + factor_t * x_{t+1}, with x_T = 0.

    The environments' sequences are concatenated and the recursion runs once over Python floats, with factor 0 at each
    sequence's end. For the sizes of a rollout this is several times faster than T steps of small numpy operations.

    Increments and factors are [T, N], the result in float64.
    """
    factor = np.array(factor, np.float64)
    factor[-1] = 0.0
    out, x = [], 0.0
    backwards = slice(None, None, -1)
    for inc, fac in zip(increment.T.ravel()[backwards].tolist(), factor.T.ravel()[backwards].tolist(), strict=True):
        x = inc + fac * x
        out.append(x)
    return np.asarray(out[::-1]).reshape(increment.T.shape).T


def gae(
    rewards: np.ndarray,
    values: np.ndarray,
    episode_start: np.ndarray,
    last_values: np.ndarray,
    last_episode_start: np.ndarray,
    gamma: float,
    lam: float,
) -> np.ndarray:
    """Compute generalized advantage estimates (Schulman et al. 2016).

        delta_t = r_t + gamma * V_{t+1} * (1 - start_{t+1}) - V_t
        A_t     = delta_t + gamma * lam * (1 - start_{t+1}) * A_{t+1}

    Args:
        rewards: [T, N]; at a time-out, gamma times the value of the real last observation is already added.
        values: [T, N], V of the observation before each step.
        episode_start: [T, N], whether the observation before each step is the first of an episode.
        last_values: [N], V of the observation after the last step.
        last_episode_start: [N], whether that observation is the first of an episode.
        gamma: discount per step.
        lam: GAE lambda.
    """
    next_values = np.concatenate([values[1:], last_values[None]], dtype=np.float64)
    continues = 1.0 - np.concatenate([episode_start[1:], last_episode_start[None]], dtype=np.float64)
    deltas = rewards + gamma * next_values * continues - values
    return backward_recursion(deltas, gamma * lam * continues)


def n_step_returns(rewards: np.ndarray, ended: np.ndarray, last_values: np.ndarray, gamma: float) -> np.ndarray:
    """Compute discounted returns to the episode's end, or to the value of the observation after the last step.

        R_t = r_t + gamma * (1 - ended_t) * R_{t+1},  R_T = last value

    Rewards and `ended`, whether each step ended its episode, are [T, N], last_values [N].
    """
    continues = 1.0 - ended.astype(np.float64)
    increments = rewards.astype(np.float64)
    increments[-1] += gamma * continues[-1] * last_values
    return backward_recursion(increments, gamma * continues)


def discount(x: np.ndarray, gamma: float) -> np.ndarray:
    """Compute y_t = x_t + gamma * y_{t+1} along the first axis; x is [T] or [T, N]."""
    columns = x.reshape(len(x), -1)
    return backward_recursion(columns, np.full(columns.shape, gamma)).reshape(x.shape)


def standardized(x: np.ndarray) -> np.ndarray:
    """Scale to mean 0 and standard deviation 1 in float32; equal numbers become zeros."""
    centered = x - x.mean(dtype=np.float64)
    return (centered / (x.std(dtype=np.float64) or 1.0)).astype(np.float32)


def explained_variance(ypred: np.ndarray, y: np.ndarray) -> float:
    """Compute 1 - Var[y - ypred] / Var[y]: 1 is perfect, 0 is as good as a constant; nan for constant targets y."""
    variance = np.var(y)
    return float("nan") if variance == 0 else float(1 - np.var(y - ypred) / variance)


# A rollout is held as arrays, as rows and as tensors. Networks need more memory than a small row.
ROLLOUT_COPIES = 3
MIN_ROW_BYTES = 512

# Effects of an episode's end on the returns of a reward signal: they end, unless a time limit ended the episode; they
# always bootstrap from the last observation's value; or they continue in the next episode.
ENDS = TERMINATE, TIME_OUT, GO_ON = "terminate", "time_out", "go_on"


@dataclass
class Rollout:
    """T steps of N environments. The arrays belong to the runner; its next run overwrites them.

    Attributes:
        obs: [T, N, ...] observations before each step.
        actions: [T, N, ...] actions taken.
        rewards: [T, N].
        values: [T, N] value of obs; with K reward signals [T, N, K], as are timeout_values, end_values and
            last_values [N, K].
        neglogps: [T, N] negative log probability of actions; None unless the runner keeps them.
        episode_start: [T, N] whether obs is the first of an episode (the originals' dones and masks).
        truncated: [T, N] whether a time limit ended the episode at the step.
        timeout_values: [T, N] value of the real last observation where the step is truncated, else 0.
        last_values: [N] value of the observation after the last step.
        last_episode_start: [N] whether that observation is the first of an episode.
        states: [N, S] recurrent state before the first step, or None.
        next_obs: [T, N, ...] observations after each step, at an episode's end its real last one; None unless the
            runner keeps them.
        end_values: [T, N] value of the real last observation where an episode ends, else 0; None without next_obs.
        valid: [T, N] whether the step counts; None if all do. See VecEnv.
        episodes: the infos' 'episode' entries of the episodes that ended.
    """

    obs: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    values: np.ndarray
    neglogps: np.ndarray | None
    episode_start: np.ndarray
    truncated: np.ndarray
    timeout_values: np.ndarray
    last_values: np.ndarray | None = None
    last_episode_start: np.ndarray | None = None
    states: np.ndarray | None = None
    next_obs: np.ndarray | None = None
    end_values: np.ndarray | None = None
    valid: np.ndarray | None = None
    episodes: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ended(self) -> np.ndarray:
        """[T, N] whether each step ended its episode."""
        return np.concatenate([self.episode_start[1:], self.last_episode_start[None]])

    @property
    def terminated(self) -> np.ndarray:
        """[T, N] whether each step ended its episode by itself, not by a time limit."""
        return self.ended & ~self.truncated

    def advantages(self, gamma: float, lam: float) -> np.ndarray:
        """Compute advantage estimates [T, N] in float32; a truncated step bootstraps from its timeout value."""
        starts, last_starts = self.episode_start, self.last_episode_start
        estimates = gae(self._bootstrapped(gamma), self.values, starts, self.last_values, last_starts, gamma, lam)
        return estimates.astype(np.float32)

    def lambda_returns(self, gamma: float, lam: float) -> np.ndarray:
        """Compute the values' targets [T, N] of GAE in float32: advantage estimates plus values."""
        return self.advantages(gamma, lam) + self.values

    def n_step_returns(self, gamma: float) -> np.ndarray:
        """Compute discounted returns [T, N] in float32, to the episode's end or the value after the last step."""
        return n_step_returns(self._bootstrapped(gamma), self.ended, self.last_values, gamma).astype(np.float32)

    def stream(self, number: int, rewards: np.ndarray, ends: str) -> "Rollout":
        """Select the values of a reward signal by its number, with its rewards [T, N] and one of ENDS."""
        changes = {
            "values": self.values[..., number],
            "last_values": self.last_values[..., number],
            "timeout_values": (self.timeout_values if ends == TERMINATE else self.end_values)[..., number],
        }
        if ends == GO_ON:
            changes["timeout_values"] = np.zeros_like(changes["values"])
            changes |= {name: np.zeros_like(getattr(self, name)) for name in ("episode_start", "last_episode_start")}
        return dataclasses.replace(self, rewards=rewards, **changes)

    def batch(self, recurrent: bool, **arrays: np.ndarray) -> dict[str, np.ndarray]:
        """Make a batch for losses: obs, actions, values, neglogpacs and valid if there are any, and further arrays.

        Args:
            recurrent: make sequences.
            arrays: arrays [T, N, ...] by name.

        Returns:
            Rows ordered by environment, then time [N * T, ...]; recurrent: sequences [N, T, ...], with episode_start
            [N, T] and states [N, S].
        """
        named = {"obs": self.obs, "actions": self.actions, "values": self.values, **arrays}
        if self.neglogps is not None:
            named["neglogpacs"] = self.neglogps
        if self.valid is not None:
            named["valid"] = self.valid.astype(np.float32)
        if not recurrent:
            return {name: env_major(array) for name, array in named.items()}
        named["episode_start"] = self.episode_start.astype(np.float32)
        sequences = {name: np.ascontiguousarray(array.swapaxes(0, 1)) for name, array in named.items()}
        return sequences | {"states": self.states}

    def counted(self, array: np.ndarray) -> np.ndarray:
        """Return the valid rows of an array [T, N, ...], ordered by environment, then time."""
        rows = env_major(array)
        return rows if self.valid is None else rows[env_major(self.valid)]

    def _bootstrapped(self, gamma: float) -> np.ndarray:
        return self.rewards + gamma * self.timeout_values


class Runner:
    """Collects rollouts of `nsteps` steps; each continues where the previous one ended.

    The first rollout begins with a reset of the environments, unless `restore` loaded a state within their episodes.

    Args:
        env: the environments.
        policy: has the shapes of actions, noise and recurrent states.
        actor: acts step by step; a BlockActor computes values once for a whole rollout.
        nsteps: T.
        rng: generator of the sampling noise.
        keep_next_obs: fill the rollouts' next_obs and end_values.
        keep_neglogps: fill the rollouts' neglogps.
    """

    def __init__(
        self,
        env: VecEnv,
        policy: Policy,
        actor: SamplingActor,
        nsteps: int,
        rng: np.random.Generator,
        keep_next_obs: bool = False,
        keep_neglogps: bool = True,
    ) -> None:
        self._env = env
        self._actor = actor
        self._head = policy.head
        self._rng = rng
        # Checked once because checks of a protocol are slow.
        self._in_blocks = isinstance(actor, BlockActor)
        self.nsteps = nsteps
        shape = (nsteps, env.num_envs)
        space = env.observation_space
        obs_dtype = np.float32 if space.dtype == np.float64 else space.dtype
        row = math.prod(space.shape) * np.dtype(obs_dtype).itemsize + 4 * math.prod(self._head.action_shape)
        require_memory(math.prod(shape) * (row * ROLLOUT_COPIES + MIN_ROW_BYTES), "nsteps or num_env", "a rollout")
        self._rollout = Rollout(
            obs=np.zeros((*shape, *space.shape), obs_dtype),
            actions=np.zeros((*shape, *self._head.action_shape), self._head.action_dtype),
            rewards=np.zeros(shape, np.float32),
            values=np.zeros((*shape, *policy.value_shape), np.float32),
            neglogps=np.zeros(shape, np.float32) if keep_neglogps else None,
            episode_start=np.zeros(shape, bool),
            truncated=np.zeros(shape, bool),
            timeout_values=np.zeros((*shape, *policy.value_shape), np.float32),
            next_obs=np.zeros((*shape, *space.shape), obs_dtype) if keep_next_obs else None,
            end_values=np.zeros((*shape, *policy.value_shape), np.float32) if keep_next_obs else None,
            valid=None if getattr(env, "valid", None) is None else np.zeros(shape, bool),
        )
        self._obs = np.zeros(shape[1:] + space.shape, obs_dtype)
        self._begun = False
        self._episode_start = np.zeros(env.num_envs, bool)
        self._states = policy.initial_state(env.num_envs)

    def run(self) -> Rollout:
        """Step every environment nsteps times."""
        rollout, noise = self._begin()
        (self._collect_then_evaluate if self._in_blocks else self._collect)(rollout, noise)
        rollout.last_values = self._actor.value(self._obs, self._states, self._episode_start)
        rollout.last_episode_start = self._episode_start
        return rollout

    def state(self) -> dict[str, Any]:
        """Save the next step's observations and recurrent states; empty before the first run."""
        if not self._begun:
            return {}
        states = None if self._states is None else np.array(self._states)
        return {"obs": self._obs.copy(), "episode_start": np.array(self._episode_start), "states": states}

    def restore(self, state: dict[str, Any]) -> None:
        """Load a state if the environments continue their episodes; restore the environments first."""
        if not continues(self._env, state):
            return
        self._obs[...] = state["obs"]
        self._episode_start = np.array(state["episode_start"], bool)
        self._states = None if state["states"] is None else np.array(state["states"])
        self._begun = True

    def _begin(self) -> tuple[Rollout, np.ndarray]:
        """Clear the rollout, and draw the noise [T, N, ...] of its actions."""
        if not self._begun:
            self._obs[...] = self._env.reset()
            self._begun = True
        rollout = self._rollout
        rollout.states = self._states
        rollout.episodes = []
        rollout.truncated.fill(False)
        rollout.timeout_values.fill(0.0)
        if rollout.end_values is not None:
            rollout.end_values.fill(0.0)
        return rollout, self._head.draw_noise(self._rng, (self.nsteps, self._env.num_envs))

    def _collect_then_evaluate(self, rollout: Rollout, noise: np.ndarray) -> None:
        act = self._actor.act
        for t in range(self.nsteps):
            self._step(rollout, t, act(self._obs, noise[t]))
        steps = self.nsteps * self._env.num_envs
        obs, actions = (array.reshape(steps, *array.shape[2:]) for array in (rollout.obs, rollout.actions))
        if rollout.neglogps is None:
            values = self._actor.value(obs)
        else:
            values, neglogps = self._actor.evaluate(obs, actions)
            rollout.neglogps[...] = neglogps.reshape(rollout.neglogps.shape)
        rollout.values[...] = values.reshape(rollout.values.shape)

    def _collect(self, rollout: Rollout, noise: np.ndarray) -> None:
        for t in range(self.nsteps):
            step = self._actor.step(self._obs, self._states, self._episode_start, noise[t])
            rollout.values[t] = step.values
            if rollout.neglogps is not None:
                rollout.neglogps[t] = step.neglogps
            self._states = step.states
            self._step(rollout, t, step.actions)

    def _step(self, rollout: Rollout, t: int, actions: np.ndarray) -> None:
        """Step the environments and store the transition."""
        rollout.obs[t] = self._obs
        rollout.episode_start[t] = self._episode_start
        rollout.actions[t] = actions
        if rollout.valid is not None:
            rollout.valid[t] = self._env.valid
        obs, rollout.rewards[t], self._episode_start, infos = self._env.step(actions)
        self._obs[...] = obs
        if rollout.next_obs is not None:
            rollout.next_obs[t] = obs
        # A fifth of the time of any().
        if np.count_nonzero(self._episode_start):
            rollout.episodes += ended_episodes(infos, self._episode_start)
            for i in np.flatnonzero(self._episode_start):
                rollout.truncated[t, i] = bool(infos[i].get("TimeLimit.truncated"))
                self._bootstrap(rollout, t, i, infos[i])

    def _bootstrap(self, rollout: Rollout, t: int, i: int, info: dict[str, Any]) -> None:
        """Store the last observation of environment i's episode and its value, where they are needed."""
        truncated, keeps = rollout.truncated[t, i], rollout.next_obs is not None
        if not (truncated or keeps):
            return
        last = np.asarray(last_observation(info), self._obs.dtype)
        # The present state follows the step that ended the episode: it belongs to `last`.
        states = None if self._states is None else self._states[i : i + 1]
        value = self._actor.value(last[None], states, np.zeros(1, bool))[0]
        if truncated:
            rollout.timeout_values[t, i] = value
        if keeps:
            rollout.next_obs[t, i] = last
            rollout.end_values[t, i] = value


def continues(env: VecEnv, state: dict[str, Any]) -> bool:
    """Check whether the episodes of a saved runner or collector continue."""
    return bool(state) and env.restored


def env_major(array: np.ndarray) -> np.ndarray:
    """Reshape [T, N, ...] to rows ordered by environment, then time: [N * T, ...]."""
    return array.swapaxes(0, 1).reshape(array.shape[0] * array.shape[1], *array.shape[2:])


def shuffled(rng: np.random.Generator, rows: int, nminibatches: int, noptepochs: int) -> np.ndarray:
    """Draw indices [noptepochs * nminibatches, rows / nminibatches]: each epoch is one permutation."""
    return minibatches(rng, rows, rows // nminibatches, noptepochs)


def minibatches(rng: np.random.Generator, rows: int, size: int, epochs: int) -> np.ndarray:
    """Draw indices [epochs * (rows // size), size]: each epoch is one permutation; left-over rows are dropped."""
    whole = rows // size * size
    return np.reshape([rng.permutation(rows)[:whole] for _ in range(epochs)], (-1, size)).astype(np.int32)
