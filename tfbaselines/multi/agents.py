"""Copies of a PettingZoo environment in its parallel form, and the rows that their agents are in.

Each agent of each copy has a row of its behavior for the whole run. A row is valid while its agent acts: between the
agent's last step and its next appearance, in the same episode or in the next one, nothing is learned from it.
"""

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tfbaselines.envs.vec.base import LAST
from tfbaselines.envs.vec.worker import EnvironmentFault, text_of
from tfbaselines.errors import UsageError, WorkerError

NEEDED = ("possible_agents", "observation_space", "action_space", "reset", "step")


class Outcome(NamedTuple):
    """A row after a step.

    Attributes:
        obs: observation to act on next; None if the row's agent does not act.
        reward: reward of the step; 0 if the agent did not act.
        done: an episode of the agent ended, or its first one begins after a pause.
        info: info of the step; at an episode's end with the real last observation.
    """

    obs: Any
    reward: float
    done: bool
    info: dict[str, Any]


class Agents:
    """Copies of one environment, stepped together.

    Attributes:
        rows: for each behavior its rows, as numbers of copies and names of agents.

    Args:
        make: makes a copy.
        count: number of copies.
        behavior_of: returns the behavior of an agent.
        seed: seed of the first copy; None for any.
    """

    def __init__(
        self, make: Callable[[], Any], count: int, behavior_of: Callable[[str], str], seed: int | None = None
    ) -> None:
        self._envs = [_checked(make()) for _ in range(count)]
        if len({id(env) for env in self._envs}) < count:
            raise UsageError("env returns the same environment again: each call must make another one")
        self._seed = seed
        self.rows: dict[str, list[tuple[int, str]]] = {}
        for number, env in enumerate(self._envs):
            for agent in env.possible_agents:
                self.rows.setdefault(behavior_of(agent), []).append((number, agent))

    def spaces(self, behavior: str) -> tuple[Any, Any]:
        """Return the spaces of observations and actions that all agents of a behavior share."""
        (number, first), *others = self.rows[behavior]
        env = self._envs[number]
        found = env.observation_space(first), env.action_space(first)
        for number, agent in others:
            env = self._envs[number]
            own = env.observation_space(agent), env.action_space(agent)
            if own != found:
                raise UsageError(
                    f"behavior '{behavior}': the agents {first} and {agent} have different spaces, {found} and {own}: "
                    "give them behaviors of their own"
                )
        return found

    def reset(self) -> dict[str, list[Outcome]]:
        """Begin an episode in every copy."""
        begun = []
        for number, env in enumerate(self._envs):
            seed = None if self._seed is None else self._seed + number
            with _stepping(env, "reset"):
                begun.append(env.reset(seed=seed))
        return {
            behavior: [self._first(agent, *begun[number], {}) for number, agent in rows]
            for behavior, rows in self.rows.items()
        }

    def step(self, actions: Mapping[str, Sequence[Any]]) -> dict[str, list[Outcome]]:
        """Take a step of every copy; a copy without living agents begins its next episode at once.

        Args:
            actions: actions of each behavior's rows; those of rows without an acting agent are ignored.
        """
        acting: list[dict[str, Any]] = [{} for _ in self._envs]
        for behavior, rows in self.rows.items():
            for (number, agent), action in zip(rows, actions[behavior], strict=True):
                if agent in self._envs[number].agents:
                    acting[number][agent] = action
        stepped, begun = [], []
        for env, chosen in zip(self._envs, acting, strict=True):
            with _stepping(env, "step"):
                stepped.append(env.step(chosen))
            if env.agents:
                begun.append(None)
            else:
                with _stepping(env, "reset"):
                    begun.append(env.reset())
        return {
            behavior: [self._outcome(agent, agent in acting[i], stepped[i], begun[i], i) for i, agent in rows]
            for behavior, rows in self.rows.items()
        }

    def _outcome(self, agent: str, acted: bool, step: Any, begun: Any, number: int) -> Outcome:
        obs, rewards, terminated, truncated, infos = step
        if not acted:
            return self._idle(agent, obs, begun, infos, number)
        info = dict(infos.get(agent) or {})
        ended = bool(terminated.get(agent)), bool(truncated.get(agent))
        reward = float(rewards.get(agent, 0.0))
        if not any(ended):
            if agent not in self._envs[number].agents or agent not in obs:
                raise EnvironmentFault(f"agent {agent} is gone, but neither terminated nor truncated")
            return Outcome(obs[agent], reward, False, info)
        # Some environments return an array that the next step changes.
        info[LAST] = copy.deepcopy(obs.get(agent))
        info["TimeLimit.truncated"] = ended == (False, True)
        if begun is not None:
            return self._first(agent, *begun, info)._replace(reward=reward, done=True)
        return Outcome(None, reward, True, info)

    def _idle(self, agent: str, obs: Any, begun: Any, infos: Any, number: int) -> Outcome:
        """Return the row of an agent that did not act; if the agent appears, its episode begins."""
        if begun is not None:
            first = self._first(agent, *begun, {})
            return first._replace(done=first.obs is not None)
        if agent in self._envs[number].agents and agent in obs:
            return Outcome(obs[agent], 0.0, True, {"reset_info": dict(infos.get(agent) or {})})
        return Outcome(None, 0.0, False, {})

    @staticmethod
    def _first(agent: str, obs: Mapping[str, Any], infos: Mapping[str, Any], info: dict[str, Any]) -> Outcome:
        return Outcome(obs.get(agent), 0.0, False, info | {"reset_info": dict(infos.get(agent) or {})})

    def close(self) -> None:
        """Close the copies."""
        for env in self._envs:
            env.close()


def _checked(env: Any) -> Any:
    missing = [name for name in NEEDED if not hasattr(env, name)]
    if missing:
        kind = type(env).__name__
        hint = ": its parallel form is parallel_env()" if hasattr(env, "agent_iter") else ""
        raise UsageError(f"env makes {kind}, which is no parallel environment of PettingZoo ({missing[0]}){hint}")
    return env


@contextlib.contextmanager
def _stepping(env: Any, what: str) -> Iterator[None]:
    """Name the environment in the error of a call that fails."""
    try:
        yield
    except (KeyboardInterrupt, UsageError):
        raise
    except BaseException as error:
        raise WorkerError(f"{env} failed in {what}: {type(error).__name__}: {text_of(error)}") from error
