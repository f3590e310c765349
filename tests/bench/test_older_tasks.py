"""The tasks of the second version differ from those of the fourth in what they say, and in nothing else."""

import gymnasium
import numpy as np
import pytest

pytest.importorskip("mujoco")

from tfbaselines.bench import older_tasks
from tfbaselines.bench.older_tasks import cylinder
from tfbaselines.envs import env_type_of
from tfbaselines.envs.make import make_vec_env


@pytest.mark.parametrize("name", older_tasks.TASKS)
def test_capsules_weigh_less_and_time_limits_fail(name):
    older, newer = gymnasium.make(f"Older{name}"), gymnasium.make(name.replace("v2", "v4"))
    assert env_type_of(f"tfbaselines.bench.older_tasks:Older{name}")[0] == "mujoco"
    assert older.observation_space == newer.observation_space and older.action_space.shape == newer.action_space.shape
    mass, inertia = ([getattr(env.unwrapped.model, n) for env in (older, newer)] for n in ("body_mass", "body_inertia"))
    assert (0.89 * mass[1][1:] < mass[0][1:]).all() and (mass[0][1:] < mass[1][1:]).all()
    # The axes are those of today's model.
    np.testing.assert_array_equal(np.argsort(inertia[0][1:], axis=1), np.argsort(inertia[1][1:], axis=1))
    assert (0.7 * inertia[1][1:] < inertia[0][1:]).all() and (inertia[0][1:] < inertia[1][1:]).all()
    older.reset(seed=0), newer.reset(seed=0)
    np.testing.assert_array_equal(older.unwrapped.data.qpos, newer.unwrapped.data.qpos)
    action = newer.action_space.sample()
    assert not np.allclose(older.step(action)[0], newer.step(action)[0], rtol=1e-4)


def test_actions_beyond_the_bounds_cost_what_they_are_and_act_as_the_bounds_do():
    venv = make_vec_env("tfbaselines.bench.older_tasks:OlderSwimmer-v2", num_env=2, seed=0)
    venv.reset()
    for env in venv.envs:
        env.unwrapped.set_state(np.zeros(5), np.zeros(5))
    obs, rewards, _, _ = venv.step(np.array([[1.0, -1.0], [3.0, -3.0]], np.float32))
    np.testing.assert_array_equal(obs[0], obs[1])
    # The cost is 1e-4 of the squares, 2 and 18.
    np.testing.assert_allclose(rewards[0] - rewards[1], 16e-4, rtol=1e-3)


def test_a_time_limit_ends_an_episode():
    env = gymnasium.make("OlderSwimmer-v2")
    env.reset(seed=0)
    ends = [env.step(env.action_space.sample())[2:4] for _ in range(older_tasks.EPISODE)]
    assert ends == [(False, False)] * (older_tasks.EPISODE - 1) + [(True, False)]
    # Swimmer's bodies are 1 m long and 0.2 m wide.
    mass, across, along = cylinder(0.1, 1.1)
    np.testing.assert_allclose(env.unwrapped.model.body_mass[1:], mass)
    np.testing.assert_allclose(env.unwrapped.model.body_inertia[1:], [[across, across, along]] * 3)
