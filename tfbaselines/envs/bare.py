"""Make one environment from its id or by a function, in the present form of Gymnasium's interface."""

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium

from tfbaselines.envs import cannot_be_made, spec_of
from tfbaselines.envs.vec.worker import EnvironmentFault, why
from tfbaselines.envs.wrappers import in_new_form, is_environment, with_quick_actions
from tfbaselines.errors import UsageError, bad_argument


def bare(env_id: str | Callable[..., gymnasium.Env], env_type: str, env_kwargs: dict[str, Any]) -> gymnasium.Env:
    """Make one environment, with Gymnasium's own wrappers alone."""
    if callable(env_id):
        env = env_id(**env_kwargs)
        if not (isinstance(env, gymnasium.Env) or is_environment(env)):
            raise bad_argument("env", type(env).__name__, "a function that makes a Gymnasium environment")
        return in_new_form(env)
    if env_type == "atari":
        from tfbaselines.envs.atari import make_atari

        with making(env_id, env_type, env_kwargs):
            # The gray scale of ALE, which its vector environment uses too.
            return make_atari(env_id, **{"obs_type": "grayscale", **env_kwargs})
    with making(env_id, env_type, env_kwargs):
        # Vector environments check the order and the results of calls: two layers less in every step.
        spec = dataclasses.replace(spec_of(env_id), order_enforce=False)
        env = in_new_form(gymnasium.make(spec, disable_env_checker=True, **env_kwargs))
        env = with_quick_actions(env)
    _without_mujoco_log()
    return env


@contextlib.contextmanager
def making(env_id: str, env_type: str, env_kwargs: dict[str, Any]) -> Iterator[None]:
    """Turn the exceptions of making a registered environment into a UsageError of one line."""
    try:
        yield
    except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
        raise cannot_be_made(env_id, env_type, error) from None
    except TypeError as error:
        if "'render_mode'" in str(error):
            raise UsageError(f"no pictures of {env_id}: it takes no render_mode") from None
        raise bad_argument(
            "env_kwargs", env_kwargs, f"use arguments of {env_id}, --env_kwargs.NAME=VALUE ({error})"
        ) from None
    except (UsageError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise EnvironmentFault(f"environment '{env_id}' cannot be made: {why(error)}") from error


def _without_mujoco_log() -> None:
    """Keep MuJoCo from writing MUJOCO_LOG.TXT; its warnings still go to the console."""
    settings = getattr(sys.modules.get("mujoco"), "MjLogConfig", None)
    if settings is not None:
        present = settings.get()
        present.logto_file = False
        present.set()
