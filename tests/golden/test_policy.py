"""One step of acting, sampling noise given, against the original's numbers: in the graph and on the numpy mirror."""

from types import SimpleNamespace

import numpy as np
import pytest
from cases import cases, group, load
from gymnasium import spaces
from helpers import noise_from_uniform
from weights import assert_close, assign

from tfbaselines.policy.actor import GraphActor, NumpyActor
from tfbaselines.policy.policy import build_policy


def make_action_space(case, arrays):
    parts = [arrays[key].shape[-1] for key in sorted(arrays) if key.startswith("noise_")]
    kind = case.removeprefix("policy_step_")
    makers = {
        "discrete": lambda: spaces.Discrete(parts[0]),
        "multidiscrete": lambda: spaces.MultiDiscrete(parts),
        "multibinary": lambda: spaces.MultiBinary(parts[0]),
        "box": lambda: spaces.Box(-1.0, 1.0, (parts[0],), np.float32),
    }
    return next(make for prefix, make in makers.items() if kind.startswith(prefix))()


@pytest.mark.parametrize("maker", [GraphActor, NumpyActor])
@pytest.mark.parametrize("case", cases("policy_step_*"))
def test_policy_step(case, maker):
    arrays, hyper = load(case)
    obs = arrays["obs"]
    env = SimpleNamespace(
        observation_space=spaces.Box(-np.inf, np.inf, obs.shape[1:], obs.dtype),
        action_space=make_action_space(case, arrays),
    )
    kwargs = {key: value for key, value in hyper.items() if key not in ("network", "value_network")}
    policy = build_policy(env, hyper["network"], hyper["value_network"], **kwargs)
    assign(policy.trainable_variables, group(arrays, "w0"))
    noise = np.concatenate([arrays[key] for key in sorted(arrays) if key.startswith("noise_")], axis=-1)
    step = maker(policy).step(obs, None, None, noise_from_uniform(policy.head, noise))
    assert_close(step.actions, arrays["out_action"])
    assert_close(step.values, arrays["out_vf"])
    assert_close(step.neglogps, arrays["out_neglogp"])
    outputs = policy.forward(obs)
    assert_close(outputs.flat, arrays["out_flatparam"])
    # The layer's own output: logits or means, without log deviations.
    assert_close(outputs.flat[:, : arrays["out_pi"].shape[1]], arrays["out_pi"])
    assert_close(outputs.value, arrays["out_value"])
