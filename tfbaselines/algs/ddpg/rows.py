"""The rows of DDPG's logs under the names of baselines."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.compiling import compiled
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.base import ended_episodes
from tfbaselines.logs.rows import safe_mean
from tfbaselines.policy.actor_critic import ActorCritic

# Names of arrays in batches saved by older versions.
OLD_NAMES = {"masks": "episode_start"}


def reference_statistics(
    policy: ActorCritic,
    batch: dict[str, Any],
    perturbed: ActorCritic | None,
    return_range: tuple[float, float] = (-np.inf, np.inf),
) -> dict[str, Any]:
    """Mean and deviation of actions and values of one batch that stays the same over a run, by name.

    Args:
        policy: the actor with its critic.
        batch: of the replay.
        perturbed: the actor with noise in its parameters, or None.
        return_range: range to which values are clipped, in units of the statistics of returns.
    """
    view = policy.view_of(batch)
    unit = policy.head.unit
    actions = policy.head.mode(policy.act(view))
    judged = {"reference_Q": batch["actions"], "reference_actor_Q": actions}
    values = {
        name: policy.returns_of(tf.clip_by_value(policy.q(view, judged_actions)[0], *return_range))
        for name, judged_actions in judged.items()
    } | {
        "reference_action": unit(actions),
    }
    if perturbed is not None:
        values["reference_perturbed_action"] = unit(perturbed.head.mode(perturbed.act(view)))
    return {
        f"{name}_{kind}": reduce(value)
        for name, value in values.items()
        for kind, reduce in (("mean", tf.reduce_mean), ("std", tf.math.reduce_std))
    }


class Epoch:
    """Numbers of an epoch: values as they came, in lists that grow."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin the next one."""
        self.returns: list[float] = []
        self.lengths: list[float] = []
        self.distances: list[float] = []
        self.eval_returns: list[float] = []
        self.actions: list[np.ndarray] = []
        self.values: list[np.ndarray] = []
        self.eval_values: list[np.ndarray] = []
        self.losses: dict[str, list[np.ndarray]] = {"loss_actor": [], "loss_critic": []}

    def state(self) -> dict[str, Any]:
        """All of it, each list as one array."""
        lists = {name: value for name, value in vars(self).items() if isinstance(value, list)} | self.losses
        return {name: np.concatenate([np.atleast_1d(one) for one in value]) for name, value in lists.items() if value}

    def restore(self, state: dict[str, Any]) -> None:
        """Take it back."""
        for name, value in state.items():
            if name in self.losses:
                self.losses[name] = [value]
            else:
                # Numbers are added to one by one, arrays as arrays.
                arrays = name in ("actions", "values", "eval_values")
                setattr(self, name, [value] if arrays else value.tolist())


class Beside:
    """Acts without noise in environments beside those of training, and goes on where the cycle before left.

    Args:
        env: the environments.
        model: whose policy acts.
        steps: of a cycle.
        render: show them.
    """

    def __init__(self, env: VecEnv, model: Any, steps: int, render: bool) -> None:
        self._env, self._model, self._steps, self._render = env, model, steps, render
        self._obs: Any = None

    def state(self) -> dict[str, Any]:
        """What it acts on next, in the episodes that the environments' own state is of; empty before the first step."""
        if self._obs is None:
            return {}
        return {"obs": self._obs, "states": self._states, "episode_start": self._first}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave, if the environments' episodes were restored: call it after theirs."""
        if state and self._env.restored:
            self._obs, self._states, self._first = state["obs"], state["states"], state["episode_start"]

    def __call__(self, epoch: Epoch) -> list[dict[str, Any]]:
        """Act for a cycle; adds values and returns to an epoch's, and gives the episodes that ended."""
        env, model, episodes = self._env, self._model, []
        if self._obs is None:
            self._obs = env.reset()
            self._states = model.policy.initial_state(env.num_envs)
            self._first = np.ones(env.num_envs, bool)
        for _ in range(self._steps):
            epoch.eval_values.append(model.value(self._obs, self._states, self._first))
            actions, self._states = model.act(self._obs, self._states, True, self._first)
            self._obs, _, self._first, infos = env.step(actions)
            if self._render:
                env.render()
            episodes += ended_episodes(infos, self._first)
        epoch.eval_returns += [episode["r"] for episode in episodes]
        return episodes


class DDPGRows:
    """Collects the numbers of an epoch's row.

    Args:
        run: the OffPolicyRun whose rows they are.
        model: its model.
        exploration: with the actor that has noise in its parameters, if there is one.
        beside: acts in other environments, too; None for none.
    """

    def __init__(
        self,
        run: Any,
        model: Any,
        exploration: Any,
        beside: Beside | None,
    ) -> None:
        self._run, self._model, self._perturbed, config = run, model, exploration.perturbed, run.config
        self._beside = beside
        return_range = config.return_range or (-np.inf, np.inf)
        policy = self._model.policy
        perturbed = self._perturbed and self._perturbed.policy
        self._statistics = compiled(lambda batch: reference_statistics(policy, batch, perturbed, return_range))
        # A batch that the rows report on as long as the run goes on.
        self._reference: dict[str, Any] | None = None
        self._epoch = Epoch()

    @property
    def acting(self) -> list[Any]:
        """What has a state in the middle of an epoch."""
        return [self._epoch, *([] if self._beside is None else [self._beside])]

    def ready(self) -> None:
        """Nothing follows the parameters."""

    def observed(self) -> None:
        """Nothing depends on the statistics of observations."""

    def state(self) -> dict[str, Any]:
        """The batch that the rows report on."""
        return {"reference": self._reference}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave."""
        reference = state["reference"]
        self._reference = reference and {OLD_NAMES.get(name, name): array for name, array in reference.items()}

    def collected(self, episodes: list[dict[str, Any]]) -> None:
        """Remember a cycle's episodes, actions and values."""
        epoch = self._epoch
        epoch.returns += [episode["r"] for episode in episodes]
        epoch.lengths += [episode["l"] for episode in episodes]
        obs, actions = self._run.replay.latest(self._run.course.collected)
        epoch.actions.append(self._model.policy.head.unit_numpy(actions))
        if not self._model.policy.recurrent:
            # Values need the memory of each step, which is not kept.
            epoch.values.append(self._model.value(obs))
        if self._beside is not None:
            self._run.eval_episodes.extend(self._beside(epoch))

    def learnt(self, statistics: dict[str, np.ndarray]) -> None:
        """Remember the statistics of gradient steps."""
        for name, values in statistics.items():
            self._epoch.losses[name].append(values)

    def moved(self, distance: float) -> None:
        """Remember how far noise in the parameters moved actions."""
        self._epoch.distances.append(distance)

    def __call__(self) -> dict[str, Any]:
        """End the epoch, and give its row: means over ranks."""
        run, epoch = self._run, self._epoch
        actions = np.concatenate(epoch.actions)
        tested = [episode["r"] for episode in run.test()]
        row = self._reference_row() | {
            "rollout/return": safe_mean(epoch.returns),
            "rollout/return_std": float(np.std(epoch.returns)) if epoch.returns else float("nan"),
            "rollout/return_history": run.episodes.mean_reward,
            "rollout/return_history_std": run.episodes.std_reward,
            "rollout/episode_steps": safe_mean(epoch.lengths),
            "rollout/episodes": len(epoch.returns),
            "rollout/actions_mean": safe_mean(actions),
            "rollout/actions_std": float(np.std(actions)),
            "rollout/Q_mean": _mean_of(epoch.values),
            "train/loss_actor": _mean_of(epoch.losses["loss_actor"]),
            "train/loss_critic": _mean_of(epoch.losses["loss_critic"]),
            "train/param_noise_distance": safe_mean(epoch.distances),
            "total/duration": run.elapsed,
            "total/steps_per_second": run.fps,
            "total/episodes": run.episodes.count,
        }
        if self._run.eval_env is not None:
            row["eval/return"] = safe_mean(tested)
        if self._beside is not None:
            row |= {
                "eval/return": safe_mean(epoch.eval_returns),
                "eval/return_history": run.eval_episodes.mean_reward,
                "eval/Q": _mean_of(epoch.eval_values),
                "eval/episodes": len(epoch.eval_returns),
            }
        comm = self._run.comm
        means = comm.sum(np.array(list(row.values()), np.float64)) / comm.size
        epoch.clear()
        return dict(zip(row, means.tolist(), strict=True)) | {
            "total/epochs": -(-run.update // self._run.course.cycles_per_epoch),
            "total/steps": run.timesteps,
        }

    def _reference_row(self) -> dict[str, float]:
        model, row = self._model, {}
        if model.policy.returns is not None:
            row |= {"ret_rms_mean": float(model.policy.returns.mean), "ret_rms_std": float(model.policy.returns.std)}
        normalizer = model.policy.normalizer
        if normalizer is not None:
            row |= {"obs_rms_mean": float(np.mean(normalizer.mean)), "obs_rms_std": float(np.mean(normalizer.std))}
        if self._reference is None and self._run.enough():
            # Rank 0's: the saved model has one for all.
            self._reference = self._run.comm.broadcast_object(self._run.draw_one())
        if self._reference is not None:
            row |= {name: float(value) for name, value in self._statistics(self._reference).items()}
        if self._perturbed is not None:
            row |= self._perturbed.spec.get_stats()
        return row


def _mean_of(arrays: list[np.ndarray]) -> float:
    return safe_mean(np.concatenate(arrays)) if arrays else float("nan")
