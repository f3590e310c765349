"""Demonstrations with action masks and observations of several parts: recorded, read, and learned from."""

import shutil

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from helpers import vec
from small_runs import learn, rows, train

from tfbaselines.demos import load_demonstrations, save_demonstrations
from tfbaselines.envs.vec.packed import with_packed_observations
from tfbaselines.errors import UsageError
from tfbaselines.evaluate import evaluate
from tfbaselines.record import record

IMAGE, VECTOR = spaces.Box(0, 255, (12, 12, 1), np.uint8), spaces.Box(-1.0, 1.0, (3,), np.float32)


class Guarded(gymnasium.Env):
    """Shows an image and a vector, forbids all but two of four actions, and pays for the one that the vector shows.

    Args:
        masks: where the masks are: 'infos', or 'obs', or None for no masks.
        several: with the image.
    """

    action_space = spaces.Discrete(4, start=2)

    def __init__(self, masks="infos", several=True):
        self.masks = masks
        parts = {"image": IMAGE, "vector": VECTOR} if several else {"vector": VECTOR}
        mask = {"action_mask": spaces.MultiBinary(4)} if masks == "obs" else {}
        self.observation_space = spaces.Dict({**parts, **mask}) if several or mask else VECTOR

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._show()

    def step(self, action):
        assert self.masks is None or self.mask[action - 2] == 1, "a forbidden action"
        reward = float(action - 2 == self.best)
        self.time += 1
        return self._show()[0], reward, self.time == 6, False, self._show()[1]

    def _show(self):
        self.best = (self.time * 3) % 4
        self.mask = np.zeros(4, np.int8)
        self.mask[[self.best, (self.best + 1) % 4]] = 1
        vector = np.float32([self.best / 2 - 1, self.time / 6, 0.5])
        seen = {"image": np.full((12, 12, 1), 40 * self.best, np.uint8), "vector": vector, "action_mask": self.mask}
        if isinstance(self.observation_space, spaces.Dict):
            return {name: seen[name] for name in self.observation_space.spaces}, self._info()
        return vector, self._info()

    def _info(self):
        return {"action_mask": self.mask} if self.masks == "infos" else {}


def best_of(env, obs, state, deterministic, dones):
    """The action that is paid."""
    return np.array([2 + inner.unwrapped.best for inner in env.unwrapped.envs]), state


@pytest.fixture(scope="module")
def demos(tmp_path_factory):
    """A function from the environment's arguments to the file of a demonstrator that takes the paid actions."""
    directory = tmp_path_factory.mktemp("demos")

    def make(masks="infos", several=True):
        path = directory / f"{masks}-{several}.npz"
        if not path.exists():
            env = vec(lambda: Guarded(masks, several), 2)
            model = learn("ppo2", vec(lambda: Guarded(masks, several)), 0)
            model.act = lambda *given: best_of(env, *given)
            record(model, str(path), episodes=4, env=env)
        return str(path)

    return make


@pytest.mark.parametrize("masks", ["infos", "obs", None])
@pytest.mark.parametrize("several", [True, False])
def test_a_file_has_the_parts_and_masks_of_what_was_done(masks, several, demos, eager):
    path = demos(masks, several)
    env = with_packed_observations(vec(lambda: Guarded(masks, several)))
    read = load_demonstrations(path, env.observation_space, env.action_space)
    assert read.lengths.tolist() == [6] * 4 and read.rewards.tolist() == [1.0] * 24 and read.terminated.all()
    if not (masks or several):
        assert read.obs.shape == (24, 3)
        return
    with np.load(path) as file:
        assert {name for name in file if name.startswith("obs")} == {
            f"obs/{name}" for name in env.observation_space.parts
        }
    parts = env.observation_space.unpack(read.obs)
    best = [(t * 3) % 4 for t in range(6)] * 4
    assert (read.actions - 2).tolist() == best
    if masks is not None:
        assert [np.flatnonzero(mask).tolist() for mask in parts["action_mask"]] == [
            sorted((b, (b + 1) % 4)) for b in best
        ]
    if several:
        assert parts["image"][:, 3, 3, 0].tolist() == [40 * b for b in best]
    last = env.observation_space.unpack(read.last_obs)
    assert all(len(part) == 4 for part in last.values())


def test_files_that_do_not_fit_are_one_line(demos, tmp_path, eager):
    env = with_packed_observations(vec(Guarded))
    spaces_of = env.observation_space, env.action_space
    for path, words in (
        (demos(None, True), "they are for another observation space"),
        (demos("infos", False), "they are for another observation space"),
    ):
        with pytest.raises(UsageError, match=words):
            load_demonstrations(path, *spaces_of)
    with np.load(demos()) as file:
        arrays = dict(file)
    changed = {
        "obs/action_mask": (np.zeros_like(arrays["obs/action_mask"]), "an 'action_mask' allows nothing"),
        "actions": (np.roll(arrays["actions"], 1), r"the action \d of step \d+ is forbidden by its 'action_mask'"),
        "obs/image": (
            arrays["obs/image"][:, :3],
            r"obs/image has the shape \(24, 3, 12, 1\), expected is \(24, 12, 12, 1\)",
        ),
        "obs/vector": (None, "it has no array 'obs/vector'"),
    }
    for name, (array, words) in changed.items():
        spoilt = {key: value for key, value in (arrays | {name: array}).items() if value is not None}
        np.savez(tmp_path / "spoilt.npz", **spoilt)
        with pytest.raises(UsageError, match=words):
            load_demonstrations(tmp_path / "spoilt.npz", *spaces_of)


def test_a_directory_is_all_its_files_in_order(demos, tmp_path, eager):
    env = with_packed_observations(vec(Guarded))
    spaces_of = env.observation_space, env.action_space
    whole = load_demonstrations(demos(), *spaces_of)
    several = tmp_path / "several"
    several.mkdir()
    with pytest.raises(UsageError, match=r"cannot read demonstrations '.*several': the directory has no files"):
        load_demonstrations(several, *spaces_of)
    save_demonstrations(several / "b.npz", whole, *spaces_of)
    save_demonstrations(several / "a.npz", whole.first(1), *spaces_of)
    (several / ".hidden").write_text("nothing")
    read = load_demonstrations(several, *spaces_of)
    assert read.lengths.tolist() == [6] * 5 and read.about["files"] == ["a.npz", "b.npz"]
    np.testing.assert_array_equal(read.obs, np.concatenate([whole.obs[:6], whole.obs]))
    shutil.copy(demos(None, True), several / "c.npz")
    with pytest.raises(UsageError, match=r"c.npz: they are for another observation space"):
        load_demonstrations(several, *spaces_of)
    (several / "c.npz").write_text("text")
    with pytest.raises(UsageError, match=r"c.npz: "):
        load_demonstrations(several, *spaces_of)


WAYS = [
    ("ppo2", "infos", True, {"network": "mlp"}),
    ("ppo2", "obs", True, {"network": "lstm"}),
    ("a2c", "infos", False, {"network": "lstm"}),
    ("sac", "infos", True, {}),
    ("sac", "obs", False, {"memory_size": 4, "sequence_length": 6}),
]


@pytest.mark.parametrize(("alg", "masks", "several", "own"), WAYS)
def test_signals_and_pretraining_learn_from_them(alg, masks, several, own, demos, tmp_path, eager):
    path = demos(masks, several)
    gail = {"demo_path": path, "use_actions": True, "gradient_penalty": 1.0, "encoding_size": 4}
    signals = {"extrinsic": {}, "curiosity": {"encoding_size": 4}, "gail": gail}
    own = own | ({} if alg == "a2c" else {"pretraining": {"demo_path": path, "batch_size": 12, "sequence_length": 6}})
    model = train(tmp_path, alg, vec(lambda: Guarded(masks, several)), 3, reward_signals=signals, **own)
    found = rows(tmp_path)
    names = ["gail/expert_acc", "gail/gradient_penalty", "gail/reward", "curiosity/reward"]
    names += [] if alg == "a2c" else ["pretraining/loss"]
    assert np.isfinite(found[names]).all().all() and found["gail/generator_loss"].nunique() > 1
    assert model.policy.recurrent == (own.get("network") == "lstm" or "memory_size" in own)


def test_cloning_finds_the_demonstrators_actions_under_masks(demos, eager):
    """Rewards have no part in it."""
    cloning = {"demo_path": demos("infos", False), "batch_size": 24, "num_epoch": 20}
    own = {"pretraining": cloning, "lr": 1e-2, "noptepochs": 1, "num_hidden": 16}
    make = lambda: Guarded("infos", False)
    model = learn("ppo2", vec(make), 10, reward_signals={"extrinsic": {"strength": 0.0}}, **own)
    assert evaluate(model, vec(make), episodes=1, deterministic=True)["mean"] == 6.0
