"""DDPG's exploration (noise on actions, in parameters, or both) and evaluation (a fixed batch, steps in other envs)."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.compiling import compiled
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.base import ended_episodes
from tfbaselines.logs.statistics import Store, mean_over_ranks, safe_mean
from tfbaselines.policy.actor_critic import ActorCritic
from tfbaselines.policy.noise import PerturbedActor, parse_noise
from tfbaselines.training.model import Part, PolicyModel
from tfbaselines.training.off_policy import OffPolicyModel, OffPolicyRun


class Exploration:
    """Chooses actions with the noise that noise_type describes, as in policy/noise.py.

    `make_copy` makes another policy of the same kind; `perturbed` is the actor with noise in its parameters, or None.
    """

    def __init__(
        self,
        model: Any,
        noise_type: str | None,
        num_envs: int,
        make_copy: Callable[[], Any],
        rng: np.random.Generator,
        comm: Any = None,
    ) -> None:
        self._model = model
        self._noise = parse_noise(noise_type, (num_envs, model.policy.head.width), rng)
        self.perturbed: PerturbedActor | None = None
        if self._noise.parameters is not None:
            copies = (make_copy(), make_copy())
            self.perturbed = PerturbedActor(model.policy, copies, self._noise.parameters, rng, comm)

    def __call__(
        self, obs: Any, states: np.ndarray | None, episode_start: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        actor = self._model.actor if self.perturbed is None else self.perturbed.present()
        actions, states = actor.choose(obs, states, episode_start, None)
        if self._noise.actions is None:
            return actions, states
        head = self._model.policy.head
        return head.noisy(actions, head.limit * self._noise.actions().astype(np.float32)), states

    def reset(self, which: Any = slice(None)) -> None:
        """Begin a new episode in some environments; all of them share the noise of parameters."""
        if self._noise.actions is not None:
            self._noise.actions.reset(which)
        if self.perturbed is not None:
            self.perturbed.reset()

    def adapt(self, draw: Callable[[], dict[str, Any]]) -> dict[str, float]:
        """Change the size of the parameter noise by the distance it moves a drawn batch's actions, a statistic."""
        return {} if self.perturbed is None else {"distance": self.perturbed.adapt(draw())}

    def ready(self) -> None:
        if self.perturbed is not None:
            self.perturbed.outdate()

    def observed(self) -> None:
        if self.perturbed is not None:
            self.perturbed.actor.refresh()

    def state(self) -> dict[str, Any]:
        spec, actions = self._noise
        return {
            "param_noise_stddev": None if spec is None else spec.current_stddev,
            "action_noise": {} if actions is None else actions.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        spec, actions = self._noise
        if spec is not None and state["param_noise_stddev"] is not None:
            spec.current_stddev = float(state["param_noise_stddev"])
        if actions is not None and state["action_noise"]:
            actions.restore(state["action_noise"])


def reference_statistics(
    policy: ActorCritic,
    batch: dict[str, Any],
    perturbed: ActorCritic | None,
    return_range: tuple[float, float] = (-np.inf, np.inf),
) -> dict[str, Any]:
    """Return mean and standard deviation of actions and values of a batch, by name.

    Values are clipped to a range in units of the statistics of returns; `perturbed` has noise in its parameters.
    """
    view = policy.view_of(batch)
    unit = policy.head.unit
    actions = policy.head.mode(policy.act(view))
    values = {"reference_action": unit(actions)}
    for name, judged in (("reference_Q", batch["actions"]), ("reference_actor_Q", actions)):
        values[name] = policy.returns_of(tf.clip_by_value(policy.q(view, judged)[0], *return_range))
    if perturbed is not None:
        values["reference_perturbed_action"] = unit(perturbed.head.mode(perturbed.act(view)))
    return {
        f"{name}_{kind}": reduce(value)
        for name, value in values.items()
        for kind, reduce in (("mean", tf.reduce_mean), ("std", tf.math.reduce_std))
    }


class Reference(Part):
    """Reports on one batch of rank 0's replay, which stays the same as long as the run continues."""

    def __init__(self, run: OffPolicyRun, policy: ActorCritic, perturbed: PerturbedActor | None) -> None:
        self._run = run
        self._policy = policy
        self._perturbed = perturbed
        self._batch: dict[str, Any] | None = None
        other = None if perturbed is None else perturbed.policy
        return_range = run.config.return_range or (-np.inf, np.inf)
        self._statistics = compiled(lambda batch: reference_statistics(policy, batch, other, return_range))

    def state(self) -> dict[str, Any]:
        return {"reference": self._batch}

    def restore(self, state: dict[str, Any]) -> None:
        self._batch = state["reference"]

    def row(self) -> dict[str, float]:
        """Return the statistics of the batch, of returns, of observations and of parameter noise."""
        row = {}
        returns = self._policy.returns
        if returns is not None:
            row |= {"ret_rms_mean": float(returns.mean), "ret_rms_std": float(returns.std)}
        normalizer = self._policy.normalizer
        if normalizer is not None:
            row |= {"obs_rms_mean": float(np.mean(normalizer.mean)), "obs_rms_std": float(np.mean(normalizer.std))}
        if self._batch is None and self._run.enough():
            self._batch = self._run.comm.broadcast_object(self._run.draw_one())
        if self._batch is not None:
            row |= {name: float(value) for name, value in self._statistics(self._batch).items()}
        if self._perturbed is not None:
            row |= self._perturbed.spec.get_stats()
        return row


class SteppedEvaluation:
    """Acts without noise in separate environments; each cycle of steps continues where the last one ended."""

    def __init__(self, env: VecEnv, model: PolicyModel, steps: int, render: bool) -> None:
        self._env = env
        self._model = model
        self._steps = steps
        self._render = render
        self._obs: Any = None

    def state(self) -> dict[str, Any]:
        if self._obs is None:
            return {}
        return {"obs": self._obs, "states": self._states, "episode_start": self._first}

    def restore(self, state: dict[str, Any]) -> None:
        # Only environments that continue their episodes can go on from it.
        if state and self._env.restored:
            self._obs = state["obs"]
            self._states = state["states"]
            self._first = state["episode_start"]

    def __call__(self, table: Store) -> list[dict[str, Any]]:
        """Take a cycle's steps, store values and returns, and return the episodes that ended."""
        env = self._env
        model = self._model
        episodes = []
        if self._obs is None:
            self._obs = env.reset()
            self._states = model.policy.initial_state(env.num_envs)
            self._first = np.ones(env.num_envs, bool)
        for _ in range(self._steps):
            table.store(eval_Q=model.value(self._obs, self._states, self._first))
            actions, self._states = model.act(self._obs, self._states, True, self._first)
            self._obs, _, self._first, infos = env.step(actions)
            if self._render:
                env.render()
            episodes += ended_episodes(infos, self._first)
        table.store_episodes(episodes, "Eval")
        return episodes


def store_cycle(run: OffPolicyRun, model: OffPolicyModel) -> None:
    """Store the actions and values of a cycle."""
    obs, actions = model.replay.latest(run.course.collected)
    run.table.store(actions=model.policy.head.unit_numpy(actions))
    if not model.policy.recurrent:
        # Values need the memory of each step, which the replay does not keep.
        run.table.store(Q=model.value(obs))


def epoch_row(run: OffPolicyRun, reference: Reference, stepped: bool) -> dict[str, Any]:
    """End an epoch: test, unless a SteppedEvaluation did; return a row under baselines' names, means over ranks."""
    table = run.table
    tests = [episode["r"] for episode in run.test()]
    row = reference.row() | {
        "rollout/return": table.mean("EpRet"),
        "rollout/return_std": table.std("EpRet"),
        "rollout/return_history": run.episodes.mean_reward,
        "rollout/return_history_std": run.episodes.std_reward,
        "rollout/episode_steps": table.mean("EpLen"),
        "rollout/episodes": table.count("EpRet"),
        "rollout/actions_mean": table.mean("actions"),
        "rollout/actions_std": table.std("actions"),
        "rollout/Q_mean": table.mean("Q"),
        "train/loss_actor": table.mean("loss_actor"),
        "train/loss_critic": table.mean("loss_critic"),
        "train/param_noise_distance": table.mean("distance"),
        "total/duration": run.elapsed,
        "total/steps_per_second": run.fps,
        "total/episodes": run.episodes.count,
    }
    if run.eval_env is not None:
        row["eval/return"] = table.mean("EvalEpRet") if stepped else safe_mean(tests)
    if stepped:
        row |= {
            "eval/return_history": run.eval_episodes.mean_reward,
            "eval/Q": table.mean("eval_Q"),
            "eval/episodes": table.count("EvalEpRet"),
        }
    table.forget()
    return mean_over_ranks(row, run.comm) | {"total/epochs": run.epoch, "total/steps": run.timesteps}
