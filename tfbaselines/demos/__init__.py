"""Demonstrations: whole episodes of a demonstrator's observations and actions, and their file.

The file is an uncompressed .npz, written by numpy without pickle. It has the arrays of `Demonstrations`, and `about`:
JSON with the format, both spaces, and the origin of the episodes. `load_demonstrations` also reads baselines' expert
files and Minari datasets, and directories of files.

Observations of several parts (Dict) and action masks are rows of bytes in memory (envs/vec/packed.py). The file has an
array of each part, obs/NAME and last_obs/NAME.
"""

import dataclasses
import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate

from tfbaselines.demos.parts import check_allowed, from_parts, in_parts, packed_space
from tfbaselines.envs.vec.observations import ONLY
from tfbaselines.envs.vec.packed import PackedSpace, opened
from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.files import as_declared, check_array, parse_document, read_archive, replacing
from tfbaselines.policy.encoding import describe_space, observation_dtype, spaces_differ
from tfbaselines.replay import Replay

# Prefix of a Minari dataset's name in place of a file's path.
MINARI = "minari:"
FORMAT = "tfbaselines-demonstrations-1"
ARRAYS = ("obs", "actions", "rewards", "lengths", "terminated", "last_obs")
OF_BASELINES = ("acs", "ep_rets", "rews", "obs")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Demonstrations:
    """Consecutive episodes: T steps of E episodes.

    Attributes:
        obs: [T, ...] observations before each step, without VecNormalize.
        actions: [T, ...] actions taken, within the bounds of the action space.
        rewards: [T].
        lengths: [E] steps of each episode.
        terminated: [E] whether the episode ended by itself, not by a time limit.
        last_obs: [E, ...] observations after the last steps; None if they are unknown.
        about: origin of the episodes, JSON values by name.
    """

    obs: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    lengths: np.ndarray
    terminated: np.ndarray
    last_obs: np.ndarray | None = None
    about: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.obs)

    @property
    def ends(self) -> np.ndarray:
        """Row after the last one of each episode, [E]."""
        return np.cumsum(self.lengths)

    @property
    def episode_start(self) -> np.ndarray:
        """True where a row is the first of its episode, [T]."""
        first = np.zeros(len(self), bool)
        first[self.ends - self.lengths] = True
        return first

    @property
    def returns(self) -> np.ndarray:
        """Sum of the rewards of each episode, [E]."""
        return np.add.reduceat(self.rewards.astype(np.float64), self.ends - self.lengths)

    def first(self, episodes: int | None) -> "Demonstrations":
        """Select the first episodes; None selects all."""
        if episodes is None or episodes >= len(self.lengths):
            return self
        steps = int(self.ends[episodes - 1])
        return dataclasses.replace(
            self,
            obs=self.obs[:steps],
            actions=self.actions[:steps],
            rewards=self.rewards[:steps],
            lengths=self.lengths[:episodes],
            terminated=self.terminated[:episodes],
            last_obs=None if self.last_obs is None else self.last_obs[:episodes],
        )

    def with_next_obs(self) -> "Demonstrations":
        """Select the steps that have a next observation, or need none because they terminate their episode.

        If the file has no last observations, an episode that a time limit ended loses its last step.
        """
        if self.last_obs is not None or self.terminated.all():
            return self
        last, cut = self.ends - 1, ~self.terminated
        kept = np.ones(len(self), bool)
        kept[last[cut]] = False
        lengths = self.lengths - cut
        nonempty = lengths > 0
        return dataclasses.replace(
            self,
            obs=self.obs[kept],
            actions=self.actions[kept],
            rewards=self.rewards[kept],
            lengths=lengths[nonempty],
            terminated=self.terminated[nonempty],
            last_obs=self.obs[last][nonempty],
        )

    def rows(self, every: int = 1) -> np.ndarray:
        """Select every n-th step of each episode, from its first."""
        begins = self.ends - self.lengths
        return np.concatenate([np.arange(begin, end, every) for begin, end in zip(begins, self.ends, strict=True)])


def save_demonstrations(
    path: str | os.PathLike,
    demonstrations: Demonstrations,
    observation_space: spaces.Space,
    action_space: spaces.Space,
) -> None:
    """Write a file of an environment's demonstrations, whole or not at all."""
    described = {"observation_space": describe_space(observation_space), "action_space": describe_space(action_space)}
    about = json.dumps({"format": FORMAT} | described | {"about": demonstrations.about})
    arrays = {name: getattr(demonstrations, name) for name in ARRAYS}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    packed = packed_space(observation_space)
    if packed is not None:
        for name in ("obs", "last_obs"):
            arrays |= in_parts(name, arrays.pop(name), packed) if name in arrays else {}
    path = Path(path).expanduser()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, "b") as file:
            np.savez(file, about=np.array(about), **arrays)
    except OSError as error:
        raise UsageError(f"cannot write '{path}': {error.strerror or error}") from None


def load_demonstrations(
    path: str | os.PathLike | None,
    observation_space: spaces.Space,
    action_space: spaces.Space,
    argument: str = "demo_path",
) -> Demonstrations:
    """Read demonstrations of an environment; raise an error that names the file if they do not fit.

    Args:
        path: a file of `save_demonstrations`, one of baselines' experts (acs, ep_rets, rews, obs), a directory of such
            files of one kind, or 'minari:ID' for a Minari dataset on this machine, such as
            minari:mujoco/hopper/expert-v0.
        observation_space: of one environment.
        action_space: of one environment.
        argument: name of the path's argument, for the error if it is missing.
    """
    if not path:
        accepted = "a file of demonstrations from `python -m tfbaselines.record`, or minari:ID"
        raise bad_argument(argument, path, accepted)
    name = os.fspath(path)
    try:
        if name.startswith(MINARI):
            episodes = of_minari(name.removeprefix(MINARI), packed_space(observation_space))
            return _fitted(dataclasses.replace(episodes, about={"minari": name}), observation_space, action_space)
        place = Path(name).expanduser()
        if place.is_dir():
            return _of_directory(place, observation_space, action_space)
        return _of_file(place, observation_space, action_space)
    except ValueError as error:
        raise UsageError(f"cannot read demonstrations '{name}': {' '.join(str(error).split())[:500]}") from None


def _of_directory(path: Path, observation_space: spaces.Space, action_space: spaces.Space) -> Demonstrations:
    """Read all files of a directory in the order of their names, without hidden ones."""
    files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    if not files:
        raise UsageError("the directory has no files")
    read = []
    for file in files:
        try:
            read.append(_of_file(file, observation_space, action_space))
        except ValueError as error:
            raise UsageError(f"{file.name}: {error}") from None
    for file, episodes in zip(files, read, strict=True):
        if (episodes.last_obs is None) != (read[0].last_obs is None):
            kinds = "one has last observations, the other has none"
            raise UsageError(f"{files[0].name} and {file.name} are of different kinds: {kinds}")
    return joined(read, {"directory": path.name, "files": [file.name for file in files]})


def joined(several: Sequence[Demonstrations], about: dict[str, Any]) -> Demonstrations:
    """Join demonstrations of the same spaces; `about` is the origin of all."""
    arrays = {name: [getattr(one, name) for one in several] for name in ARRAYS}
    have = {name: None if one[0] is None else np.concatenate(one) for name, one in arrays.items()}
    return Demonstrations(**have, about=about)


def _of_file(path: Path, observation_space: spaces.Space, action_space: spaces.Space) -> Demonstrations:
    if not path.is_file():
        raise UsageError("there is no such file")
    try:
        arrays = read_archive(path)
    except OSError as error:
        raise UsageError(str(error)) from None
    packed = packed_space(observation_space)
    if "about" not in arrays:
        if packed is not None:
            raise UsageError(f"baselines' files have one array of observations, {opened(observation_space)} has parts")
        episodes = of_baselines(arrays, observation_space, action_space)
        return _fitted(dataclasses.replace(episodes, about={"file": path.name}), observation_space, action_space)
    document = _document(arrays)
    for kind, space in (("observation_space", observation_space), ("action_space", action_space)):
        difference = spaces_differ(document[kind], describe_space(space))
        if difference:
            raise UsageError(f"they are for another {kind.replace('_', ' ')}: {difference}")
    if packed is not None:
        steps, count = (len(check_array(name, arrays.get(name), ("N", ...))) for name in ("rewards", "lengths"))
        for name, rows in (("obs", steps), ("last_obs", count)):
            arrays[name] = from_parts(name, arrays, packed, rows)
    episodes = Demonstrations(**{name: arrays.get(name) for name in ARRAYS}, about=document["about"])
    return _fitted(episodes, observation_space, action_space)


def _document(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    document = parse_document(str(arrays["about"]).encode()) if arrays["about"].dtype.kind == "U" else None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise UsageError(f"its entry 'about' does not name the format {FORMAT}")
    for name in ("observation_space", "action_space", "about"):
        if not isinstance(document.get(name), dict) or (name != "about" and "type" not in document[name]):
            raise UsageError(f"its entry 'about' has no {name}")
    return document


def of_baselines(
    arrays: dict[str, np.ndarray], observation_space: spaces.Space, action_space: spaces.Space
) -> Demonstrations:
    """Convert an expert file: episodes of equal length, obs [E, L, ...], acs [E, L, ...], rews [E, L].

    The file has neither the cause of an episode's end nor the observation after the last step.
    """
    missing = [name for name in OF_BASELINES if name not in arrays]
    if missing:
        raise UsageError(f"it has no array '{missing[0]}' and no entry 'about': neither this format nor baselines'")
    obs = check_array("obs", arrays["obs"], ("E", "L", *observation_space.shape))
    shape = count, length = obs.shape[:2]
    # baselines omits the axis of an action that is one number.
    one_number = action_space.shape == (1,) and arrays["acs"].shape == shape
    actions = check_array("acs", arrays["acs"], shape if one_number else (*shape, *action_space.shape))
    rewards = check_array("rews", arrays["rews"], shape)
    steps = count * length
    return Demonstrations(
        obs=obs.reshape(steps, *observation_space.shape),
        actions=actions.reshape(steps, *action_space.shape),
        rewards=rewards.reshape(steps),
        lengths=np.full(count, length),
        terminated=np.zeros(count, bool),
    )


def of_minari(name: str, packed: PackedSpace | None = None) -> Demonstrations:
    """Convert a Minari dataset on this machine; Dict and Tuple observations are flattened, or packed."""
    if not name:
        raise UsageError("it names no dataset: write minari:ID, such as minari:mujoco/hopper/expert-v0")
    try:
        import minari
    except ImportError:
        raise UsageError('Minari is not installed: pip install "tfbaselines[demos]"') from None
    try:
        dataset = minari.load_dataset(name)
    except Exception as error:  # The backends of file formats raise many types.
        raise UsageError(f"Minari cannot load it ({error}); `minari download {name}` fetches public ones") from None
    episodes = list(dataset.iterate_episodes())
    if not episodes:
        raise UsageError("there is no episode, or an episode without steps")
    space = dataset.observation_space
    if packed is not None and (difference := spaces_differ(describe_space(space), describe_space(packed))):
        raise UsageError(f"they are for another observation space: {difference}")
    read = partial(_flattened, space) if packed is None else lambda obs, _: packed.pack(obs)
    seen = [read(episode.observations, len(episode.rewards) + 1) for episode in episodes]
    return Demonstrations(
        obs=np.concatenate([obs[:-1] for obs in seen]),
        actions=np.concatenate([np.asarray(episode.actions) for episode in episodes]),
        rewards=np.concatenate([np.asarray(episode.rewards) for episode in episodes]),
        lengths=np.array([len(episode.rewards) for episode in episodes]),
        terminated=np.array([bool(episode.terminations[-1]) for episode in episodes]),
        last_obs=np.stack([obs[-1] for obs in seen]),
    )


def _flattened(space: spaces.Space, obs: Any, length: int) -> np.ndarray:
    """Flatten an episode's observations [length, ...] as algorithms take them."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return np.asarray(obs)
    return np.stack([spaces.flatten(space, row) for row in iterate(batch_space(space, length), obs)])


def _fitted(episodes: Demonstrations, observation_space: spaces.Space, action_space: spaces.Space) -> Demonstrations:
    """Check episodes against the spaces, and convert them to the types that algorithms take."""
    lengths = as_declared("lengths", episodes.lengths, ("E",), np.int64)
    steps, count = int(lengths.sum()), len(lengths)
    if count == 0 or lengths.min() < 1:
        raise UsageError("there is no episode, or an episode without steps")
    packed = packed_space(observation_space)
    observation_space = observation_space if packed is None else packed
    seen = observation_dtype(observation_space)
    last_obs = episodes.last_obs
    if last_obs is not None:
        last_obs = as_declared("last_obs", last_obs, (count, *observation_space.shape), seen)
    obs = as_declared("obs", episodes.obs, (steps, *observation_space.shape), seen)
    actions = _actions(episodes.actions, steps, action_space)
    if packed is not None:
        check_allowed(obs, actions, packed, action_space)
    return dataclasses.replace(
        episodes,
        obs=obs,
        actions=actions,
        rewards=as_declared("rewards", episodes.rewards, (steps,), np.float32),
        lengths=lengths,
        terminated=as_declared("terminated", episodes.terminated, (count,), bool),
        last_obs=last_obs,
    )


def _actions(actions: np.ndarray, steps: int, space: spaces.Space) -> np.ndarray:
    dtype = np.float32 if isinstance(space, spaces.Box) else space.dtype
    actions = as_declared("actions", actions, (steps, *space.shape), dtype)
    if isinstance(space, spaces.Box):
        # Environments clip actions, too.
        return np.clip(actions, space.low, space.high).astype(np.float32)
    outside = next((action for action in np.unique(actions, axis=0) if not space.contains(action)), None)
    if outside is not None:
        raise UsageError(f"the action {outside} is not in {space}")
    return actions


class DataSetReplay(Replay):
    """A fixed replay of the transitions of a data set, one episode after the other.

    A data set has no recurrent states: sequences begin with zeros. `env` has the spaces.
    """

    def __init__(
        self,
        data: Demonstrations,
        env: Any,
        gamma: float = 0.99,
        n_step: int = 1,
        state_size: int = 0,
        reward_clip: float | None = None,
    ) -> None:
        if packed_space(env.observation_space) is not None:
            raise UsageError(f"a data set has one array of observations, {opened(env.observation_space)} has parts")
        data = data.with_next_obs()
        steps, last = len(data), data.ends - 1
        place = SimpleNamespace(num_envs=1, observation_space=env.observation_space, action_space=env.action_space)
        super().__init__(place, steps, gamma, n_step, state_size, reward_clip=reward_clip)
        arrays = {name: array[:, 0] for name, array in self._arrays.items()}
        arrays[f"obs/{ONLY}"][:steps] = data.obs
        arrays["rewards"][:steps] = self._clipped(data.rewards)
        for name in ("actions", "episode_start"):
            arrays[name][:steps] = getattr(data, name)
        arrays["terminated"][last], arrays["truncated"][last] = data.terminated, ~data.terminated
        for episode in np.flatnonzero(~data.terminated):
            self._last[int(last[episode]), 0] = {ONLY: data.last_obs[episode]}
        self.steps = self._filled = steps

    @property
    def observations(self) -> np.ndarray:
        """Observations before every step, [T, ...]."""
        return self._arrays[f"obs/{ONLY}"][: self.steps, 0]
