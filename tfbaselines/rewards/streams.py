"""The reward signals of an on-policy run: each has rewards, a discount and values of its own (a value stream).

Returns R_k of signal k are estimated from its own rewards, values V_k and discount. The policy descends on

    A = sum_k strength_k (R_k - V_k),

and the critic, which has an output for each signal, on the mean of the signals' value losses.

The learnt reward signals of a run, from their arguments.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.config.signals import Gail, Signal
from tfbaselines.demos.demonstrations import load_demonstrations
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.envs.vec import VecEnv, find_wrapper
from tfbaselines.envs.vec.packed import PackedSpace
from tfbaselines.errors import UsageError
from tfbaselines.parallel import mpi
from tfbaselines.policy.base import BasePolicy
from tfbaselines.rewards.adversary import Adversary, Discriminator
from tfbaselines.rewards.curiosity import Curiosity
from tfbaselines.rewards.rnd import Rnd
from tfbaselines.rewards.signals import RewardSignal, RewardSignals
from tfbaselines.rollout.rollout import TERMINATE, Rollout, env_major, explained_variance, minibatches
from tfbaselines.training.on_policy import OnPolicyRun

EXTRINSIC = "extrinsic"
# Of the discriminator, as in gail.
ENTROPY_WEIGHT = 1e-3


def make_signals(
    arguments: Mapping[str, Signal],
    policy: BasePolicy,
    env: VecEnv,
    rng: np.random.Generator,
    comm: mpi.Communicator | None = None,
) -> list[Any]:
    """The signals but for the environment's rewards, in their order; see RewardSignal in rewards/signals.py.

    Args:
        arguments: of each signal, by name.
        policy: gives the spaces.
        env: normalises demonstrations as it does observations.
        rng: draws demonstrated steps.
        comm: the ranks that train together.
    """
    signals = []
    for name, own in arguments.items():
        if name == Adversary.name:
            signals.append(_adversary(own, policy, env, rng, comm))
        elif name != EXTRINSIC:
            signals.append({Curiosity.name: Curiosity, Rnd.name: Rnd}[name](policy, own, comm))
    return signals


def _adversary(
    arguments: Gail, policy: BasePolicy, env: VecEnv, rng: np.random.Generator, comm: mpi.Communicator | None
) -> Adversary:
    shown, done = policy.observation_space, policy.action_space
    if isinstance(shown, PackedSpace | spaces.Dict):
        raise UsageError("reward_signals: gail takes neither action masks nor observations of several parts")
    normalized = find_wrapper(env, VecNormalize)
    return Adversary(
        Discriminator(shown, done, arguments.encoding_size, comm, arguments.use_actions),
        load_demonstrations(arguments.demo_path, shown, done),
        done,
        entcoeff=ENTROPY_WEIGHT,
        lr=arguments.learning_rate,
        rng=rng,
        comm=comm,
        strength=arguments.strength,
        gamma=arguments.gamma,
        **({} if normalized is None else {"shown": normalized.scaled}),
    )


# From a rollout and a discount to returns [T, N].
Returns = Callable[[Rollout, float], np.ndarray]


class ValueStreams:
    """See the module.

    Args:
        run: whose policy has as many values.
        arguments: of each signal, by name.
        signals: those of them that are learnt.
    """

    def __init__(self, run: OnPolicyRun, arguments: dict[str, Signal], signals: list[RewardSignal]) -> None:
        self._run, self._arguments = run, arguments
        self._learnt, self._signals = {signal.name: signal for signal in signals}, RewardSignals(signals)
        self._transitions: dict[str, np.ndarray] = {}
        self._row: dict[str, float] = {}

    def estimates(self, rollout: Rollout, returns_of: Returns) -> dict[str, np.ndarray]:
        """Returns [T, N, K] of the K signals, and the advantages [T, N] of all of them.

        Args:
            rollout: with next_obs.
            returns_of: estimates a signal's returns.
        """
        arrays = {"obs": rollout.obs, "actions": rollout.actions, "next_obs": rollout.next_obs}
        self._transitions = {name: env_major(array) for name, array in arrays.items()}
        every, advantages = [], np.zeros_like(rollout.rewards)
        for number, (name, signal) in enumerate(self._arguments.items()):
            stream = rollout.stream(number, self._rewards(name, rollout), self._ends(name))
            returns = returns_of(stream, signal.gamma)
            advantages += np.float32(signal.strength) * (returns - stream.values)
            every.append(returns)
            self._row[f"{name}/reward"] = float(np.mean(stream.rewards))
            self._row[f"{name}/value"] = float(np.mean(stream.values))
            self._row[f"{name}/explained_variance"] = explained_variance(stream.values.ravel(), returns.ravel())
        return {"returns": np.stack(every, axis=-1), "advantages": advantages}

    def learn(self, parts: int, epochs: int) -> dict[str, float]:
        """The signals' gradient steps on the latest rollout; the statistics of all signals, for the logs.

        Args:
            parts: minibatches that the policy takes of a rollout.
            epochs: the policy's passes over it.
        """
        if not self._learnt:
            return self._row
        steps = self._run.config.reward_signal_num_update or parts * epochs
        rows = len(self._transitions["obs"])
        indices = minibatches(self._run.rng, rows, rows // parts, -(-steps // parts))[:steps]
        return self._row | self._run.check(self._signals.update(self._transitions, indices))

    def _rewards(self, name: str, rollout: Rollout) -> np.ndarray:
        if name == EXTRINSIC:
            return rollout.rewards
        signal = self._learnt[name]
        signal.take_in(self._transitions)
        return signal.rewards(rollout.obs, rollout.actions, rollout.next_obs, rollout.episode_start)

    def _ends(self, name: str) -> str:
        return TERMINATE if name == EXTRINSIC else self._learnt[name].ends


class PlainStream:
    """The one value stream of a run that learns from the environment's rewards alone.

    Args:
        run: whose config has the discount.
    """

    def __init__(self, run: OnPolicyRun) -> None:
        self._run = run

    def estimates(self, rollout: Rollout, returns_of: Returns) -> dict[str, np.ndarray]:
        """Returns [T, N]; see ValueStreams."""
        return {"returns": returns_of(rollout, self._run.config.gamma)}

    def learn(self, parts: int, epochs: int) -> dict[str, float]:
        """Nothing; see ValueStreams."""
        return {}


def value_streams(run: OnPolicyRun) -> ValueStreams | PlainStream:
    """What a run learns values of; reward signals become parts of its model.

    Args:
        run: of an algorithm with SignalsConfig, with its model, before its rollouts begin.
    """
    arguments = run.config.signals
    if arguments is None:
        return PlainStream(run)
    signals = make_signals(arguments, run.policy, run.env, run.rng, run.comm)
    run.model.parts, run.keep_next_obs = signals, True
    return ValueStreams(run, arguments, signals)
