"""Runs that are spoiled in 24 ways, and healthy ones: what the doctor is judged by.

    python tests/doctor/spoiled.py DIR [--alg ppo2 ...] [--way reward_sign ...] [--seed 0 1 2] [--list]

trains each run in DIR/ALG-WAY-SEED, one after the other; runs that are finished are left out, so the command may be
stopped and given again. Each way is a wrapper of the environment, a setting or a network; the doctor reads neither the
wrapper's name nor the network's.
"""

import argparse
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import gymnasium
import numpy as np

ROOT = Path(__file__).parents[2]
SEEDS = (0, 1, 2)
FINISHED = "finished"
MODULE = "tests.doctor.spoiled"


class Rewards(gymnasium.RewardWrapper):
    """Multiply rewards."""

    def __init__(self, env, factor):
        super().__init__(env)
        self._factor = factor

    def reward(self, reward):
        return self._factor * float(reward)


class Observations(gymnasium.ObservationWrapper):
    """Multiply observations, hold one dimension constant, or drop some dimensions."""

    def __init__(self, env, factor=1.0, constant=None, keep=None):
        super().__init__(env)
        self._factor = factor
        self._constant = constant
        self._keep = list(range(env.observation_space.shape[0])) if keep is None else list(keep)
        shape = (len(self._keep),)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, shape, np.float32)

    def observation(self, observation):
        observation = np.array(observation, np.float32) * self._factor
        if self._constant is not None:
            observation[self._constant] = 0.0
        return observation[self._keep].astype(np.float32)


class Late(gymnasium.Wrapper):
    """Return observations, rewards or both some steps late."""

    def __init__(self, env, observations=0, rewards=0):
        super().__init__(env)
        self._lengths = observations + 1, rewards + 1

    def reset(self, **kwargs):
        observation, info = self.env.reset(**kwargs)
        seen, paid = self._lengths
        self._observations = deque([observation] * seen, seen)
        self._rewards = deque([0.0] * paid, paid)
        return observation, info

    def step(self, action):
        observation, reward, *rest = self.env.step(action)
        self._observations.append(observation)
        self._rewards.append(float(reward))
        return self._observations[0], self._rewards[0], *rest


class LimitsAsEnds(gymnasium.Wrapper):
    """Report the time limit, or an earlier one, as a real end."""

    def __init__(self, env, limit=None):
        super().__init__(env)
        self._limit = limit

    def reset(self, **kwargs):
        self._steps = 0
        return self.env.reset(**kwargs)

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        return observation, reward, terminated or truncated or self._steps == self._limit, False, info


class NoEnds(gymnasium.Wrapper):
    """Begin the next episode without a word."""

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            observation, info = self.env.reset()
        return observation, reward, False, False, info


class ActionsIgnored(gymnasium.ActionWrapper):
    """Take a random action."""

    def action(self, action):
        return self.action_space.sample()


class ActionBounds(gymnasium.ActionWrapper):
    """Report bounds of actions that are too narrow or too wide."""

    def __init__(self, env, factor):
        super().__init__(env)
        space = env.action_space
        self.action_space = gymnasium.spaces.Box(space.low * factor, space.high * factor, dtype=np.float32)

    def action(self, action):
        space = self.env.action_space
        return np.clip(action, space.low, space.high)


class OneSeed(gymnasium.Wrapper):
    """Ignore the seed."""

    def reset(self, *, seed=None, **kwargs):
        return self.env.reset(seed=None if seed is None else 0, **kwargs)


# Healthy settings: they learn within these steps.
CARTPOLE, PENDULUM, INVERTED = "CartPole-v1", "Pendulum-v1", "InvertedPendulum-v5"
HEALTHY = {
    ("ppo2", CARTPOLE): "--num_timesteps=40000 --max_total_reward=None --log_interval=4",
    ("ppo2", PENDULUM): "--num_timesteps=60000 --nsteps=256 --nminibatches=16 --lr=5e-4",
    ("a2c", CARTPOLE): "--num_timesteps=80000 --log_interval=20",
    ("a2c", INVERTED): "--num_timesteps=60000 --log_interval=20",
    ("a2c", PENDULUM): "--num_timesteps=60000 --log_interval=20",
    ("deepq", CARTPOLE): "--num_timesteps=20000 --print_freq=20 --save_replay_buffer=False",
    ("sac", PENDULUM): "--num_timesteps=6000 --steps_per_epoch=500 --num_test_episodes=2 --hidden_sizes=64,64 "
    "--start_steps=500 --update_after=500 --save_freq=0",
}
# Without another word, an algorithm is spoiled here.
USUAL = {"ppo2": CARTPOLE, "a2c": CARTPOLE, "deepq": CARTPOLE, "sac": PENDULUM}
BOX = {"ppo2": PENDULUM, "a2c": INVERTED, "sac": PENDULUM}


class Way(NamedTuple):
    """One way to spoil a run.

    Attributes:
        cause: the true cause, as the doctor names it.
        flags: flags by algorithm, or for all of them.
        envs: environment by algorithm.
    """

    cause: str
    flags: str | dict[str, str]
    envs: dict[str, str] = USUAL


def wrapper(name: str) -> str:
    return f"--wrapper={MODULE}:{name}"


def by_env(cartpole: str, pendulum: str) -> dict[str, str]:
    return {alg: wrapper(cartpole if env == CARTPOLE else pendulum) for alg, env in USUAL.items()}


RATES = {"ppo2": 1e-3, "a2c": 3e-3, "deepq": 1e-3, "sac": 1e-3}
WAYS = {
    "reward_sign": Way("reward_sign", wrapper("Rewards(factor=-1)")),
    "rewards_times_10000": Way("rewards_large", wrapper("Rewards(factor=10000)")),
    "rewards_by_10000": Way("rewards_small", wrapper("Rewards(factor=0.0001)")),
    "observations_times_100000": Way("observation_scale", wrapper("Observations(factor=100000)")),
    "constant_observation": Way("observation_constant", by_env("Observations(constant=2)", "Observations(constant=1)")),
    "late_observations": Way("observation_delay", wrapper("Late(observations=1)")),
    "late_rewards": Way("reward_delay", wrapper("Late(rewards=1)"), {"ppo2": PENDULUM, "sac": PENDULUM}),
    "limits_as_ends": Way(
        "limits_as_ends",
        by_env("LimitsAsEnds(limit=50)", "LimitsAsEnds") | {"ppo2": wrapper("LimitsAsEnds")},
        USUAL | {"ppo2": PENDULUM},
    ),
    # A test of an episode would not end either.
    "no_ends": Way(
        "no_ends",
        dict.fromkeys(USUAL, wrapper("NoEnds")) | {"sac": f"{wrapper('NoEnds')} --num_test_episodes=0"},
    ),
    "actions_ignored": Way("actions_ignored", wrapper("ActionsIgnored")),
    "action_bounds": Way("action_bounds", wrapper("ActionBounds(factor=0.05)"), BOX),
    "one_seed": Way("equal_copies", wrapper("OneSeed"), {"ppo2": PENDULUM, "a2c": PENDULUM}),
    "rate_times_100": Way("rate_large", {alg: f"--lr={100 * rate:g}" for alg, rate in RATES.items()}),
    "rate_by_1000": Way("rate_small", {alg: f"--lr={rate / 1000:g}" for alg, rate in RATES.items()}),
    "gamma_0": Way("discount_small", "--gamma=0"),
    "gamma_1": Way("discount_large", "--gamma=1", USUAL | {"ppo2": PENDULUM}),
    "entropy_bonus": Way("entropy_large", {"ppo2": "--ent_coef=3", "a2c": "--ent_coef=3", "sac": "--alpha=20"}),
    "no_exploration": Way(
        "no_exploration",
        {
            "deepq": "--epsilon_start=0 --exploration_final_eps=0 --exploration_fraction=0",
            "sac": "--alpha=0 --start_steps=0",
            "ppo2": "--init_logstd=-12",
        },
        USUAL | {"ppo2": PENDULUM},
    ),
    "first_deviation": Way("deviation_small", "--init_logstd=-6.9", {"ppo2": PENDULUM, "a2c": INVERTED}),
    "clip_range": Way("clip_small", {"ppo2": "--cliprange=0.001"}),
    "target_never_copied": Way("target_frozen", {"deepq": "--target_network_update_freq=1000000", "sac": "--polyak=1"}),
    "target_always_copied": Way("target_copied", {"deepq": "--target_network_update_freq=1", "sac": "--polyak=0"}),
    "replay_of_one": Way("replay_small", {"deepq": "--buffer_size=1", "sac": "--replay_size=1 --update_after=1"}),
    "dead_units": Way("dead_units", "--network=tests.doctor.dead:dead"),
    "no_frame_stack": Way("observation_partial", by_env("Observations(keep=[0,2])", "Observations(keep=[0,1])")),
}


class Case(NamedTuple):
    """One run: an algorithm, a way (empty: healthy), an environment and a seed."""

    alg: str
    way: str
    env: str
    seed: int

    @property
    def name(self) -> str:
        """Name of its directory."""
        return f"{self.alg}-{self.way or f'healthy-{self.env}'}-{self.seed}"

    @property
    def cause(self) -> str:
        """The true cause; empty for a healthy run."""
        return self.spoiling.cause if self.way else ""

    @property
    def spoiling(self) -> Way:
        """The way's wrapper, settings or network."""
        return WAYS[self.way]

    def command(self, directory: Path) -> list[str]:
        """Words of the command that trains it; later flags replace earlier ones."""
        flags = dict(word.split("=", 1) for word in HEALTHY[self.alg, self.env].split())
        words = self.spoiling.flags if self.way else ""
        words = words if isinstance(words, str) else words[self.alg]
        flags |= dict(word.split("=", 1) for word in words.split())
        if "--network" in flags:
            flags.pop("--hidden_sizes", None)
        flags |= {"--alg": self.alg, "--env": self.env, "--seed": str(self.seed), "--log_path": str(directory)}
        return ["--tuned", "--overwrite", *(f"{name}={value}" for name, value in flags.items())]


def cases() -> Iterator[Case]:
    """Yield all runs: for each seed the healthy ones, then the spoiled ones."""
    for seed in SEEDS:
        yield from (Case(alg, "", env, seed) for alg, env in HEALTHY)
        yield from spoilings(WAYS, Case, seed)


def spoilings(ways: dict[str, Way], kind: type[Case], seed: int) -> Iterator[Case]:
    """Yield a run of each way under each algorithm to which it applies."""
    for name, way in ways.items():
        applies = way.envs if isinstance(way.flags, str) else way.envs.keys() & way.flags.keys()
        yield from (kind(alg, name, way.envs[alg], seed) for alg in USUAL if alg in applies)


def start(words: Sequence[str | Path], output: IO | None = None) -> Any:
    """Start a module with arguments in a process that has TensorFlow imported; see Warm for the output."""
    sys.path[:0] = [] if str(ROOT / "tests") in sys.path else [str(ROOT / "tests")]
    from support.warm import Warm

    environment = os.environ | {"PYTHONPATH": str(ROOT), "TF_NUM_INTRAOP_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return Warm(words, ROOT, environment, output)


def train(case: Case, root: Path) -> bool:
    """Train one run unless it is finished; return False if its command failed."""
    directory = root / case.name
    done = directory / FINISHED
    if done.exists():
        return True
    root.mkdir(parents=True, exist_ok=True)
    with open(root / f"{case.name}.out", "w") as output:
        process = start(["tfbaselines.run", *case.command(directory)], output)
        try:
            status = process.wait(600)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
    done.write_text(f"{status}\n") if directory.is_dir() else None
    return status == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--alg", nargs="+", choices=USUAL, default=list(USUAL))
    parser.add_argument("--way", nargs="+", choices=["healthy", *WAYS], default=["healthy", *WAYS])
    parser.add_argument("--seed", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--list", action="store_true", help="print the commands and train nothing")
    args = parser.parse_args()
    chosen = [c for c in cases() if c.alg in args.alg and (c.way or "healthy") in args.way and c.seed in args.seed]
    if hasattr(os, "nice") and not args.list:
        os.nice(10)
    for number, case in enumerate(chosen, 1):
        if args.list:
            print("tfbaselines run", *case.command(args.directory / case.name))
            continue
        well = train(case, args.directory.resolve())
        print(f"{number}/{len(chosen)} {case.name}{'' if well else ': its command failed'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
