"""The first line of a run counts the parameters of each part."""

import re

from small_runs import EVERY, learn, own_identity

from tfbaselines.logs import logger

# Parts beside the policy pi, by algorithm; the others have a value function v.
PARTS = {
    "acer": ["q"],
    "bc": [],
    "ddpg": ["q"],
    "deepq": ["q"],
    "es": [],
    "her": ["q"],
    "qlearning": ["q"],
    "sac": ["q1", "q2"],
    "td3": ["q1", "q2"],
}


@EVERY
def test_the_parameters_of_each_part_are_counted(alg, tmp_path):
    logger.configure(str(tmp_path), ["log"])
    model = learn(alg, own_identity(alg), total_timesteps=0)
    (line,) = re.findall(r"^Number of parameters: (.*)", (tmp_path / "log.txt").read_text(), re.M)
    counts = {name: int(count) for name, count in (part.split(": ") for part in line.split(", "))}
    pi = [] if alg in ("deepq", "qlearning") else ["pi"]
    assert list(counts) == [*pi, *PARTS.get(alg, ["v"]), "total"]
    total = counts.pop("total")
    assert total == sum(counts.values()) == sum(variable.numpy().size for variable in model.policy.trainable_variables)
