"""Rules of the probes: what each sign means, its healthy range, its source, and commands that check and mend it."""

from dataclasses import dataclass

from tfbaselines.doctor.findings import Finding
from tfbaselines.probes.signs import Sign

CHECK_ENV = "tfbaselines check_env {env}"
PROBE = "tfbaselines doctor {run} --probe"
AGAIN = "tfbaselines run --config={run} --log_path={run}-mended"
EXPERIENCE = "experience"
HENDERSON = "Henderson et al. 2018, arXiv:1709.06560"
ANDRYCHOWICZ = "Andrychowicz et al. 2021, arXiv:2006.05990"
PROBES = "probe environments with known answers (docs/doctor.md)"


@dataclass(frozen=True)
class ProbeRule:
    """One rule of the probes.

    Attributes:
        title: what is wrong.
        quantity: what was measured.
        healthy: its healthy range, in words.
        meaning: what the sign usually means.
        source: the paper or the experience behind it.
        causes: causes, the likeliest first.
        check: command that checks it, with {run} and {env}.
        remedy: command that mends it; empty if there is none.
    """

    title: str
    quantity: str
    healthy: str
    meaning: str
    source: str
    causes: tuple[str, ...]
    check: str = CHECK_ENV
    remedy: str = ""


RULES = {
    "check_env": ProbeRule(
        "The environment breaks Gymnasium's interface",
        "the result of check_env",
        "nothing to change",
        "Training refuses or misreads what the environment returns.",
        "Gymnasium's check_env",
        ("settings",),
    ),
    "constant_observation": ProbeRule(
        "A part of the observations never changes",
        "the observation",
        "every number changes over random steps",
        "The part shows nothing. It may be a sensor that is not connected, or a wrapper that overwrites it.",
        EXPERIENCE,
        ("observation_constant",),
    ),
    "observation_size": ProbeRule(
        "Observations are too large for a network",
        "the size of the observations that the learner gets",
        "0.01 to 100",
        "Units saturate or values explode. Scale observations to about 1, or let the run normalize them.",
        ANDRYCHOWICZ,
        ("observation_scale",),
        remedy=f"{AGAIN} --normalize_observations=True",
    ),
    "observation_delay": ProbeRule(
        "Observations arrive a step late",
        "the change of observations",
        "explained by the action of the same step",
        "The policy acts on an old state. Return the observation of the step itself, or add the previous action to it.",
        EXPERIENCE,
        ("observation_delay",),
    ),
    "hidden_velocity": ProbeRule(
        "One observation does not show what the next one depends on",
        "the change of observations",
        "explained by one observation as well as by two",
        "Velocities or other states are hidden. Stack frames, add the missing numbers, or take a policy with memory.",
        "Mnih et al. 2015, section on frame stacking",
        ("observation_partial",),
        remedy=f"{AGAIN} --network=lstm",
    ),
    "late_effect": ProbeRule(
        "No action shows in the next observation",
        "the first effect of an action on observations",
        "in the same step",
        "Observations may be late, or they leave out what actions change first, such as velocities.",
        EXPERIENCE,
        ("observation_delay", "observation_partial"),
    ),
    "actions_ignored": ProbeRule(
        "Actions have no effect",
        "the effect of different actions in the same state",
        "other observations or rewards within 6 steps",
        "A wrapper or the environment drops the actions, so there is nothing to learn.",
        EXPERIENCE,
        ("actions_ignored",),
    ),
    "equal_actions": ProbeRule(
        "Some actions do the same",
        "the effect of an action",
        "differs from that of other actions",
        "The action space has choices, or numbers, that the environment does not read.",
        EXPERIENCE,
        ("actions_ignored", "action_bounds"),
    ),
    "action_bounds": ProbeRule(
        "The bounds of actions do not fit the environment",
        "the range of actions",
        "every part has an effect, up to the environment's own bounds",
        "Bounds too wide waste most actions on a clipped value; bounds too narrow cannot reach what is needed.",
        EXPERIENCE,
        ("action_bounds",),
    ),
    "reward_sign": ProbeRule(
        "Rewards seem to have the wrong sign",
        "the reward",
        "larger for what is wanted",
        "The agent learns to do the opposite, or to end episodes as soon as it can.",
        EXPERIENCE,
        ("reward_sign",),
    ),
    "reward_large": ProbeRule(
        "Rewards are very large",
        "the reward that the learner gets",
        "0.01 to 100",
        "Values of this size dominate the loss, and their gradients are clipped or diverge.",
        HENDERSON,
        ("rewards_large",),
        remedy=f"{AGAIN} --reward_scale=0.001",
    ),
    "reward_small": ProbeRule(
        "Rewards are very small",
        "the reward that the learner gets",
        "0.01 to 100",
        "Entropy bonuses and the noise of the value function are larger than the rewards.",
        HENDERSON,
        ("rewards_small",),
        remedy=f"{AGAIN} --reward_scale=1000",
    ),
    "no_reward": ProbeRule(
        "Random actions hardly find a reward",
        "the share of steps with a reward",
        "above 0.2 %",
        "Without a first reward nothing is learned. Shape the reward, or add curiosity or demonstrations.",
        "Burda et al. 2019, arXiv:1810.12894",
        ("reward_sparse",),
        remedy=f"{AGAIN} --reward_signals=extrinsic,curiosity",
    ),
    "reward_delay": ProbeRule(
        "Rewards arrive a step late",
        "the reward",
        "explained by its own step",
        "Each reward is credited to the action after the one that earned it.",
        EXPERIENCE,
        ("reward_delay",),
    ),
    "no_ends": ProbeRule(
        "Ends of episodes are not reported",
        "the end of an episode",
        "terminated or truncated within the time limit",
        "Values bootstrap over resets, and returns have no meaning.",
        "Pardo et al. 2018, arXiv:1712.00378",
        ("no_ends",),
    ),
    "limit_as_end": ProbeRule(
        "Time limits are reported as real ends",
        "the end by a time limit",
        "truncated, not terminated",
        "The value of the last state counts as 0, so values depend on a clock that the policy does not see.",
        "Pardo et al. 2018, arXiv:1712.00378",
        ("limits_as_ends",),
    ),
    "equal_copies": ProbeRule(
        "All copies of the environment are the same",
        "the observations of several copies",
        "differ, as their seeds do",
        "N copies bring the experience of one. The environment ignores the seed of reset().",
        EXPERIENCE,
        ("equal_copies",),
    ),
    "short_horizon": ProbeRule(
        "The discount sees a small part of an episode",
        "1 / (1 - gamma) beside the length of an episode",
        "a tenth of the length, or 50 steps",
        "Rewards beyond that horizon do not count.",
        "Sutton and Barto 2018, section 3.3",
        ("discount_small",),
        PROBE,
        f"{AGAIN} --gamma=0.99",
    ),
    "endless_values": ProbeRule(
        "Values have no bound",
        "gamma",
        "below 1 where time limits end episodes",
        "Without discount, a value that is bootstrapped at a time limit grows with every update.",
        "Sutton and Barto 2018, section 3.4",
        ("discount_large",),
        PROBE,
        f"{AGAIN} --gamma=0.99",
    ),
    "short_rollout": ProbeRule(
        "An update sees a small part of an episode",
        "steps of a rollout beside the length of an episode",
        "at least a hundredth, unless values are learned by bootstrapping",
        "Ends, where rewards often are, are in few updates.",
        EXPERIENCE,
        ("settings",),
        PROBE,
    ),
    "simple_behavior": ProbeRule(
        "A constant action is far better than random ones",
        "the return of simple behaviors",
        "below that of the trained policy",
        "A bar for the trained policy; a bias of the first policy may help more than exploration.",
        EXPERIENCE,
        ("settings",),
    ),
    "dead_units": ProbeRule(
        "Units of a network always return the same",
        "the share of dead or saturated units over real observations",
        "below 70 % in every layer",
        "Gradients do not pass such units. Before training their initialization or the size of observations is wrong, "
        "after training the learning rate was too large.",
        "Lu et al. 2019, arXiv:1903.06733",
        ("dead_units",),
        PROBE,
    ),
    "first_deviation": ProbeRule(
        "The first policy hardly varies its actions",
        "the deviation of the first policy's actions",
        "0.1 to 1 of half the range",
        "The policy sees the effects of one action alone, so no gradient shows a better one.",
        ANDRYCHOWICZ,
        ("deviation_small", "no_exploration"),
        PROBE,
        f"{AGAIN} --init_logstd=-0.5",
    ),
    "one_action": ProbeRule(
        "The trained policy takes one action always",
        "the most likely action",
        "depends on the observation",
        "The policy collapsed, or observations do not reach it.",
        EXPERIENCE,
        ("collapse",),
        PROBE,
    ),
    "no_spread": ProbeRule(
        "The trained policy samples one action",
        "the deviation of the trained policy's actions",
        "above 0.01 of half the range while it explores",
        "A stochastic policy without deviation does not explore any more.",
        EXPERIENCE,
        ("no_exploration", "collapse"),
        PROBE,
    ),
    "at_bounds": ProbeRule(
        "Nearly all actions are at their bounds",
        "the share of actions at their bounds",
        "below 97 %",
        "Outputs are saturated: rewards, observations or the learning rate may be too large.",
        EXPERIENCE,
        ("divergence", "action_bounds"),
        PROBE,
    ),
    "memory": ProbeRule(
        "Nothing reads the policy's memory",
        "the effect of the memory on actions",
        "other states, other actions",
        "The recurrent part of the network does not reach the actions.",
        EXPERIENCE,
        ("memory_unused",),
        PROBE,
    ),
    "weights": ProbeRule(
        "Weights are not finite or very large",
        "the weights",
        "finite, and below 1,000",
        "Training diverged.",
        EXPERIENCE,
        ("divergence", "not_finite"),
        PROBE,
    ),
    "no_update": ProbeRule(
        "Training changes no parameter",
        "the movement of parameters",
        "above 0",
        "Learning never starts: too few transitions, a rate of 0, or a loss without gradients.",
        EXPERIENCE,
        ("rate_small", "replay_small"),
        PROBE,
    ),
    "small_steps": ProbeRule(
        "Parameters hardly move",
        "the movement of parameters",
        "0.001 % to 5 % of their first size in a gradient step",
        "The learning rate is too small for a run of this length, or gradients vanish.",
        "Adam moves a weight by its rate (Kingma and Ba 2015)",
        ("rate_small",),
        PROBE,
    ),
    "large_steps": ProbeRule(
        "Parameters move too far",
        "the movement of parameters",
        "0.001 % to 5 % of their first size in a gradient step",
        "Each step destroys what was learned before.",
        "Adam moves a weight by its rate (Kingma and Ba 2015)",
        ("rate_large",),
        PROBE,
    ),
    "frozen_weights": ProbeRule(
        "Some parameters never move",
        "the movement of parameters",
        "above 0 for each array",
        "A part of the network gets no gradient: dead units below it, or a part that nothing uses.",
        EXPERIENCE,
        ("dead_units",),
        PROBE,
    ),
    "policy_still": ProbeRule(
        "Updates do not change the policy",
        "the divergence of the policy from the one before",
        "1e-6 to 0.1",
        "The learning rate or the clip range is too small, or all advantages are equal.",
        "Schulman et al. 2017, arXiv:1707.06347",
        ("rate_small", "clip_small"),
        PROBE,
    ),
    "policy_jumps": ProbeRule(
        "Updates replace the policy",
        "the divergence of the policy from the one before",
        "1e-6 to 0.1",
        "The learning rate is too large: what the policy learned in one update is lost in the next.",
        "Schulman et al. 2017, arXiv:1707.06347",
        ("rate_large",),
        PROBE,
    ),
    "target_frozen": ProbeRule(
        "The target network is never updated",
        "the movement of the target network",
        "follows the network within 10,000 gradient steps",
        "Targets stay those of the first, random network.",
        "Mnih et al. 2015",
        ("target_frozen",),
        PROBE,
    ),
    "target_copied": ProbeRule(
        "The target network is a copy in every step",
        "the distance of the target network",
        "larger than 0 after most updates",
        "The network chases its own values, which often diverge.",
        "Mnih et al. 2015",
        ("target_copied",),
        PROBE,
    ),
    "replay": ProbeRule(
        "The replay has hardly any different transitions",
        "different transitions in the draws",
        "about as many as are drawn",
        "Batches repeat the same transitions; the value function forgets all others.",
        "Fedus et al. 2020, arXiv:2007.06700",
        ("replay_small",),
        PROBE,
    ),
    "unexplored": ProbeRule(
        "Training does not explore",
        "the variation of actions for one observation",
        "above 1 % in the first half of a training",
        "The learner sees the effects of its first choice alone.",
        "Sutton and Barto 2018, section 2.2",
        ("no_exploration",),
        PROBE,
    ),
    "culprit": ProbeRule(
        "One argument keeps the configuration from learning",
        "a probe environment",
        "right with the known setting alone",
        "With this argument the configuration fails a tiny environment with a known answer, with the other value it "
        "does not.",
        PROBES,
        ("settings",),
        PROBE,
    ),
    "effect": ProbeRule(
        "One argument differs most in effect",
        "the mean return of short runs",
        "about the same with the known setting",
        "Of the arguments that differ from the known settings, this one changes a short run most.",
        PROBES,
        ("settings",),
        PROBE,
    ),
    "fixed_batch": ProbeRule(
        "The learner does not fit a fixed batch",
        "the value function",
        "fits more than 30 % of the variance",
        "Values of a few fixed observations of this environment cannot be learned: their size, dead units, or the "
        "learning rate.",
        PROBES,
        ("value_function", "observation_scale", "dead_units"),
        PROBE,
    ),
    "probe_constant": ProbeRule(
        "The configuration cannot learn a constant value",
        "ProbeConstant",
        "value 1",
        "The fault is in the value function: its loss, its learning rate, or the scale of its targets.",
        PROBES,
        ("value_function", "rate_small", "rate_large"),
        PROBE,
    ),
    "probe_observation": ProbeRule(
        "The configuration cannot learn the value of an observation",
        "ProbeObservation",
        "values -1 and 1",
        "Observations do not reach the value function: dead units, normalization, or a wrong batch.",
        PROBES,
        ("value_function", "dead_units", "rate_large"),
        PROBE,
    ),
    "probe_later_reward": ProbeRule(
        "The configuration cannot learn the value of a later reward",
        "ProbeLaterReward",
        "values gamma squared and 1",
        "The discount, the returns or the target network do not carry rewards back.",
        PROBES,
        ("discount_small", "target_frozen", "value_function"),
        PROBE,
    ),
    "probe_action": ProbeRule(
        "The configuration cannot learn an action from rewards",
        "ProbeAction",
        "the best action",
        "The fault is in the policy's update: exploration, entropy bonus, clip range or learning rate.",
        PROBES,
        ("no_exploration", "entropy_large", "clip_small", "rate_small"),
        PROBE,
    ),
    "probe_action_from_observation": ProbeRule(
        "The configuration cannot learn actions from observations",
        "ProbeActionFromObservation",
        "the best action for each observation",
        "The policy's network does not use observations, or the policy's update is too weak.",
        PROBES,
        ("dead_units", "entropy_large", "rate_small"),
        PROBE,
    ),
    "probe_memory": ProbeRule(
        "The configuration cannot learn to remember",
        "ProbeMemory",
        "the best action for an earlier observation",
        "The memory does not reach the actions, or sequences are cut too short.",
        PROBES,
        ("memory_unused",),
        PROBE,
    ),
    "training_not_finite": ProbeRule(
        "A short training is not finite",
        "a number in training",
        "finite",
        "Losses or weights overflow: rewards, observations or the learning rate are too large.",
        EXPERIENCE,
        ("divergence", "rate_large", "rewards_large"),
        PROBE,
    ),
}


def finding(sign: Sign, run: str, env: str) -> Finding:
    """Return the finding of a sign for a run in a directory, on an environment."""
    rule = RULES[sign.rule]
    words = {"run": run, "env": env or "ENV"}
    remedy = f"{AGAIN} {sign.remedy}" if sign.remedy else rule.remedy
    return Finding(
        sign.rule,
        rule.title,
        rule.quantity,
        sign.value,
        rule.meaning,
        round(sign.certainty, 3),
        sign.causes or rule.causes,
        healthy=rule.healthy,
        check=rule.check.format(**words),
        remedy=remedy.format(**words),
    )
