"""The rows of DDPG's logs under the names of baselines."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.envs.vec import VecEnv
from tfbaselines.losses.off_policy import view_of
from tfbaselines.policy.actor_critic import ActorCritic
from tfbaselines.running.off_policy import OffPolicy
from tfbaselines.running.training import Training, safe_mean


def reference_statistics(
    policy: ActorCritic,
    batch: dict[str, Any],
    perturbed: ActorCritic | None,
    return_range: tuple[float, float] = (-np.inf, np.inf),
) -> dict[str, Any]:
    """What actor and critic say of a batch that stays the same over a run: mean and deviation of each, by name.

    Args:
        policy: the actor with its critic.
        batch: of the replay.
        perturbed: the actor with noise in its parameters, or None.
        return_range: what critics say is clipped to this, in units of the statistics of returns.
    """
    view = view_of(policy, batch)
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


class DDPGRows:
    """Collects what an epoch's row tells.

    Args:
        loop: the run.
        eval_env: environments on which the policy is also run without noise, or None.
        nb_eval_steps: of their steps in a cycle.
        render_eval: show them.
        return_range: see reference_statistics.
    """

    def __init__(
        self,
        loop: OffPolicy,
        eval_env: VecEnv | None,
        nb_eval_steps: int,
        render_eval: bool,
        return_range: tuple[float, float],
    ) -> None:
        self._loop, self._model = loop, loop.model
        self._eval_env, self._eval_steps, self._render = eval_env, nb_eval_steps, render_eval
        self._eval_obs: Any = None
        policy = self._model.policy
        perturbed = self._model.perturbed and self._model.perturbed.policy
        self._statistics = tf.function(lambda batch: reference_statistics(policy, batch, perturbed, return_range))
        self._new_epoch()

    def collected(self, episodes: list[dict[str, Any]]) -> None:
        """Remember a cycle's episodes, actions and values."""
        self._returns += [episode["r"] for episode in episodes]
        self._lengths += [episode["l"] for episode in episodes]
        obs, actions = self._loop.replay.latest(self._loop.settings.collected)
        self._actions.append(self._model.policy.head.unit_numpy(actions))
        if not self._model.policy.recurrent:
            # What it remembered at each step is not asked for again.
            self._values.append(self._model.value(obs))
        if self._eval_env is not None:
            self._evaluate()

    def learnt(self, statistics: dict[str, np.ndarray]) -> None:
        """Remember what gradient steps tell of themselves."""
        for name, values in statistics.items():
            self._losses[name].append(values)

    def moved(self, distance: float) -> None:
        """Remember how far noise in the parameters moved actions."""
        self._distances.append(distance)

    def __call__(self, training: Training) -> dict[str, Any]:
        """End the epoch, and give its row: means over ranks."""
        tested = [episode["r"] for episode in self._loop.test()]
        row = self._reference_row() | {
            "rollout/return": safe_mean(self._returns),
            "rollout/return_std": float(np.std(self._returns)) if self._returns else float("nan"),
            "rollout/return_history": training.episodes.mean_reward,
            "rollout/return_history_std": training.episodes.std_reward,
            "rollout/episode_steps": safe_mean(self._lengths),
            "rollout/episodes": len(self._returns),
            "rollout/actions_mean": safe_mean(np.concatenate(self._actions)),
            "rollout/actions_std": float(np.std(np.concatenate(self._actions))),
            "rollout/Q_mean": safe_mean(np.concatenate(self._values)) if self._values else float("nan"),
            "train/loss_actor": _mean_of(self._losses["loss_actor"]),
            "train/loss_critic": _mean_of(self._losses["loss_critic"]),
            "train/param_noise_distance": safe_mean(self._distances),
            "total/duration": training.elapsed,
            "total/steps_per_second": training.fps,
            "total/episodes": training.episodes.count,
        }
        if self._loop.eval_env is not None:
            row["eval/return"] = safe_mean(tested)
        if self._eval_env is not None:
            row |= {
                "eval/return": safe_mean(self._eval_returns),
                "eval/return_history": training.eval_episodes.mean_reward,
                "eval/Q": safe_mean(np.concatenate(self._eval_values)) if self._eval_values else float("nan"),
                "eval/episodes": len(self._eval_returns),
            }
        comm = self._loop.comm
        means = comm.sum(np.array(list(row.values()), np.float64)) / comm.size
        self._new_epoch()
        return dict(zip(row, means.tolist(), strict=True)) | {
            "total/epochs": -(-training.update // self._loop.settings.cycles_per_epoch),
            "total/steps": training.timesteps,
        }

    def _new_epoch(self) -> None:
        self._returns: list[float] = []
        self._lengths: list[float] = []
        self._actions: list[np.ndarray] = []
        self._values: list[np.ndarray] = []
        self._distances: list[float] = []
        self._losses: dict[str, list[np.ndarray]] = {"loss_actor": [], "loss_critic": []}
        self._eval_returns: list[float] = []
        self._eval_values: list[np.ndarray] = []

    def _reference_row(self) -> dict[str, float]:
        model, row = self._model, {}
        if model.returns is not None:
            row |= {"ret_rms_mean": float(model.returns.mean), "ret_rms_std": float(model.returns.std)}
        normalizer = model.policy.normalizer
        if normalizer is not None:
            row |= {"obs_rms_mean": float(np.mean(normalizer.mean)), "obs_rms_std": float(np.mean(normalizer.std))}
        if model.reference is None and self._loop.enough():
            # Rank 0's: the saved model has one for all.
            model.reference = self._loop.comm.broadcast_object(self._loop.draw_one())
        if model.reference is not None:
            row |= {name: float(value) for name, value in self._statistics(model.reference).items()}
        if model.perturbed is not None:
            row |= model.perturbed.spec.get_stats()
        return row

    def _evaluate(self) -> None:
        """Run the policy without noise for some steps, going on where the cycle before left."""
        env, model = self._eval_env, self._model
        if self._eval_obs is None:
            self._eval_obs = env.reset()
            self._eval_states = model.policy.initial_state(env.num_envs)
            self._eval_first = np.ones(env.num_envs, bool)
        for _ in range(self._eval_steps):
            obs = self._eval_obs
            self._eval_values.append(model.value(obs, self._eval_states, self._eval_first))
            actions, self._eval_states = model.act(obs, self._eval_states, True, self._eval_first)
            self._eval_obs, _, self._eval_first, infos = env.step(actions)
            if self._render:
                env.render()
            ended = [info["episode"] for info in infos if "episode" in info]
            self._eval_returns += [episode["r"] for episode in ended]
            self._loop.training.eval_episodes.extend(ended)


def _mean_of(arrays: list[np.ndarray]) -> float:
    return safe_mean(np.concatenate(arrays)) if arrays else float("nan")
