"""Further ways to spoil a run, invented after the doctor's rules had been judged by those of spoiled.py.

    python tests/doctor/further.py DIR [--way clipped_rewards ...] [--list]

trains one run of each in DIR, as spoiled.py does; `tests/doctor/judge.py DIR --further --probe` judges them. The causes
were written down before the runs: a way whose cause the doctor had no word for has the word that it lacked.
"""

import argparse
import sys
from pathlib import Path

import gymnasium
import numpy as np

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]

from tests.doctor.spoiled import CARTPOLE, PENDULUM, Case, Way, spoilings, train  # noqa: E402  The path comes first.

MODULE = "tests.doctor.further"


class Clipped(gymnasium.RewardWrapper):
    """Keep the sign of rewards alone."""

    def reward(self, reward):
        return float(np.sign(reward))


class Noisy(gymnasium.Wrapper):
    """Add noise to rewards or observations."""

    def __init__(self, env, rewards=0.0, observations=0.0):
        super().__init__(env)
        self._rewards = rewards
        self._observations = observations
        self._rng = np.random.default_rng()

    def _seen(self, observation):
        noise = self._observations * self._rng.normal(size=observation.shape)
        return (observation + noise).astype(observation.dtype)

    def reset(self, *, seed=None, **kwargs):
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        observation, info = self.env.reset(seed=seed, **kwargs)
        return self._seen(observation), info

    def step(self, action):
        observation, reward, *rest = self.env.step(action)
        return self._seen(observation), float(reward) + self._rewards * self._rng.normal(), *rest


class WrongStatistics(gymnasium.ObservationWrapper):
    """Normalize observations by the statistics of something else."""

    def observation(self, observation):
        return ((observation - 100.0) / 1000.0).astype(observation.dtype)


class Shuffled(gymnasium.Wrapper):
    """Return the numbers of an observation in another order in each episode."""

    def reset(self, *, seed=None, **kwargs):
        observation, info = self.env.reset(seed=seed, **kwargs)
        self._order = self.np_random.permutation(len(observation))
        return observation[self._order], info

    def step(self, action):
        observation, *rest = self.env.step(action)
        return observation[self._order], *rest


class NeverReset(gymnasium.Wrapper):
    """Begin the next episode where the last one ended."""

    _last = None

    def reset(self, **kwargs):
        if self._last is None:
            self._last, _ = self.env.reset(**kwargs)
        else:
            # The innermost environment forgets that it has ended.
            state = np.array(self.env.unwrapped.state)
            self.env.reset(**kwargs)
            self.env.unwrapped.state = state
        return self._last, {}

    def step(self, action):
        self._last, *rest = self.env.step(action)
        return self._last, *rest


class OneState(gymnasium.Wrapper):
    """Let all copies of the environment step the first one."""

    first = None

    def __init__(self, env):
        super().__init__(env)
        OneState.first = OneState.first or env

    def reset(self, **kwargs):
        return OneState.first.reset(**kwargs)

    def step(self, action):
        return OneState.first.step(action)


class LateActions(gymnasium.Wrapper):
    """Take the action of the step before."""

    def reset(self, **kwargs):
        self._action = None
        return self.env.reset(**kwargs)

    def step(self, action):
        taken = action if self._action is None else self._action
        self._action = action
        return self.env.step(taken)


class PaidAtTheEnd(gymnasium.Wrapper):
    """Pay all rewards of an episode in its last step."""

    def reset(self, **kwargs):
        self._earned = 0.0
        return self.env.reset(**kwargs)

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._earned += float(reward)
        return observation, self._earned if terminated or truncated else 0.0, terminated, truncated, info


def wrapper(name: str) -> str:
    return f"--wrapper={MODULE}:{name}"


ON_CARTPOLE = {"ppo2": CARTPOLE}
FURTHER = {
    "rate_0": Way("rate_small", "--lr=linear_0", ON_CARTPOLE),
    "gradients_clipped_away": Way("rate_small", "--max_grad_norm=1e-7", {"a2c": CARTPOLE}),
    "clipped_rewards": Way("rewards_constant", wrapper("Clipped"), {"sac": PENDULUM}),
    "noisy_rewards": Way("reward_noise", wrapper("Noisy(rewards=30)"), {"ppo2": CARTPOLE}),
    "noisy_observations": Way("observation_partial", wrapper("Noisy(observations=1)"), {"deepq": CARTPOLE}),
    "wrong_statistics": Way("observation_scale", wrapper("WrongStatistics"), {"deepq": CARTPOLE}),
    "shuffled_observations": Way("observation_partial", wrapper("Shuffled"), ON_CARTPOLE),
    "never_reset": Way("no_resets", wrapper("NeverReset"), ON_CARTPOLE),
    "one_state": Way("equal_copies", wrapper("OneState"), {"ppo2": PENDULUM}),
    "late_actions": Way("observation_delay", wrapper("LateActions"), {"sac": PENDULUM}),
    "paid_at_the_end": Way("reward_delay", wrapper("PaidAtTheEnd"), {"ppo2": PENDULUM}),
    "batch_of_one": Way("replay_small", "--batch_size=1", {"deepq": CARTPOLE}),
    "buffer_of_an_episode": Way("replay_small", "--replay_size=150", {"sac": PENDULUM}),
    "lam_0": Way("discount_small", "--lam=0", {"ppo2": PENDULUM}),
    "value_coefficient_0": Way("value_function", "--vf_coef=0", {"ppo2": CARTPOLE}),
    "one_step_rollouts": Way("settings", "--nsteps=1 --nminibatches=1", {"ppo2": PENDULUM}),
    "always_random": Way("endless_exploration", "--exploration_final_eps=1", {"deepq": CARTPOLE}),
    "learning_never_starts": Way("too_early", "--learning_starts=30000", {"deepq": CARTPOLE}),
}


class Further(Case):
    """One run of a further way."""

    @property
    def spoiling(self) -> Way:
        return FURTHER[self.way]


def cases() -> list[Case]:
    """List all runs, one seed each."""
    return list(spoilings(FURTHER, Further, 0))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--way", nargs="+", choices=FURTHER, default=list(FURTHER))
    parser.add_argument("--list", action="store_true", help="print the commands and train nothing")
    args = parser.parse_args()
    for case in (case for case in cases() if case.way in args.way):
        if args.list:
            print("tfbaselines run", *case.command(args.directory / case.name))
            continue
        well = train(case, args.directory.resolve())
        print(case.name, "" if well else "its command failed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
