"""Parts that rlib's classes share: directories, tests, plots and films, and the tables of names."""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np

from tfbaselines.algs import get
from tfbaselines.config.options import RunOptions
from tfbaselines.envs.make import make_vec_env
from tfbaselines.errors import UsageError, bad_argument, unknown
from tfbaselines.evaluate import Saved, evaluate, load_model
from tfbaselines.logs import logger
from tfbaselines.words import value_of

# Every test's checkpoint is kept.
MOST_CHECKPOINTS = 10**6
# Steps of an episode in an environment without a limit.
LONGEST = 1000
NONE = -1


def names_of(text: str) -> dict[str, str]:
    """Make a table of our names by rlib's, from words NAME or NAME=OURS."""
    pairs = (word.partition("=") for word in text.split())
    return {name: ours or name for name, _, ours in pairs}


def values_of(text: str) -> dict[str, Any]:
    """Make a table of defaults from words NAME=VALUE."""
    pairs = (word.partition("=") for word in text.split())
    return {name: value_of(value) for name, _, value in pairs}


SHARED = values_of(
    "max_episode_length=-1 max_total_reward=-1 normalize_observation=False envs_wrappers=None verbose=True seed=42"
)


class Algorithm:
    """One of rlib's algorithms.

    Attributes:
        model: trained model, as learn returns it; None before `train`.
        save_folder, models_folder, videos_folder, plots_folder: directories of the results.

    Args:
        env_kwargs: the environment's `id` and its other arguments.
        agents: arguments of the networks: hidden_sizes and activation.
        arguments: hyper-parameters by rlib's names.
    """

    alg: ClassVar[str]
    network: ClassVar[str] = "dense"
    agents: ClassVar[tuple[str, ...]] = ("agent_kwargs",)
    defaults: ClassVar[Mapping[str, Any]]
    # Our names of rlib's hyper-parameters.
    names: ClassVar[Mapping[str, str]]

    def __init__(self, env_kwargs: Mapping[str, Any], *agents: Mapping[str, Any] | None, **arguments: Any) -> None:
        if not isinstance(env_kwargs, Mapping) or not isinstance(env_kwargs.get("id"), str):
            raise bad_argument("env_kwargs", env_kwargs, "a dict with the environment's 'id'")
        if len(agents) > len(self.agents):
            raise UsageError(f"{type(self).__name__} takes env_kwargs, {', '.join(self.agents)}, and others by name")
        given = dict(zip(self.agents, agents, strict=False)) | arguments
        known = [*self.agents, *self.defaults, *SHARED, "save_folder"]
        for name in given:
            if name not in known:
                raise unknown(f"argument of {type(self).__name__}", name, known)
        self.env_kwargs = dict(env_kwargs)
        self.arguments = {**SHARED, "save_folder": self.alg} | dict(self.defaults) | given
        self._networks = [_network(name, self.arguments.pop(name, None)) for name in self.agents]
        self.model: Any = None
        folder = Path(self.arguments["save_folder"])
        numbers = (number for number in itertools.count() if not (folder / f"run_{number}").exists())
        self.save_folder = folder / f"run_{next(numbers)}"
        self.models_folder = self.save_folder / "checkpoints"
        self.videos_folder = self.save_folder / "videos"
        self.plots_folder = self.save_folder / "plots"
        # Wrong values are refused before training.
        get(self.alg).config.of(self.learn_arguments())

    def learn_arguments(self) -> dict[str, Any]:
        """Return the arguments of our learn."""
        given = self.arguments
        bound = {"max_ep_len": given["max_episode_length"], "max_ep_reward": given["max_total_reward"]}
        learn = {name: None if value in (None, NONE) else value for name, value in bound.items()}
        learn |= {ours: given[name] for name, ours in self.names.items()}
        return learn | {"seed": given["seed"], "normalize_observations": given["normalize_observation"]}

    def network_arguments(self) -> dict[str, Any]:
        """Return the arguments of our network; several agents share them."""
        if any(one != self._networks[0] for one in self._networks):
            first, other = self.agents
            raise UsageError(f"{other}={self._networks[1]} differs from {first}: {self.alg} has networks of one size")
        return self._networks[0]

    def train(self) -> "Algorithm":
        """Train; the directory gets the logs, and a checkpoint at each test."""
        learn = self.learn_arguments() | self.network_arguments()
        own = {"callback": self.callbacks(), "progress": self.arguments["verbose"], "save_minutes": None}
        options = RunOptions(keep_checkpoints=MOST_CHECKPOINTS, **own)
        with logger.scoped_configure(str(self.save_folder), ["log", "csv"]), self._environments(training=True) as env:
            self.model = get(self.alg).learn(self.network, env, run=options, **learn)
        return self

    def callbacks(self) -> list[Callable[[Any], Any]]:
        """Return callbacks of training: tests, checkpoints and the end."""
        from tfbaselines.training.callbacks import EvaluateEvery, SaveEvery

        every = self.arguments["test_every"]
        tests = EvaluateEvery(every, self._make_tests, self._episodes_of_tests(), count=self.counted)
        return [tests, SaveEvery(every, count=self.counted)]

    def counted(self, run: Any) -> int:
        """Return the progress of a run in units of test_every."""
        return run.timesteps

    def test(
        self,
        num_episodes: int = 1,
        display: bool = False,
        save_video: bool = False,
        video_path: str | None = None,
        seed: int | None = None,
    ) -> tuple[float, float]:
        """Test the trained policy; return the mean and standard deviation of its returns.

        Args:
            num_episodes: number of episodes.
            display: show them in a window.
            save_video: record the first one.
            video_path: directory of the video; None for videos_folder.
            seed: seed of the environment; None draws one.
        """
        if num_episodes <= 0:
            raise bad_argument("num_episodes", num_episodes, "at least 1")
        if display and save_video:
            raise UsageError("display and save_video are given: give only one of them")
        film = str(video_path or self.videos_folder) if save_video else None
        result = self._tested(self._trained(), num_episodes, seed, film, "human" if display else None)
        return result["mean"], result["std"]

    def save(self, path: str) -> None:
        """Write the trained model to a file."""
        self._trained().save(path)

    def load(self, path: str) -> "Algorithm":
        """Load a model that `save` wrote, or a checkpoint."""
        self.model = self._loaded(Path(path))
        return self

    def save_plots(self) -> None:
        """Draw the curves of the training to plots_folder."""
        from tfbaselines.plot.__main__ import make_parser, plot

        self._trained()
        out = self.plots_folder / "plot.png"
        plot(make_parser().parse_args([str(self.save_folder), "--out", str(out)]))

    def save_videos(self) -> list[str]:
        """Film an episode of the model of each test to videos_folder; return the paths."""
        from tfbaselines.training.checkpoint import Checkpoints, load_tree

        self._trained()
        checkpoints = Checkpoints(self.models_folder)
        films = []
        for number in checkpoints.numbers:
            path = checkpoints.named(number)
            name = f"iter_{load_tree(path)['training']['timesteps_of_all']}"
            result = self._tested(self._loaded(path), 1, self.arguments["seed"], str(self.videos_folder), None, name)
            films += result["videos"]
        return films

    def _trained(self) -> Any:
        if self.model is None:
            raise UsageError(f"this {type(self).__name__} has no model yet: call train() or load(path)")
        return self.model

    def _loaded(self, path: Path) -> Any:
        learn = self.learn_arguments() | self.network_arguments()
        config = {"alg": self.alg, "network": self.network, "env": {}, "learn": learn}
        with self._environments() as env:
            return load_model(Saved(config, path, None), get(self.alg).wrap(env))

    def _tested(
        self, model: Any, episodes: int, seed: int | None, video: str | None, mode: str | None, name: str | None = None
    ) -> dict[str, Any]:
        seed = int(np.random.default_rng().integers(2**31)) if seed is None else seed
        mode = "rgb_array" if video else mode
        with self._environments(mode, seed) as env:
            films = {} if video is None else {"video": video, "video_name": name or "model"}
            return evaluate(model, env, episodes, deterministic=True, seed=seed, **films)

    def _episodes_of_tests(self) -> int:
        return self.arguments["num_test_episodes"]

    def _make_tests(self) -> gymnasium.Env:
        return make_vec_env(**self._of_environments()).envs[0]

    @contextlib.contextmanager
    def _environments(self, mode: str | None = None, seed: int | None = None, training: bool = False) -> Iterator[Any]:
        given = self._of_environments() | {"seed": self.arguments["seed"] if seed is None else seed}
        if mode is not None:
            given["env_kwargs"] = given["env_kwargs"] | {"render_mode": mode}
        if training:
            given |= {"num_env": self.arguments.get("num_envs", 1), "logger_dir": str(self.save_folder)}
        env = make_vec_env(**given)
        if not training:
            from tfbaselines.training.testing import limit_as_trained

            limit_as_trained(env, get(self.alg), self.learn_arguments())
        with contextlib.closing(self._normalized(env) if training else env) as made:
            yield made

    def _of_environments(self) -> dict[str, Any]:
        wrappers = self.arguments["envs_wrappers"] or ()

        def around(env: gymnasium.Env) -> gymnasium.Env:
            for wrapper in wrappers:
                env = wrapper(env)
            return env

        kwargs = {name: value for name, value in self.env_kwargs.items() if name != "id"}
        return {"env_id": self.env_kwargs["id"], "env_kwargs": kwargs, "wrapper": around if wrappers else None}

    def _normalized(self, env: Any) -> Any:
        """Scale rewards, and clip them to [-10, 10], where rlib does."""
        from tfbaselines.envs.normalize import VecNormalize

        scales = self.arguments.get("use_norm_wrappers", False) and isinstance(env.action_space, gymnasium.spaces.Box)
        return VecNormalize(env, ob=False, gamma=self.arguments["discount"]) if scales else env


def _network(name: str, agent: Mapping[str, Any] | None) -> dict[str, Any]:
    if agent is not None and not isinstance(agent, Mapping):
        raise bad_argument(name, agent, "a dict such as {'hidden_sizes': [64, 64]}")
    # rlib also takes a list as text.
    return {key: value_of(value) if isinstance(value, str) else value for key, value in (agent or {}).items()}


def annealed(rate: float, annealing: bool) -> float | str:
    return f"linear_{rate}" if annealing else rate
