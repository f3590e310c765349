"""Check a solution of an exercise: python docs/exercises/check.py NUMBER FILE."""

import importlib.util
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

USAGE = "usage: python docs/exercises/check.py NUMBER FILE, as in: check.py 1 my_solution.py"


class Wrong(Exception):
    """The solution does not do what the exercise asks for."""


def main(words: list[str]) -> int:
    """Check the solution that the command's words name; return the exit status."""
    if len(words) != 2 or words[0] not in CHECKS:
        print(f"{USAGE}; NUMBER is one of {', '.join(CHECKS)}", file=sys.stderr)
        return 2
    number, path = words
    try:
        CHECKS[number](load(path))
    except Wrong as wrong:
        print(f"exercise {number}: not yet: {wrong}")
        return 1
    except Exception as error:
        print(f"exercise {number}: {path} raised {type(error).__name__}: {error}")
        return 1
    print(f"exercise {number}: right")
    return 0


def load(path: str) -> ModuleType:
    """Import a file."""
    if not Path(path).is_file():
        raise Wrong(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location("solution", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def part_of(solution: ModuleType, name: str) -> Any:
    """Return what the exercise asks for by its name."""
    if not hasattr(solution, name):
        raise Wrong(f"the file has no '{name}'")
    return getattr(solution, name)


def compare(found: Any, wanted: Any, about: str, tolerance: float = 1e-4) -> None:
    """Raise Wrong unless arrays are equal up to a tolerance."""
    found, wanted = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    if found.shape != wanted.shape:
        raise Wrong(f"{about}: the shape is {found.shape}, it should be {wanted.shape}")
    if not np.isfinite(found).all():
        raise Wrong(f"{about}: not every number is finite")
    distance = np.abs(found - wanted)
    if distance.max(initial=0.0) > tolerance:
        place = np.unravel_index(distance.argmax(), distance.shape)
        where = f" at {tuple(map(int, place))}" if place else ""
        raise Wrong(f"{about}: {found[place]:.6g}{where}, it should be {wanted[place]:.6g}")


def check_advantages(solution: ModuleType) -> None:
    """Exercise 1: an example by hand, then random rollouts against the package's own function."""
    from tfbaselines.rollout.rollout import gae

    written = part_of(solution, "gae")
    one = np.ones((3, 1))
    no = np.zeros((3, 1), bool)
    by_hand = written(one, 0.0 * one, no, np.array([4.0]), np.array([False]), 0.5, 1.0)
    compare(by_hand, [[2.25], [2.5], [3.0]], "rewards of 1, values of 0, a last value of 4, gamma 0.5, lambda 1")
    rng = np.random.default_rng(0)
    for _ in range(3):
        rewards, values = rng.standard_normal((2, 7, 4))
        starts, last_starts = rng.random((7, 4)) < 0.3, rng.random(4) < 0.5
        arguments = (rewards, values, starts, rng.standard_normal(4), last_starts, 0.9, 0.8)
        compare(written(*arguments), gae(*arguments), "a random rollout with ends of episodes in it")


def check_clipping(solution: ModuleType) -> None:
    """Exercise 2: values, then gradients where the clip must stop them and where it must not."""
    import tensorflow as tf

    written = part_of(solution, "policy_loss")
    cases = [
        ("a ratio of 1.5 and an advantage of 1: clipped, no gradient", 1.5, 1.0, -1.2, 0.0),
        ("a ratio of 0.5 and an advantage of 1: not clipped, the gradient must pass", 0.5, 1.0, -0.5, -0.5),
        ("a ratio of 0.5 and an advantage of -1: clipped, no gradient", 0.5, -1.0, 0.8, 0.0),
        ("a ratio of 1.5 and an advantage of -1: not clipped, the gradient must pass", 1.5, -1.0, 1.5, 1.5),
        ("a ratio of 1.1 and an advantage of 2: within the range", 1.1, 2.0, -2.2, -2.2),
    ]
    for about, ratio, advantage, loss, gradient in cases:
        logp = tf.Variable([np.log(ratio)], dtype=tf.float32)
        with tf.GradientTape() as tape:
            value = written(logp, tf.zeros(1), tf.constant([advantage]), 0.2)
        compare(value, loss, f"{about}; the loss")
        slope = tape.gradient(value, logp, unconnected_gradients="zero")
        compare(slope, [gradient], f"{about}; its gradient by log pi")


def check_time_limits(solution: ModuleType) -> None:
    """Exercise 3: an endless task with limits has the value of the endless task."""
    written = part_of(solution, "targets")
    rewards = np.ones(4)
    terminated = np.array([False, True, False, True])
    truncated = np.array([False, False, True, True])
    found = written(rewards, terminated, truncated, np.array([10.0, 7.0, 7.0, 7.0]), np.array([0.0, 10, 10, 10]), 0.9)
    about = "rewards of 1 and values of 10: the episode goes on, terminates, is truncated, both at once"
    compare(found, [10.0, 1.0, 10.0, 1.0], about)


def check_wrapper(solution: ModuleType) -> None:
    """Exercise 4: rewards, ends of both kinds, and no step after an end."""
    import gymnasium

    class Counting(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(0.0, 100.0, (1,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def __init__(self, last: int, cut: bool) -> None:
            self.last, self.cut = last, cut

        def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict]:
            super().reset(seed=seed)
            self.time = 0
            return np.zeros(1, np.float32), {}

        def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
            if self.time >= self.last:
                raise Wrong("the environment was stepped after its episode's end")
            self.time += 1
            over = self.time == self.last
            obs, info = np.array([self.time], np.float32), {"time": self.time}
            return obs, float(self.time), over and not self.cut, over and self.cut, info

    for cut in (False, True):
        env = part_of(solution, "Repeat")(Counting(5, cut), 3)
        env.reset(seed=0)
        obs, reward, terminated, truncated, info = env.step(1)
        compare(reward, 6.0, "the sum of three rewards 1, 2, 3")
        compare(obs, [3.0], "the observation after three steps")
        if terminated or truncated:
            raise Wrong("the episode of five steps is not over after three")
        obs, reward, terminated, truncated, info = env.step(1)
        compare(reward, 9.0, "the sum of the last two rewards 4, 5")
        if (terminated, truncated) != (not cut, cut):
            raise Wrong(f"terminated, truncated are {terminated}, {truncated}; they should be {not cut}, {cut}")
        if info.get("time") != 5:
            raise Wrong("the info is not that of the last step")


def check_density(solution: ModuleType) -> None:
    """Exercise 5: the density's integral, the package's own numbers, and numbers far out."""
    import tensorflow as tf
    from gymnasium import spaces

    from tfbaselines.policy.bounded import SquashedGaussianHead

    written = part_of(solution, "log_density")
    u = tf.linspace(-8.0, 8.0, 4001)[:, None]
    density = np.exp(written(u, 0.3 * tf.ones_like(u), -0.2 * tf.ones_like(u)))
    actions = np.tanh(u.numpy()[:, 0])
    with np.errstate(invalid="ignore"):
        integral = np.sum(0.5 * (density[1:] + density[:-1]) * np.diff(actions))
    compare(integral, 1.0, "the integral of the density over all actions", 1e-3)
    rng = np.random.default_rng(1)
    mean, log_std, noise = (rng.standard_normal((5, 3)).astype(np.float32) for _ in range(3))
    head = SquashedGaussianHead(spaces.Box(-1.0, 1.0, (3,), np.float32))
    _, wanted = head.sample(tf.concat([mean, log_std], -1), tf.constant(noise))
    found = written(tf.constant(mean + np.exp(log_std) * noise), tf.constant(mean), tf.constant(log_std))
    compare(found, wanted, "three actions, against the package's own numbers", 1e-3)
    far = tf.constant([[30.0], [-30.0]])
    compare(written(far, far, tf.zeros((2, 1))), 2 * [57.6948], "u = 30, where tanh(u) rounds to 1", 1e-2)


def check_double(solution: ModuleType) -> None:
    """Exercise 6: selection, evaluation, masks, ends."""
    written = part_of(solution, "targets")
    online = np.array([[1.0, 3.0, 2.0], [1.0, 3.0, 2.0], [5.0, 1.0, 0.0]])
    target = np.array([[9.0, 4.0, 7.0], [9.0, 4.0, 7.0], [6.0, 8.0, 2.0]])
    allowed = np.array([[True, True, True], [True, False, True], [True, True, True]])
    found = written(np.ones(3), np.array([0.5, 0.5, 0.0]), online, target, allowed)
    compare(found, [3.0, 4.5, 1.0], "action 1 selected; action 1 forbidden, so action 2; an episode's end")


def check_retrace(solution: ModuleType) -> None:
    """Exercise 7: an example by hand, then random sequences against the package's own function."""
    import tensorflow as tf

    from tfbaselines.algs.acer.loss import retrace

    written = part_of(solution, "retrace")
    one = np.ones((1, 2))
    found = written(one, one, 2.0 * one, one, np.array([4.0]), np.array([[9.0, 0.5]]), 0.5)
    compare(found, [[1.75, 3.0]], "rewards 1, Q 2, V 1, a last value of 4, ratios 9 and 0.5, gamma 0.5")
    rng = np.random.default_rng(2)
    rewards, q_taken, values = rng.standard_normal((3, 4, 6)).astype(np.float32)
    ratios = np.exp(rng.standard_normal((4, 6))).astype(np.float32)
    terminated = (rng.random((4, 6)) < 0.2).astype(np.float32)
    last = rng.standard_normal(4).astype(np.float32)
    weights = tf.minimum(1.0, ratios)
    ours = retrace(rewards, terminated, tf.zeros((4, 6)), q_taken, values, last, weights, 0.9)
    compare(written(rewards, 1.0 - terminated, q_taken, values, last, ratios, 0.9), ours, "random sequences")


EPISODES = 500


def check_settings(solution: ModuleType) -> None:
    """Exercise 8: three seeds learn to cross the lake."""
    from tfbaselines.algs import qlearning
    from tfbaselines.envs.make import make_vec_env
    from tfbaselines.logs import logger

    settings = dict(part_of(solution, "settings"))
    settings.pop("num_iterations", None)
    for seed in range(3):
        env = make_vec_env("FrozenLake8x8-v1", num_env=1, seed=seed, env_kwargs={"is_slippery": False})
        with tempfile.TemporaryDirectory() as directory, logger.scoped_configure(directory, []):
            model = qlearning.learn("table", env, seed=seed, num_iterations=EPISODES, **settings)
        obs, done, total = env.reset(), False, 0.0
        while not done:
            obs, rewards, dones, _ = env.step(model.act(obs, deterministic=True)[0])
            done = dones[0]
            total += rewards[0]
        env.close()
        if total < 1.0:
            raise Wrong(f"after {EPISODES} episodes with seed {seed} the greedy policy does not cross the lake")


CHECKS: dict[str, Callable[[ModuleType], None]] = {
    "1": check_advantages,
    "2": check_clipping,
    "3": check_time_limits,
    "4": check_wrapper,
    "5": check_density,
    "6": check_double,
    "7": check_retrace,
    "8": check_settings,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
