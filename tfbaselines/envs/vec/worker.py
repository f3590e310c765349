"""The worker of a vector environment: steps its environments, in this process or in a process of its own.

A worker process obeys the commands of its parent (subproc.py) until the pipe between them closes. Observations travel
through memory that both processes map, or through the pipe where the system cannot share memory.
"""

import contextlib
import copy
import mmap
import multiprocessing
import multiprocessing.connection
import os
import re
import signal
import threading
import time
import warnings
from collections.abc import Callable
from multiprocessing import reduction
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, NoReturn

import gymnasium
import numpy as np
from gymnasium import spaces

import tfbaselines
from tfbaselines.envs.episode_limits import limited
from tfbaselines.envs.parameterized import assign_parameters
from tfbaselines.envs.state import full_state, restore_full_state
from tfbaselines.envs.vec.base import CloudpickleWrapper
from tfbaselines.envs.vec.observations import AFTER_RESET, Fit, Misfit, Observations, fault_of_space, with_named_parts
from tfbaselines.errors import ObservationError, UsageError, WorkerError, warn

SECONDS_TO_END = 5.0

# Python's variable that leaves the working directory out of sys.path, and its value when our command set it.
SAFE_PATH, BY_PARENT = "PYTHONSAFEPATH", "tfbaselines"

# Exceptions of libraries without a display or a driver.
OF_GL = re.compile(r"opengl|\begl|glfw|osmesa|gladload|glgeterror|mujoco_gl", re.IGNORECASE)
GL_PACKAGES = "install EGL (apt install libegl1 libgl1) or OSMesa (apt install libosmesa6) to render without a display"

# Signals that reach the whole process group: the parent decides when its workers end.
LEFT_TO_PARENT = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")


EXAMINE = "python -m tfbaselines.check_env ID examines an environment"
RESET = "reset must be Gymnasium's, reset(*, seed=None, options=None), and return (obs, info), info being a dict"
STEP = "step must return Gymnasium's five values (obs, reward, terminated, truncated, info)"
NO_DICT = f"{STEP} (its info is no dict): {EXAMINE}"

PACKAGE = os.path.dirname(tfbaselines.__file__) + os.sep
# Modules that call environments.
CALLERS = ("tfbaselines.", "gymnasium.")


class EnvironmentFault(UsageError):
    """An environment breaks a rule of Gymnasium."""


def failure(name: str, error: BaseException) -> Exception:
    """Build the error, one line, of an environment that failed: SystemExit fails like any other exception."""
    if isinstance(error, Misfit):
        return ObservationError(f"{name}: {error}")
    return WorkerError(f"{name} failed: {why(error)}")


def why(error: BaseException) -> str:
    """Explain a failure in one line: the rule that the environment broke, or the exception with its file and line."""
    if isinstance(error, EnvironmentFault):
        return str(error)
    return fault_of(error) or fault_of_gl(error) or f"{type(error).__name__}: {text_of(error)}{place(error)}"


def text_of(error: BaseException) -> str:
    """Return the text of an exception in one line, also if its own __str__ fails."""
    try:
        return " ".join(str(error).split())
    except Exception as second:
        return f"its text cannot be shown ({type(second).__name__})"


def fault_of_gl(error: BaseException) -> str | None:
    """Return the packages that are missing if an exception is one of OpenGL."""
    if not OF_GL.search(f"{type(error).__module__} {text_of(error)}"):
        return None
    return f"OpenGL does not start here ({type(error).__name__}: {text_of(error):.200}): {GL_PACKAGES}"


def fault_of(error: BaseException) -> str | None:
    """Return the rule of Gymnasium that the environment broke, if an exception shows it."""
    text, trace = text_of(error), _last(error)
    if isinstance(error, TypeError) and "reset() got an unexpected keyword argument" in text:
        return f"{RESET} ({text}): {EXAMINE}"
    if trace is None or not trace.tb_frame.f_globals.get("__name__", "").startswith(CALLERS):
        return None
    frame = trace.tb_frame
    if isinstance(error, TypeError | ValueError) and "unpack" in text:
        rule = RESET if "reset" in frame.f_code.co_name else STEP
        old = ", tfbaselines.compat.old_gym(env) converts four" if rule == STEP and "got 4" in text else ""
        return f"{rule} ({text}){old}: {EXAMINE}"
    if "reward" in frame.f_locals and not _is_number(frame.f_locals["reward"]):
        return f"the reward {frame.f_locals['reward']!r:.60} is not a number"
    if "info" in frame.f_locals and not isinstance(frame.f_locals["info"], dict):
        return NO_DICT
    return None


def check_spaces(env: gymnasium.Env) -> None:
    """Raise an EnvironmentFault unless an environment has spaces of observations and actions."""
    for name in ("observation_space", "action_space"):
        space = getattr(env, name, None)
        if not isinstance(space, spaces.Space):
            text = f"environment {type(env.unwrapped).__name__} has no {name}: give it one of gymnasium.spaces"
            raise EnvironmentFault(f"{text}: {EXAMINE}")
        if fault := fault_of_space(space):
            raise EnvironmentFault(f"{name} {space!s:.100} is not valid: {fault}: {EXAMINE}")


def begin(env: gymnasium.Env, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
    """Reset an environment with `kwargs`; EnvironmentFault if it does not return (obs, info)."""
    try:
        begun = env.reset(**kwargs)
    except (TypeError, ValueError) as error:
        raise_fault(error)
    if not (isinstance(begun, tuple) and len(begun) == 2 and isinstance(begun[1], dict)):
        raise EnvironmentFault(f"{RESET}: {EXAMINE}")
    return begun


def raise_fault(error: Exception) -> NoReturn:
    """Raise the EnvironmentFault that an exception shows, or the exception."""
    fault = fault_of(error)
    if fault is None:
        raise error
    raise EnvironmentFault(fault) from error


def _is_number(reward: Any) -> bool:
    return isinstance(reward, int | float | np.number | np.bool_)


def _last(error: BaseException) -> TracebackType | None:
    """Return the frame that raised an exception."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def place(error: BaseException) -> str:
    """Return the file and line that raised an exception; empty for this package's own exceptions."""
    trace = _last(error)
    if trace is None or trace.tb_frame.f_code.co_filename.startswith(PACKAGE):
        return ""
    return f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"


def environment_name(number: int, env_id: str | None) -> str:
    """Return the name of an environment in errors."""
    return f"environment {number} ({env_id})" if env_id else f"environment {number}"


def id_of(env: gymnasium.Env) -> str:
    """Return an environment's id, or the name of its class."""
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def prepared(env: gymnasium.Env) -> gymnasium.Env:
    """Return the environment as workers step it: Tuple and nested observations become a Dict of named parts."""
    check_spaces(env)
    return with_named_parts(env)


def step_same(env: gymnasium.Env, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
    """Take a step and, if it ends the episode, begin the next episode at once; return obs, reward, done and info.

    The info of an episode's last step holds its real last observation and whether a time limit ended it.
    """
    try:
        obs, reward, terminated, truncated, info = env.step(action)
    except (TypeError, ValueError, AttributeError) as error:
        raise_fault(error)
    if info.__class__ is not dict and not isinstance(info, dict):
        raise EnvironmentFault(NO_DICT)
    if terminated or truncated:
        for flag in (terminated, truncated):
            if np.asarray(flag).dtype.kind not in "biuf":
                raise EnvironmentFault(f"{STEP} ({flag!r:.60} is neither True nor False): {EXAMINE}")
        # Some environments return an array that reset() changes, or the same dictionary in every step.
        info = dict(info)
        info["final_observation"] = copy.deepcopy(obs)
        info["TimeLimit.truncated"] = bool(truncated and not terminated)
        obs, info["reset_info"] = env.reset()
        return obs, reward, True, info
    return obs, reward, False, info


def picture(env: gymnasium.Env) -> np.ndarray:
    """Render an environment that was made with render_mode='rgb_array', as [rows, columns, 3]."""
    try:
        image = env.render()
        if isinstance(image, np.ndarray):
            return image
        reason = "make it with env_kwargs={'render_mode': 'rgb_array'}"
        if env.render_mode == "rgb_array":
            reason = f"its render() returns {type(image).__name__}, not an array"
    except NotImplementedError:
        reason = "it cannot be rendered"
    except Exception as error:
        reason = fault_of_gl(error)
        if reason is None and isinstance(error, ImportError | gymnasium.error.DependencyNotInstalled):
            reason = text_of(error)
        if reason is None:
            raise
    raise EnvironmentFault(f"no pictures of {env.unwrapped}: {reason}")


def serve(pipe: Connection, parents_end: Connection, parents: Any, makers: CloudpickleWrapper, first: int) -> None:
    """Run a worker's environments until the pipe closes. It also closes when the parent is killed.

    Args:
        pipe: carries (command, data) in and (None, answer) or (kind of error, text) out.
        parents_end: other end of the pipe. A forked worker has a copy, which would keep the pipe open.
        parents: Surroundings (starting.py), which are set before the makers are unpickled; None if there is no need.
        makers: functions that make the worker's environments.
        first: number of the worker's first environment.
    """
    leave_signals_to_parent()
    end_with_parent()
    # Forked processes have a common state of numpy's global generator, which some environments use.
    np.random.seed()
    # A logger that an environment uses must not open a log of this process.
    os.environ |= dict.fromkeys(("OPENAI_LOG_FORMAT", "OPENAI_LOG_FORMAT_MPI"), "")
    if os.environ.get(SAFE_PATH) == BY_PARENT:
        # It is for the start of this process, not for programs that an environment starts.
        del os.environ[SAFE_PATH]
    # Without a display GLFW warns before the exception that is shown.
    warnings.filterwarnings("ignore", module="glfw")
    parents_end.close()
    share = _Share(pipe, first)
    try:
        share.make(makers.x)
        pipe.send((None, share.describe()))
        while True:
            command, data = pipe.recv()
            if command == "close":
                break
            pipe.send((None, getattr(share, command)(data)))
    except BaseException as error:
        # Nobody reads this if the error is that the parent has ended.
        failed = failure(share.name(share.present), error)
        send_quietly(pipe, (type(failed).__name__, str(failed)))
    finally:
        for i, env in enumerate(share.envs):
            close(env, share.name(i))
        pipe.close()


def close(env: gymnasium.Env, name: str) -> None:
    """Close an environment; a failure is a warning, since nothing depends on the environment any more."""
    try:
        env.close()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        warn(f"{name} failed to close: {why(error)}")


def send_quietly(pipe: Connection, message: Any) -> None:
    """Send a message; a pipe that nobody reads is no error."""
    with contextlib.suppress(BrokenPipeError, OSError):
        pipe.send(message)


def leave_signals_to_parent() -> None:
    """Ignore the signals that stop a run: the parent handles them."""
    for name in LEFT_TO_PARENT:
        if hasattr(signal, name):
            # Programs that an environment starts would inherit SIG_IGN.
            signal.signal(getattr(signal, name), lambda *_: None)


def end_with_parent() -> None:
    """End this process some seconds after its parent, even in the middle of a step that never ends."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        time.sleep(SECONDS_TO_END)
        os._exit(1)

    if parent is not None:
        threading.Thread(target=watch, daemon=True).start()


class _Share:
    """The environments of one worker; the parent calls the methods from `map` on by name."""

    def __init__(self, pipe: Connection, first: int) -> None:
        self._pipe = pipe
        self._first = first
        # Number within the share of the environment that is being stepped, for errors.
        self.present = 0
        self.envs: list[gymnasium.Env] = []
        self._fits: list[Fit] = []
        self._shared: Observations | None = None

    def make(self, makers: list[Callable[[], gymnasium.Env]]) -> None:
        for i, make in enumerate(makers):
            self.present = i
            self.envs.append(prepared(make()))
            self._fits.append(Fit(self.envs[-1].observation_space))

    def describe(self) -> tuple[gymnasium.Space, gymnasium.Space, Any, list[str]]:
        first = self.envs[0]
        ids = [id_of(env) for env in self.envs]
        return first.observation_space, first.action_space, first.metadata.get("render_fps"), ids

    def name(self, i: int) -> str:
        return environment_name(self._first + i, id_of(self.envs[i]) if i < len(self.envs) else None)

    def map(self, batch: tuple[int, gymnasium.Space]) -> None:
        descriptor = reduction.recv_handle(self._pipe)
        try:
            self._shared = Observations(*batch, memory=mmap.mmap(descriptor, 0))
        finally:
            os.close(descriptor)

    def step(self, actions: Any) -> list[tuple[Any, float, bool, dict[str, Any]]]:
        results = []
        for i, (env, action) in enumerate(zip(self.envs, actions, strict=True)):
            self.present = i
            obs, reward, done, info = step_same(env, action)
            self._fits[i].step(obs, done, info)
            results.append((self._deliver(i, obs), float(reward), done, info))
        return results

    def reset(self, _: Any) -> list[tuple[Any, dict[str, Any]]]:
        begun = []
        for i, env in enumerate(self.envs):
            self.present = i
            obs, info = begin(env)
            self._fits[i](obs, AFTER_RESET)
            begun.append((self._deliver(i, obs), info))
        return begun

    def _deliver(self, i: int, obs: Any) -> Any:
        """Write an observation where the parent reads it, or return it for the pipe."""
        if self._shared is None:
            return obs
        self._shared.put(self._first + i, obs)
        return None

    def limit(self, limits: list[tuple[int | None, float | None]]) -> None:
        self.envs = [limited(env, *limit) for env, limit in zip(self.envs, limits, strict=True)]

    def set_parameters(self, values: dict[str, Any]) -> None:
        for env in self.envs:
            assign_parameters(env, values)

    def render(self, _: Any) -> list[Any]:
        return [picture(env) for env in self.envs]

    def state(self, _: Any) -> list[dict[str, Any]]:
        return [full_state(env) for env in self.envs]

    def restore(self, states: list[dict[str, Any]]) -> list[bool]:
        return [restore_full_state(env, state) for env, state in zip(self.envs, states, strict=True)]
