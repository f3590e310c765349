"""Reward signals from their arguments: what each is given, and the statistics that it says it has."""

import numpy as np
import pytest
from small_environments import box, identity
from small_runs import demonstrations_for

from tfbaselines.config.groups import parse_signals
from tfbaselines.rewards import make_signals


@pytest.mark.parametrize("make", [box, identity])
def test_signals_have_the_statistics_that_they_name(make, eager):
    env, own = make(), {"encoding_size": 8, "strength": 0.5, "gamma": 0.75}
    given = {"rnd": own, "extrinsic": {}, "gail": own | {"demo_path": demonstrations_for(env)}, "curiosity": own}
    signals = make_signals(parse_signals(given), env, env, np.random.default_rng(0))
    assert [signal.name for signal in signals] == ["rnd", "gail", "curiosity"]
    obs, actions = (np.array([space.sample() for _ in range(8)]) for space in (env.observation_space, env.action_space))
    for signal in signals:
        found = signal.update({"obs": obs, "actions": actions, "next_obs": obs})
        assert set(found) == set(signal.statistics)
        assert (signal.strength, signal.gamma) == (0.5, 0.75)
