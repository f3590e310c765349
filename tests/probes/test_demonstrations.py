"""Signs in demonstrations: each on faulty and on healthy ones of a toy; reasons where a probe is not made."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

from tests.probes.toys import Mass
from tfbaselines.algs import get
from tfbaselines.config.options import write_config
from tfbaselines.demos import Demonstrations, save_demonstrations
from tfbaselines.envs.adapt import as_vec_env
from tfbaselines.errors import UsageError
from tfbaselines.probes import demonstrations, series, trial
from tfbaselines.probes.examination import examine
from tfbaselines.probes.walks import at_random, walk
from tfbaselines.training.build import saved_model

LENGTH = 60


@pytest.fixture(scope="module")
def shown():
    """Episodes of a controller that pushes the mass towards 0."""
    env, rng = Mass(length=LENGTH), np.random.default_rng(0)
    rows = []
    for seed in range(12):
        obs, _ = env.reset(seed=seed)
        for _ in range(LENGTH):
            action = np.clip(-2 * obs[:1] - 3 * obs[1:2] + 0.1 * rng.normal(size=1), -1, 1).astype(np.float32)
            after, reward, *_ = env.step(action)
            rows.append((obs, action, reward))
            obs = after
    obs, actions, rewards = (np.array(column) for column in zip(*rows, strict=True))
    return Demonstrations(
        obs=obs, actions=actions, rewards=rewards, lengths=np.full(12, LENGTH), terminated=np.zeros(12, bool)
    )


@pytest.fixture(scope="module")
def random():
    return walk(Mass(length=LENGTH), at_random(Mass().action_space), 900)


def test_each_fault_of_demonstrations_is_seen(shown, random):
    space = Mass().action_space

    def seen(**changed):
        episodes = dataclasses.replace(shown, **changed)
        signs = demonstrations.return_signs(episodes, random, True), demonstrations.start_signs(episodes, random)
        return [sign.rule for some in (*signs, demonstrations.action_signs(episodes, space)) for sign in some]

    assert seen() == []
    assert seen(rewards=-shown.rewards) == ["demonstrated_returns"]
    assert seen(obs=shown.obs * np.float32(20)) == ["demonstrated_observations"]
    for late in (1, -1):
        assert seen(actions=np.roll(shown.actions, late, axis=0)) == ["demonstrated_actions"]
    shuffled = np.random.default_rng(1).permutation(shown.actions)
    assert seen(actions=shuffled) == ["demonstrated_actions"]


def test_what_a_policy_reproduces(shown):
    env = as_vec_env([Mass])
    small = {"num_hidden": 16, "num_layers": 1}
    model = saved_model(get("bc"), "mlp", env, small)
    (untrained,) = demonstrations.imitation_signs(model, shown, 0.1)
    assert untrained.rule == "imitation"
    assert [sign.rule for sign in demonstrations.batch_signs(model, shown, 0.0)] == ["cloned_batch"]
    assert not list(demonstrations.batch_signs(model, shown, 1e-2))
    # The policy of one batch reproduces the other steps as well; a table reproduces those that it has alone.
    assert not list(demonstrations.imitation_signs(model, shown, 0.1))
    table = {row.tobytes(): action for row, action in zip(shown.obs, shown.actions, strict=True)}
    held = np.arange(len(shown)) % 10 == 9
    table |= {row.tobytes(): np.float32([0.0]) for row in shown.obs[held]}
    by_heart = SimpleNamespace(act=lambda obs, *_: (np.stack([table[row.tobytes()] for row in obs]), None))
    assert [sign.rule for sign in demonstrations.imitation_signs(by_heart, shown, 0.1)] == ["few_demonstrations"]


def test_demonstrations_are_found_by_the_arguments_that_name_them():
    signals = json.dumps({"gail": {"demo_path": "d.npz"}})
    for alg, learn, argument in (
        ("bc", {"demo_path": "d.npz"}, "demo_path"),
        ("gail", {"demo_path": "d.npz"}, "demo_path"),
        ("sac", {"offline": "d.npz"}, "offline"),
        ("ppo2", {"pretraining": {"demo_path": "d.npz"}}, "pretraining"),
        ("ppo2", {"reward_signals": signals}, "reward_signals"),
        ("ppo2", {}, None),
    ):
        source = demonstrations.source_of(get(alg).config.of(learn))
        assert source == (argument and (argument, "d.npz"))


def test_probes_that_make_no_sense_without_rewards_or_steps_say_why(shown, tmp_path):
    save_demonstrations(tmp_path / "d.npz", shown, Mass().observation_space, Mass().action_space)
    env = {"env": "tests.probes.toys:tests/Mass-v0", "env_kwargs": {"length": LENGTH}, "normalize": False}
    for alg, argument, why in (
        ("bc", "demo_path", "bc learns from demonstrations"),
        ("gail", "demo_path", "gail's rewards come from a discriminator"),
        ("td3", "offline", "it learns from a data set"),
    ):
        learn = {argument: str(tmp_path / "d.npz")}
        write_config(tmp_path, {"alg": alg, "network": "mlp", "learn": learn, "env": env, "given": {}})
        names = ["learner", "configuration", "fixed batch", "known settings"]
        found = examine(str(tmp_path), True, announce=lambda line: None, only=names)
        assert list(found.lacking) == names
        assert found.made == [] and found.findings == []
        assert found.lacking["configuration"].startswith(why) and "'demonstrations'" in found.lacking["configuration"]
    write_config(tmp_path, {"alg": "td3", "network": "mlp", "learn": learn, "env": env, "given": {}})
    assert examine(str(tmp_path), True, announce=lambda line: None, only=["demonstrations"]).made == ["demonstrations"]
    assert trial.obstacle({"alg": "ppo2", "learn": {}}) is None
    with pytest.raises(UsageError, match="the run has none"):
        list(series.shown(SimpleNamespace(arguments=get("ppo2").config.of({})), np.inf))
