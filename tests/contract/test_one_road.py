"""One road from an observation to an action: the same answer to a raw observation on every way that leads there.

What stood between the environment and the network in training, the statistics of VecNormalize or one vector in place of
several parts, goes with the model. The environment here notes what it shows and what is done.
"""

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from small_environments import Goals
from small_runs import ACTIONS, first_kind, flags, train

import tfbaselines
from tfbaselines.algs import ALGORITHMS, get
from tfbaselines.envs.adapt import as_vec_env
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.evaluate import evaluate
from tfbaselines.evaluate import main as evaluate_command
from tfbaselines.record import main as record_command
from tfbaselines.record import record
from tfbaselines.run import command as main
from tfbaselines.training.model import PolicyModel

NOTED: list[tuple] = []


class Far(gymnasium.Env):
    """Observations far from 0, in one array or two parts; episodes of five steps."""

    def __init__(self, actions, parts):
        self.action_space = actions
        place, size = spaces.Box(-99.0, 99.0, (3,), np.float64), spaces.Box(-99.0, 99.0, (1,), np.float32)
        self.observation_space = spaces.Dict(place=place, size=size) if parts else place

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return self._shown(), {}

    def step(self, action):
        self._steps += 1
        return self._shown(), float(self._steps + np.sum(action) / 99), self._steps == 5, False, {}

    def _shown(self):
        place, size = self.np_random.normal(40.0, 5.0, 3), self.np_random.normal(3.0, 0.5, 1).astype(np.float32)
        return {"place": place, "size": size} if isinstance(self.observation_space, spaces.Dict) else place


class Noting(gymnasium.Env):
    """Such an environment, with goals or without, which notes what it shows and what is done."""

    def __init__(self, kind, what):
        far = Far(ACTIONS[kind], what == "Parts")
        self._env = Goals(far) if what == "Goals" else far
        self.observation_space, self.action_space = self._env.observation_space, self._env.action_space
        self.compute_reward = getattr(self._env, "compute_reward", None)

    def reset(self, *, seed=None, options=None):
        self._obs, info = self._env.reset(seed=seed)
        return self._obs, info

    def step(self, action):
        NOTED.append((self._obs, np.copy(action)))
        self._obs, *rest = self._env.step(action)
        return self._obs, *rest


@pytest.fixture
def register():
    names = []

    def registered(kind, what):
        names.append(f"Noting{list(ACTIONS).index(kind)}{what}-v0")
        gymnasium.register(names[-1], entry_point=Noting, kwargs={"kind": kind, "what": what})
        return names[-1]

    yield registered
    for name in names:
        gymnasium.registry.pop(name, None)


def noted(act):
    """What was seen, together, and done in the first steps of `act`."""
    NOTED.clear()
    act()
    seen, done = zip(*NOTED[:10], strict=True)
    together = {name: np.stack([one[name] for one in seen]) for name in seen[0]} if isinstance(seen[0], dict) else seen
    return together if isinstance(together, dict) else np.array(seen), np.array(done)


def difference(one, other):
    return float(np.max(np.abs(np.asarray(one, float) - np.asarray(other, float).reshape(np.shape(one)))))


def differences(alg, what, env_id, directory, monkeypatch):
    """Train, and compare the actions of every way with those of the trained model in its environments."""
    flatten = not get(alg).dict_observations
    plain = as_vec_env(env_id, 0, flatten)
    normalized = isinstance(plain.observation_space, spaces.Box)
    env = VecNormalize(plain) if normalized else plain
    trained = train(directory / "log", alg, env, 2)
    trained.save(directory / "model")
    seen, _ = noted(lambda: evaluate(trained, env_id, episodes=2, deterministic=True))
    shown = flat(seen, env_id) if normalized else seen
    expected = trained.act(env.scaled(shown) if normalized else shown, deterministic=True)[0]
    loaded = tfbaselines.load(directory / "model")
    found = {"act": difference(loaded.act(seen, deterministic=True)[0], expected)}
    found["value"] = difference(loaded.value(seen), trained.value(env.scaled(shown) if normalized else shown))
    found["predict"] = max(
        difference(loaded.predict(row, deterministic=True)[0], expected[i]) for i, row in enumerate(rows(seen))
    )
    found["load"] = difference(tfbaselines.load(directory / "log").act(seen, deterministic=True)[0], expected)
    log, raw = str(directory / "log"), as_vec_env(env_id, 0, flatten)
    ways = {
        "evaluate": [
            lambda: evaluate(trained, env_id, episodes=2, deterministic=True),
            lambda: evaluate(loaded, raw, episodes=2, deterministic=True),
            lambda: evaluate_command([log, "--episodes=2", "--deterministic"]),
        ],
        "record": [
            lambda: record(trained, directory / "python.npz", 2, True, env=env_id),
            lambda: record_command([log, "--episodes=2", "--deterministic", f"--out={directory / 'command.npz'}"]),
        ],
    }
    for way, several in ways.items():
        found[way] = 0.0
        for act in several:
            seen, done = noted(act)
            found[way] = max(found[way], difference(done, loaded.act(seen, deterministic=True)[0]))
    with monkeypatch.context() as patch:
        act = PolicyModel.act

        def likely(model, obs, state=None, deterministic=True, mask=None):
            return act(model, obs, state, True, mask)

        patch.setattr(PolicyModel, "act", likely)
        given = {"env": env_id, "demo_path": None, "num_timesteps": 0, "load_path": directory / "model"}
        seen, done = noted(lambda: main(flags(alg, "--play", f"--log_path={directory / 'play'}", **given)))
        found["play"] = difference(done, loaded.act(seen, deterministic=True)[0])
    loaded.export(directory / "served")
    inputs = {f"_{name}": part for name, part in seen.items()} if isinstance(seen, dict) else {"": seen}
    inputs = {f"observations{name}": part.astype(np.float32) for name, part in inputs.items()}
    answers = tf.saved_model.load(str(directory / "served")).signatures["serving_default"](**inputs)
    of_export = (answers["actions"], loaded.act(seen, deterministic=True)[0]), (answers["values"], loaded.value(seen))
    return found | {"export": max(difference(*pair) for pair in of_export)}


def flat(seen, env_id):
    """Observations in one vector, as gymnasium makes it."""
    space = gymnasium.make(env_id).observation_space
    return np.stack([spaces.flatten(space, row) for row in rows(seen)])


def rows(seen):
    count = len(next(iter(seen.values())) if isinstance(seen, dict) else seen)
    return [{name: part[i] for name, part in seen.items()} if isinstance(seen, dict) else seen[i] for i in range(count)]


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_every_way_gives_the_same_action(alg, eager, register, tmp_path, monkeypatch):
    kinds = ["Goals"] if get(alg).goals else ["Parts", *([""] if get(alg).dict_observations else [])]
    for what in kinds:
        # Numbers differ where choices may agree by chance.
        env_id = register("Box" if "Box" in get(alg).actions else first_kind(alg), what)
        found = differences(alg, what, env_id, tmp_path / (what or "plain"), monkeypatch)
        assert max(found.values()) < 1e-4, found
