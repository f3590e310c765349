"""Episodes of a policy: playing, tests of the deterministic policy, and the mean return that judges a run."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.options import RunOptions
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.base import find_wrapper
from tfbaselines.envs.wrappers import require_end
from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.logs.statistics import EPISODES_IN_MEAN, Episodes, safe_mean
from tfbaselines.parallel.mpi import one_blas_thread

# An environment without an 'episode' entry after this many dones has no Monitor: an Atari game has far fewer lives.
MOST_SILENT_DONES = 1000


def limit_as_trained(env: VecEnv, algorithm: Algorithm, arguments: dict[str, Any]) -> None:
    """Limit episodes to the length that training with these arguments had."""
    limit_episodes(env, algorithm.config.of(arguments))


def limit_episodes(env: VecEnv, config: Any) -> None:
    """Limit the steps and the return of episodes as an algorithm's arguments do."""
    steps, reward = (getattr(config, name, None) for name in ("max_ep_len", "max_ep_reward"))
    if steps is not None or reward is not None:
        env.limit_episodes(steps, reward)


def episodes(model: Any, env: VecEnv, deterministic: bool = False, render: bool = False) -> Iterator[dict[str, Any]]:
    """Act without end; yield the info entry of each episode: 'r' the environment's own return, 'l', 't'."""
    return (episode for _, episode in _ended(model, env, deterministic, render))


def even_episodes(model: Any, env: VecEnv, count: int, deterministic: bool = False) -> list[dict[str, Any]]:
    """Return `count` episodes, the first ones of every environment, as evenly as possible.

    The first episodes to end would be the short ones. For the other arguments see `episodes`.
    """
    # The first environments play the remainder of the division.
    wanted = [len(range(i, count, env.num_envs)) for i in range(env.num_envs)]
    played: list[dict[str, Any]] = []
    for i, episode in _ended(model, env, deterministic):
        if wanted[i]:
            wanted[i] -= 1
            played.append(episode)
        if not any(wanted):
            break
    return played


def _ended(model: Any, env: VecEnv, deterministic: bool, render: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of the environment and its info entry for each episode that ends."""
    with one_blas_thread():
        obs, silent, lengths = env.reset(), 0, np.zeros(env.num_envs, int)
        state, dones = model.initial_states(env.num_envs), np.zeros(env.num_envs, bool)
        while True:
            actions, state = model.act(obs, state, deterministic, dones)
            obs, _, dones, infos = env.step(actions)
            if render:
                env.render()
            lengths = np.where(dones, 0, lengths + 1)
            require_end(int(lengths.max()))
            for i in np.flatnonzero(dones).tolist():
                if "episode" in infos[i]:
                    silent = 0
                    yield i, infos[i]["episode"]
                elif (silent := silent + 1) > MOST_SILENT_DONES:
                    raise UsageError("the environments' infos have no episodes: put a Monitor around each environment")


class Scores:
    """Keep the latest episodes of training and of tests, and judge the run by them.

    Attributes:
        training: latest episodes of training.
        tests: latest episodes of tests.

    Args:
        training: episodes of training to keep.
        tests: episodes of tests to keep.
    """

    def __init__(self, training: int = EPISODES_IN_MEAN, tests: int = EPISODES_IN_MEAN) -> None:
        self.training = Episodes(training)
        self.tests = Episodes(tests)
        # Episodes of the test that judges the run; None if training judges it.
        self._num_tests: int | None = None

    @property
    def mean_reward(self) -> float:
        """Mean return of the latest test, or of training if there are no tests; NaN before the first episode."""
        return safe_mean(self._latest_test) if self._latest_test else self.training.mean_reward

    @property
    def judged_return(self) -> float:
        """Mean return of the latest test, or of as many episodes of training as the logs average.

        NaN before as many episodes have ended.
        """
        if self._num_tests is None:
            return self.training.mean_reward if self.training.full else float("nan")
        return safe_mean(self._latest_test) if len(self._latest_test) == self._num_tests else float("nan")

    def judge_by_tests(self, episodes: int) -> bool:
        """Judge the run by tests of this many episodes, unless other tests judge it; return whether they do."""
        if self._num_tests is None:
            self._num_tests = episodes
            return True
        return False

    @property
    def _latest_test(self) -> list[float]:
        return self.tests.rewards[-(self._num_tests or 0) :]

    def state(self) -> dict[str, Any]:
        """Return the episodes."""
        return {"episodes": self.training.state(), "eval_episodes": self.tests.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over episodes that `state` returned."""
        self.training.restore(state["episodes"])
        self.tests.restore(state["eval_episodes"])


class Tester:
    """Test a policy in environments that are given, or made here.

    Attributes:
        env: environments for tests; None for no tests.

    Args:
        env: environments of training; tests use their normalization.
        eval_env: environments for tests; None makes them by `make`.
        episodes: episodes of a test.
        config: arguments that limit episodes; None for no limits.
        make: makes environments for a number of episodes.
    """

    def __init__(
        self,
        env: VecEnv,
        eval_env: VecEnv | None,
        episodes: int,
        config: Any = None,
        make: Callable[[int], VecEnv] | None = None,
    ) -> None:
        self._train_env = env
        self._count = episodes
        self._own: VecEnv | None = None
        if eval_env is None and episodes and make is not None:
            eval_env = self._own = make(episodes)
        self.env = scaled_like(env, eval_env) if episodes and eval_env is not None else None
        if self.env is not None:
            limit_episodes(self.env, config)

    def run(self, model: Any) -> list[dict[str, Any]]:
        """Run the deterministic policy, and return the episodes' infos."""
        if self.env is None:
            return []
        statistics = self._train_env.normalization()
        if statistics:
            self.env.restore_normalization(statistics)
        return even_episodes(model, self.env, self._count, deterministic=True)

    def close(self) -> None:
        """Close environments that were made here."""
        if self._own is not None:
            self._own.close()


def make_tester(
    env: VecEnv, config: Any, options: RunOptions, wrap: Callable[[VecEnv], VecEnv]
) -> tuple[Tester | None, VecEnv | None]:
    """Make the tests that an algorithm's arguments declare, and return the environments for evaluation.

    An algorithm with eval_env but without num_test_episodes steps its evaluation environments by itself.

    Args:
        env, config, options: the run's own.
        wrap: wraps environments as the algorithm declares.
    """
    given = getattr(config, "eval_env", None)
    given = None if given is None else wrap(given)
    if not hasattr(config, "num_test_episodes"):
        if given is not None:
            limit_episodes(given, config)
        return None, given
    make = options.make_eval_env and (lambda count: wrap(options.make_eval_env(count)))
    tester = Tester(env, given, config.num_test_episodes, config, make)
    return tester, tester.env


def scaled_like(env: VecEnv, eval_env: VecEnv) -> VecEnv:
    """Wrap environments for tests in VecNormalize if only the training environments are normalized."""
    statistics = env.normalization()
    if statistics.get("ob") is None or find_wrapper(eval_env, VecNormalize) is not None:
        return eval_env
    if eval_env.observation_space.shape != statistics["ob"]["mean"].shape:
        raise bad_argument("eval_env", eval_env.observation_space, "wrap it in VecNormalize where env is")
    clipob, epsilon = statistics["clipob"], statistics["epsilon"]
    return VecNormalize(eval_env, ret=False, clipob=clipob, epsilon=epsilon, training=False)
