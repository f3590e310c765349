"""Several behaviors in one environment, each with a trainer and settings of its own (docs/howto/multi-agent.md).

from tfbaselines import multi

multi.learn(parallel_env, {"guide": {"alg": "ppo2", "num_timesteps": 1e5}, "runner": {"alg": "sac"}}, seed=0)
"""

from typing import Any

from tfbaselines.loading import load_tensorflow

__all__ = ["evaluate", "learn"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    load_tensorflow()
    from tfbaselines.multi import training

    return getattr(training, name)
