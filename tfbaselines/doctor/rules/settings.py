"""Rules of settings: values far from the defaults and the tuned settings, and values that exclude learning."""

from tfbaselines.doctor.evidence import Evidence
from tfbaselines.doctor.findings import number
from tfbaselines.doctor.rules import AGAIN, PLOT_RETURNS, PRINT_CONFIG, Sign, rule

# Ratio to the tuned setting of the environment, or to the nearest known setting, from which on a rate is wrong.
FAR = 8.0
# Ratio of 0 to anything.
NOTHING = 1e-3
USUAL = (2e-5, 4e-3)
TUNED = "tuned settings in tfbaselines/tuned"
RATES = ("lr", "pi_lr", "actor_lr", "critic_lr", "q_lr", "vf_lr", "vf_stepsize", "optim_stepsize")
BONUSES = ("ent_coef", "entcoeff", "alpha")
MEMORIES = ("buffer_size", "replay_size")
# Settings that have rules of their own, and those that are no coefficients.
OWN_RULES = {*RATES, *BONUSES, *MEMORIES, "gamma", "polyak", "cliprange", "init_logstd", "target_network_update_freq"}
NO_COEFFICIENTS = {"total_timesteps", "num_timesteps", "seed", "log_interval", "max_total_reward", "save_interval"}
NO_COEFFICIENTS |= {"print_freq", "checkpoint_freq", "save_freq", "epochs", "num_test_episodes", "steps_per_epoch"}
NO_COEFFICIENTS |= {"load_path", "max_ep_len", "stop_at", "learning_starts", "start_steps", "update_after"}


# Causes of settings that are far above (True) or below (False) the known ones.
LEADS_TO = {
    ("vf_coef", False): ("value_function",),
    ("lam", False): ("discount_small",),
    ("max_grad_norm", False): ("rate_small",),
    ("grad_norm_clipping", False): ("rate_small",),
    ("adam_epsilon", True): ("rate_small",),
    ("epsilon", True): ("rate_small",),
    ("noptepochs", True): ("rate_large",),
    ("gradient_steps", True): ("rate_large",),
    ("gradient_steps", False): ("rate_small",),
    ("num_update", False): ("rate_small",),
    ("train_freq", True): ("rate_small",),
    ("update_every", True): ("rate_small",),
    ("exploration_final_eps", True): ("endless_exploration",),
    ("act_noise", False): ("no_exploration",),
    ("exploration_fraction", True): ("endless_exploration",),
    ("init_logstd", True): ("endless_exploration",),
}


def distance(run: Evidence, name: str) -> tuple[float, str]:
    """Return the ratio of a setting to the known ones, and these in words; 1 inside of their range, 0 unknown.

    A setting of 0 where all known ones are above 0 has the ratio NOTHING.
    """
    value, known = run.settings.number(name), run.settings.known(name)
    if value is None or known is None or value < 0 or known[1] <= 0 or known[0] < 0 or name not in run.settings.given:
        return 0.0, ""
    low, high = known
    words = number(low) if low == high else f"{number(low)} to {number(high)}"
    if value < low:
        return max(value / low, NOTHING), words
    return (value / high if value > high else 1.0), words


def sureness(ratio: float) -> float:
    """Return the certainty of a ratio: 0.6 at FAR, 0.97 at a hundred."""
    size = max(ratio, 1 / ratio)
    return min(0.97, 0.6 + 0.37 * min(1.0, (size / FAR - 1) / (100 / FAR - 1)))


def far_rate(run: Evidence, above: bool) -> Sign | None:
    found = [(name, *distance(run, name)) for name in RATES]
    found = [one for one in found if one[1] and (one[1] >= FAR if above else one[1] <= 1 / FAR)]
    if not found:
        return None if run.settings.alg else far_column(run, above)
    name, ratio, words = max(found, key=lambda one: max(one[1], 1 / one[1]))
    known = run.settings.known(name)
    flags = f"--{name}={number(known[1] if above else known[0])}"
    return Sign(name, number(run.settings.number(name)), sureness(ratio), healthy=words, flags=flags)


def far_column(run: Evidence, above: bool) -> Sign | None:
    """Judge the column of a run without settings: rates of all libraries' defaults are within USUAL."""
    column = run.series("rate")
    if column is None or not column.values[0] > 0:
        return None
    rate, (low, high) = float(column.values[0]), USUAL
    ratio = rate / high if above else rate / low
    if (ratio < FAR) if above else (ratio > 1 / FAR):
        return None
    return Sign(column.column, number(rate), sureness(ratio), healthy=f"{number(low)} to {number(high)}")


@rule(
    title="The learning rate is far above those that work",
    meaning="Steps of this size destroy what was learned: the policy jumps, values diverge or units die.",
    source=TUNED,
    causes=("rate_large",),
)
def rate_high(run: Evidence) -> Sign | None:
    return far_rate(run, above=True)


@rule(
    title="The learning rate is far below those that work",
    meaning="The networks hardly move in a run of this length.",
    source=TUNED,
    causes=("rate_small",),
)
def rate_low(run: Evidence) -> Sign | None:
    return far_rate(run, above=False)


@rule(
    title="The discount sees a few steps only",
    meaning="Rewards more than 1 / (1 - gamma) steps ahead do not count; the policy is greedy for the next ones.",
    source="Sutton and Barto 2018, section 3.3; tuned settings have 0.9 to 0.9999",
    causes=("discount_small",),
)
def discount_low(run: Evidence) -> Sign | None:
    gamma = run.settings.number("gamma")
    if gamma is None or "gamma" not in run.settings.given or not 0 <= gamma < 0.88:
        return None
    return Sign("gamma", number(gamma), 0.97 if gamma < 0.5 else 0.7, healthy="0.9 to 0.9999", flags="--gamma=0.99")


@rule(
    title="Nothing is discounted",
    meaning="With gamma=1 values have no bound, and bootstrapped values drift, above all where episodes end by time "
    "limits alone or not at all.",
    source="Sutton and Barto 2018, section 3.4; experience with Pendulum",
    causes=("discount_large",),
    check=PLOT_RETURNS,
)
def discount_one(run: Evidence) -> Sign | None:
    gamma = run.settings.number("gamma")
    if gamma is None or gamma < 1 or "gamma" not in run.settings.given:
        return None
    lengths = run.episodes.lengths
    continuing = not len(lengths) or float(lengths.max() - lengths.min()) == 0
    return Sign("gamma", number(gamma), 0.92 if continuing else 0.65, healthy="0.9 to 0.9999", flags="--gamma=0.99")


@rule(
    title="The entropy bonus is far above those that work",
    meaning="The policy is paid for randomness more than for returns, and stays random.",
    source=TUNED,
    causes=("entropy_large",),
)
def bonus_high(run: Evidence) -> Sign | None:
    for name in BONUSES:
        value, known = run.settings.number(name), run.settings.known(name)
        # a2c's alpha is a decay rate.
        if value is None or name not in run.settings.given or (name == "alpha" and run.settings.alg not in ("sac", "")):
            continue
        high = max(known[1] if known else 0.1, 0.1)
        if value >= 5 * high:
            return Sign(name, number(value), sureness(2 * value / high), healthy=f"at most {number(high)}")
    return None


@rule(
    title="Nothing makes the policy explore",
    meaning="Actions have no randomness, so the run sees the consequences of its first policy alone.",
    source="Sutton and Barto 2018, section 2.2",
    causes=("no_exploration",),
)
def exploration_off(run: Evidence) -> Sign | None:
    settings = run.settings
    noise = settings.value("noisy") or settings.value("param_noise") or settings.value("noise_type")
    final, fraction = settings.number("exploration_final_eps"), settings.number("exploration_fraction")
    if final is not None and not noise:
        start = settings.number("epsilon_start")
        first = 1.0 if start is None else start
        if final < 1e-3 and (first < 1e-3 or fraction == 0):
            words = f"epsilon from {number(first)} to {number(final)}"
            return Sign(
                "exploration", words, 0.95, healthy="from 1 to 0.01 or more", flags="--exploration_fraction=0.1"
            )
    if settings.alg == "sac" and settings.number("alpha") == 0:
        return Sign("alpha", "0", 0.92, healthy="0.005 to 0.2, or auto", flags="--alpha=auto")
    if settings.alg == "td3" and settings.number("act_noise") == 0:
        return Sign("act_noise", "0", 0.92, healthy="0.1", flags="--act_noise=0.1")
    none = settings.given.get("noise_type", "") in (None, "none")
    if settings.alg == "ddpg" and none and not settings.value("act_noise"):
        return Sign("noise_type", "none", 0.92, healthy="0.1 to 0.5 of the bounds", flags="--noise_type=ou_0.5")
    return None


@rule(
    title="The first standard deviation of actions is tiny",
    meaning="The policy tries one action, so that no other one can turn out better; advantages are noise, and the "
    "gradient of the log-probability is huge.",
    source="Andrychowicz et al. 2021, section 3.2: 0.5 is best, below 0.1 hurts; tuned settings have exp(-2) to e",
    causes=("deviation_small", "no_exploration"),
)
def deviation_setting(run: Evidence) -> Sign | None:
    value = run.settings.number("init_logstd")
    if value is None or value > -3 or "init_logstd" not in run.settings.given:
        return None
    certainty = 0.75 if value > -4.5 else 0.96
    return Sign("init_logstd", number(value), certainty, healthy="-2 to 1", flags="--init_logstd=0")


@rule(
    title="The clip range is out of scale",
    meaning="Ratios of probabilities are clipped before the policy has moved: the steps are too small, though nearly "
    "every sample is clipped.",
    source="Schulman et al. 2017: 0.1 to 0.3",
    causes=("clip_small",),
)
def clip_setting(run: Evidence) -> Sign | None:
    for name in ("cliprange", "clip_param"):
        value = run.settings.number(name)
        if value is not None and name in run.settings.given and value < 0.03:
            flags = f"--{name}=0.2"
            return Sign(name, number(value), 0.95 if value < 0.01 else 0.7, healthy="0.1 to 0.3", flags=flags)
    return None


@rule(
    title="The target network does not follow",
    meaning="Targets come from the first, random network for most of the run: values do not propagate.",
    source="Mnih et al. 2015; Lillicrap et al. 2016",
    causes=("target_frozen",),
)
def target_still(run: Evidence) -> Sign | None:
    polyak = run.settings.number("polyak")
    if polyak is not None and polyak > 0.9999:
        return Sign("polyak", number(polyak), 0.97, healthy="0.95 to 0.999", flags="--polyak=0.995")
    every = run.settings.number("target_network_update_freq")
    if every is None or not run.whole or every < run.whole / 4:
        return None
    words = f"{number(every)} in {number(run.whole)} steps"
    flags = "--target_network_update_freq=500"
    return Sign(
        "target_network_update_freq", words, 0.95 if every >= run.whole else 0.75, healthy="250 to 8,000", flags=flags
    )


@rule(
    title="The target network follows at once",
    meaning="Targets move with every step of the network that they train: values can chase themselves upward.",
    source="Mnih et al. 2015, extended data table 3; Lillicrap et al. 2016",
    causes=("target_copied",),
)
def target_fast(run: Evidence) -> Sign | None:
    polyak = run.settings.number("polyak")
    if polyak is not None and polyak < 0.8 and "polyak" in run.settings.given:
        return Sign("polyak", number(polyak), 0.93, healthy="0.95 to 0.999", flags="--polyak=0.995")
    every, train = run.settings.number("target_network_update_freq"), run.settings.number("train_freq") or 1
    if every is None or "target_network_update_freq" not in run.settings.given:
        return None
    between = max(1.0, every / train) * (run.settings.number("gradient_steps") or 1)
    if between >= 20:
        return None
    words, flags = f"{number(between)} gradient steps", "--target_network_update_freq=500"
    return Sign("target network's interval", words, 0.88 if between < 10 else 0.5, healthy="100 or more", flags=flags)


@rule(
    title="The replay is too small",
    meaning="Minibatches repeat the latest transitions, which are alike: the network learns these and forgets others.",
    source="Fedus et al. 2020, section 3; Zhang and Sutton 2017",
    causes=("replay_small",),
)
def replay_setting(run: Evidence) -> Sign | None:
    for name in MEMORIES:
        size = run.settings.number(name)
        if size is None or name not in run.settings.given:
            continue
        batch = run.settings.number("batch_size") or 32
        if size < max(10 * batch, 1000):
            words = f"{number(size)} transitions, minibatches of {number(batch)}"
            certainty = 0.97 if size <= batch else 0.75
            return Sign(name, words, certainty, healthy="10,000 or more", flags=f"--{name}=50000")
    return None


@rule(
    title="No gradient step was due",
    meaning="The run ends before it collected as many steps as learning waits for.",
    source="the run's own settings",
    causes=("too_early",),
    check=PRINT_CONFIG,
)
def starts_late(run: Evidence) -> Sign | None:
    names = ("learning_starts", "update_after", "buffer_init_steps", "nb_warmup_steps")
    waits = [(run.settings.number(name) or 0, name) for name in names]
    wait, name = max(waits)
    if not run.steps or wait < 0.8 * run.steps:
        return None
    words = f"{number(wait)} of {number(run.steps)} steps"
    certainty = 0.97 if wait >= run.whole else 0.8 if wait >= 0.8 * run.whole else 0.5
    return Sign(name, words, certainty, healthy="a tenth of the run", flags=f"--{name}=1000")


@rule(
    title="A setting is far from those that work",
    meaning="No tuned setting of this algorithm has a value of this size.",
    source=TUNED,
    causes=("settings",),
    check=PRINT_CONFIG,
    remedy=f"{AGAIN} --tuned",
)
def setting_far(run: Evidence) -> Sign | None:
    names = [name for name in run.settings.numeric() if name not in OWN_RULES | NO_COEFFICIENTS]
    found = [(name, *distance(run, name)) for name in names]
    found = [one for one in found if one[1] and max(one[1], 1 / one[1]) >= 20]
    if not found:
        return None
    name, ratio, words = max(found, key=lambda one: max(one[1], 1 / one[1]))
    causes = (*LEADS_TO.get((name, ratio > 1), ()), "settings")
    return Sign(name, number(run.settings.number(name)), min(0.72, sureness(ratio) - 0.2), healthy=words, causes=causes)


@rule(
    title="The scale of rewards is far from those that work",
    meaning="reward_scale makes rewards too large or too small for the networks' outputs and the losses' coefficients.",
    source="Henderson et al. 2018, section on reward scale",
    causes=("rewards_large", "rewards_small"),
)
def scale_setting(run: Evidence) -> Sign | None:
    scale = run.settings.env_settings.get("reward_scale")
    if not isinstance(scale, int | float) or isinstance(scale, bool) or run.reward is None or scale == 1:
        return None
    size = abs(scale) * run.reward
    if scale < 0:
        return Sign("reward_scale", number(scale), 0.95, healthy="above 0", causes=("reward_sign",))
    if 1e-3 <= size <= 100 or run.normalizes_rewards:
        return None
    causes = ("rewards_large",) if size > 100 else ("rewards_small",)
    words = f"{number(scale)}: a step's reward becomes {number(size)}"
    return Sign("reward_scale", words, 0.85, healthy="rewards of 0.01 to 10", causes=causes)
