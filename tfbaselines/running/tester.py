"""Tests of the deterministic policy on environments of their own."""

from collections.abc import Callable
from typing import Any

from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.base import find_wrapper
from tfbaselines.errors import bad_argument
from tfbaselines.running.play import even_episodes
from tfbaselines.settings.options import RunOptions


class Tester:
    """Environments for tests, given or made.

    Attributes:
        env: the environments for tests; None for no tests.

    Args:
        env: the environments of training, whose normalisation goes for tests too.
        eval_env: environments for tests; None makes them as the run's options say.
        config: has num_test_episodes and max_ep_len.
        options: of the run.
        wrap: what the algorithm puts around environments that are made here.
    """

    def __init__(
        self,
        env: VecEnv,
        eval_env: VecEnv | None,
        config: Any,
        options: RunOptions,
        wrap: Callable[[VecEnv], VecEnv] = lambda env: env,
    ) -> None:
        self._train_env, self._count, self._own = env, config.num_test_episodes, None
        if eval_env is None and self._count and options.make_eval_env is not None:
            eval_env = self._own = wrap(options.make_eval_env(self._count))
        self.env = scaled_like(env, eval_env) if self._count and eval_env is not None else None
        if self.env is not None and config.max_ep_len is not None:
            self.env.limit_episodes(config.max_ep_len)

    def run(self, model: Any) -> list[dict[str, Any]]:
        """Run the deterministic policy; the episodes' infos."""
        if self.env is None:
            return []
        statistics = self._train_env.normalization()
        if statistics:
            self.env.restore_normalization(statistics)
        return even_episodes(model, self.env, self._count, deterministic=True)

    def close(self) -> None:
        """Close the environments that were made here."""
        if self._own is not None:
            self._own.close()


def scaled_like(env: VecEnv, eval_env: VecEnv) -> VecEnv:
    """Environments for tests, in VecNormalize where those of training are and these are not.

    Args:
        env: the environments of training.
        eval_env: those for tests.
    """
    statistics = env.normalization()
    if statistics.get("ob") is None or find_wrapper(eval_env, VecNormalize) is not None:
        return eval_env
    if eval_env.observation_space.shape != statistics["ob"]["mean"].shape:
        raise bad_argument("eval_env", eval_env.observation_space, "wrap it in VecNormalize where env is")
    clipob, epsilon = statistics["clipob"], statistics["epsilon"]
    return VecNormalize(eval_env, ret=False, clipob=clipob, epsilon=epsilon, training=False)
