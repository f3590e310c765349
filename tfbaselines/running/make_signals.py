"""The learnt reward signals of a run, from their arguments."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.envs.vec import VecEnv, find_wrapper
from tfbaselines.envs.vec.packed import PackedSpace
from tfbaselines.experience.demonstrations import load_demonstrations
from tfbaselines.parallel import mpi
from tfbaselines.policy.base import BasePolicy
from tfbaselines.policy.discriminator import Discriminator
from tfbaselines.running.adversary import Adversary
from tfbaselines.running.curiosity import Curiosity
from tfbaselines.running.rnd import Rnd
from tfbaselines.settings.reward_signals import Gail, Signal

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
    """The signals but for the environment's rewards, in their order; see RewardSignal in experience/rewards.py.

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
        raise ValueError("reward_signals: gail takes neither action masks nor observations of several parts")
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
