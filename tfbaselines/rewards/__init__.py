"""Learned reward signals, such as curiosity or a discriminator's, added to the environment's rewards or replacing them.

A run without signals has no RewardSignals, and its rewards stay as the environment gave them. Each reward signal of an
on-policy run is a value stream, with its own rewards, discount and values. The returns R_k of signal k are estimated
from its rewards, values V_k and discount. The policy descends on

    A = sum_k strength_k (R_k - V_k),

and the critic, which has an output for each signal, on the mean of the signals' value losses.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfbaselines.config.groups import Signal
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.envs.vec import VecEnv, find_wrapper
from tfbaselines.errors import UsageError
from tfbaselines.parallel import mpi
from tfbaselines.policy.base import BasePolicy
from tfbaselines.rollout.rollout import TERMINATE, Rollout, env_major, explained_variance, minibatches
from tfbaselines.training.on_policy import OnPolicyRun

if TYPE_CHECKING:
    from tfbaselines.rewards.learned import LearnedSignal

# Name of the environment's own rewards among the signals.
EXTRINSIC = "extrinsic"
# Entropy weight of the discriminator, as in gail.
ENTROPY_WEIGHT = 1e-3

# Estimates returns [T, N] from a rollout and a discount.
Returns = Callable[[Rollout, float], np.ndarray]


class RewardSignals:
    """The reward signals of a run.

    Args:
        signals: with unique names.
        extrinsic_strength: factor of the environment's own rewards; 0 replaces them.
    """

    def __init__(self, signals: Sequence["LearnedSignal"], extrinsic_strength: float = 1.0) -> None:
        self._signals = {signal.name: signal for signal in signals}
        if len(self._signals) < len(signals):
            raise UsageError(f"reward signals need unique names, not {[signal.name for signal in signals]}")
        self._extrinsic_strength = extrinsic_strength

    def apply_to_rollout(self, rollout: Rollout) -> dict[str, float]:
        """Replace a rollout's rewards by the weighted sum of all signals; return the mean reward of each."""
        steps = _steps(rollout)
        total = np.float32(self._extrinsic_strength) * rollout.rewards
        means = {}
        for name, signal in self._signals.items():
            rewards = np.float32(signal.strength) * signal.rewards(*steps)
            total += rewards
            means[f"{name}/reward"] = float(np.mean(rewards))
        rollout.rewards[...] = total
        return means

    def update(self, batch: dict[str, Any], indices: np.ndarray | None = None) -> dict[str, float]:
        """Let every signal learn from a batch; return statistics as 'signal/statistic'."""
        return {
            f"{name}/{statistic}": value
            for name, signal in self._signals.items()
            for statistic, value in signal.update(batch, indices).items()
        }


def make_signals(
    arguments: Mapping[str, Signal],
    policy: BasePolicy,
    env: VecEnv,
    rng: np.random.Generator,
    comm: mpi.Communicator | None = None,
) -> "list[LearnedSignal]":
    """Make all signals except the environment's rewards, in their order; `rng` draws demonstrated steps."""
    # Runs without signals do not load them.
    from tfbaselines.rewards.novelty import Curiosity, Rnd

    signals = []
    for name, own in arguments.items():
        if name == "gail":
            signals.append(_make_adversary(own, policy, env, rng, comm))
        elif name != EXTRINSIC:
            signals.append({Curiosity.name: Curiosity, Rnd.name: Rnd}[name](policy, own, comm))
    return signals


def _make_adversary(
    arguments: Any, policy: BasePolicy, env: VecEnv, rng: np.random.Generator, comm: mpi.Communicator | None
) -> "LearnedSignal":
    from tfbaselines.demos import load_demonstrations
    from tfbaselines.rewards.learned import Adversary, Discriminator

    observation_space, action_space = policy.observation_space, policy.action_space
    normalizing = find_wrapper(env, VecNormalize)
    uses = {"use_actions": arguments.use_actions, "use_done": arguments.use_done}
    return Adversary(
        Discriminator(observation_space, action_space, arguments.encoding_size, comm, **uses),
        load_demonstrations(arguments.demo_path, observation_space, action_space),
        action_space,
        entcoeff=ENTROPY_WEIGHT,
        gradient_penalty=arguments.gradient_penalty,
        lr=arguments.learning_rate,
        rng=rng,
        comm=comm,
        strength=arguments.strength,
        gamma=arguments.gamma,
        **({} if normalizing is None else {"normalize": normalizing.scaled}),
    )


class ValueStreams:
    """The value streams of a run with reward signals.

    Args:
        arguments: of each signal, by name.
        signals: the learned ones among them.
        rng: shuffles the signals' minibatches.
        check: guards statistics against numbers that are not finite; see Run.check.
        num_update: gradient steps of the signals on each rollout; None for as many as the policy takes.
    """

    def __init__(
        self,
        arguments: Mapping[str, Signal],
        signals: Sequence["LearnedSignal"],
        rng: np.random.Generator,
        check: Callable[[dict[str, float]], dict[str, float]],
        num_update: int | None = None,
    ) -> None:
        self.parts = list(signals)
        self._arguments = arguments
        self._by_name = {signal.name: signal for signal in signals}
        self._signals = RewardSignals(signals)
        self._rng = rng
        self._check = check
        self._num_update = num_update
        self._transitions: dict[str, np.ndarray] = {}
        self._row: dict[str, float] = {}

    def estimates(self, rollout: Rollout, returns_of: Returns) -> dict[str, np.ndarray]:
        """Estimate returns [T, N, K] of the K signals, and the advantages [T, N] of their weighted sum."""
        arrays = {"obs": rollout.obs, "actions": rollout.actions, "next_obs": rollout.next_obs}
        arrays["terminated"] = rollout.terminated
        self._transitions = {name: env_major(array) for name, array in arrays.items()}
        all_returns = []
        advantages = np.zeros_like(rollout.rewards)
        for number, (name, signal) in enumerate(self._arguments.items()):
            ends = TERMINATE if name == EXTRINSIC else self._by_name[name].ends
            stream = rollout.stream(number, self._rewards(name, rollout), ends)
            returns = returns_of(stream, signal.gamma)
            advantages += np.float32(signal.strength) * (returns - stream.values)
            all_returns.append(returns)
            self._row[f"{name}/reward"] = float(np.mean(stream.rewards))
            self._row[f"{name}/value"] = float(np.mean(stream.values))
            self._row[f"{name}/explained_variance"] = explained_variance(stream.values.ravel(), returns.ravel())
        return {"returns": np.stack(all_returns, axis=-1), "advantages": advantages}

    def learn(self, parts: int, epochs: int) -> dict[str, float]:
        """Take the signals' gradient steps on the latest rollout; return the statistics of all signals.

        The policy takes `parts` minibatches in each of its `epochs`.
        """
        if not self._by_name:
            return self._row
        steps = self._num_update or parts * epochs
        rows = len(self._transitions["obs"])
        indices = minibatches(self._rng, rows, rows // parts, -(-steps // parts))[:steps]
        return self._row | self._check(self._signals.update(self._transitions, indices))

    def _rewards(self, name: str, rollout: Rollout) -> np.ndarray:
        if name == EXTRINSIC:
            return rollout.rewards
        signal = self._by_name[name]
        signal.take_in(self._transitions)
        return signal.rewards(*_steps(rollout))


def _steps(rollout: Rollout) -> tuple[Any, ...]:
    """Return the arguments of a signal's `rewards` for a rollout."""
    return rollout.obs, rollout.actions, rollout.next_obs, rollout.episode_start, rollout.terminated


class PlainStream:
    """The single value stream of a run without reward signals; `gamma` returns the present discount."""

    parts: Sequence["LearnedSignal"] = ()

    def __init__(self, gamma: Callable[[], float]) -> None:
        self._gamma = gamma

    def estimates(self, rollout: Rollout, returns_of: Returns) -> dict[str, np.ndarray]:
        return {"returns": returns_of(rollout, self._gamma())}

    def learn(self, parts: int, epochs: int) -> dict[str, float]:
        return {}


def value_streams(run: OnPolicyRun) -> ValueStreams | PlainStream:
    """Make the value streams of a run with SignalsConfig; their `parts` belong to the model."""
    arguments = run.config.signals
    if arguments is None:
        return PlainStream(lambda: run.config.gamma)
    signals = make_signals(arguments, run.policy, run.env, run.rng, run.comm)
    return ValueStreams(arguments, signals, run.rng, run.check, run.config.reward_signal_num_update)
