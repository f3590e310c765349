"""Rules of the log's columns: KL divergence, clip fraction, entropy, value function, Q values, exploration."""

import math

import numpy as np

from tfbaselines.doctor.columns import Series
from tfbaselines.doctor.evidence import Evidence
from tfbaselines.doctor.findings import number
from tfbaselines.doctor.rules import AGAIN, CHECK_ENV, PLOT, Range, Sign, healthy, rule
from tfbaselines.doctor.rules.episodes import is_flat, scaled_reward

# Factors by which a column must leave its healthy range.
FAR_BELOW, FAR_ABOVE = 30.0, 5.0
# Explained variance of a value function that sees what matters.
EXPLAINED = 0.3
# A large value loss: rewards of 100 a step, over a hundred steps.
LARGE_LOSS = 1e4
# Value losses beside the largest healthy one, and RMSProp's epsilon, that hold a policy's gradient back together.
LARGE_BESIDE, HOLDING = 10.0, 1e-7


def middle(run: Evidence, quantity: str) -> tuple[Series, float] | None:
    """Return a quantity and its median over the first two thirds of its rows; a schedule's end is left out."""
    found = run.series(quantity)
    if found is None or len(found.values) < 5:
        return None
    return found, float(np.median(found.values[: max(3, 2 * len(found.values) // 3)]))


def range_of(run: Evidence, quantity: str) -> Range:
    """Return a quantity's healthy range for the run's algorithm; everything if it is unknown."""
    return healthy(quantity, run.settings.alg) or Range(-math.inf, math.inf)


def first_step(found: Series, condition: np.ndarray) -> float | None:
    """Return the step of the first row from which on most rows fulfill a condition."""
    share = np.cumsum(condition[::-1])[::-1] / np.arange(len(condition), 0, -1)
    places = np.flatnonzero(condition & (share > 0.8))
    return float(found.steps[places[0]]) if len(places) else None


def value_loss_is_large(run: Evidence) -> bool:
    found = middle(run, "value_loss")
    return found is not None and found[1] > LARGE_LOSS


@rule(
    title="Numbers are not finite",
    meaning="A loss, a gradient or an observation was nan or infinite; from there on nothing is learned.",
    source="IEEE 754",
    causes=("not_finite", "divergence"),
    check=CHECK_ENV,
    remedy=f"{AGAIN} --lr=1e-4 --max_grad_norm=0.5",
)
def not_finite(run: Evidence) -> Sign | None:
    for quantity in ("value_loss", "q_loss", "kl", "entropy", "q", "gradient_norm"):
        found = run.series(quantity)
        if found is None:
            continue
        column = run.table.columns[found.column]
        bad = ~np.isfinite(column)
        # A column that is empty now and then is written at its own interval.
        if bad[-1] and bad.sum() >= 3 and not bad[: len(bad) // 4].any() and bad[int(np.argmax(bad)) :].all():
            return Sign(found.column, str(column[-1]), 0.97, step=float(found.steps[-1]), healthy="finite")
    return None


@rule(
    title="The policy hardly moves",
    needs=("kl",),
    meaning="Each update changes the policy far less than in healthy runs: the steps are tiny, the gradient is clipped "
    "away by a huge value loss, or units of the network are dead.",
    source="Schulman et al. 2017, section 6.1; healthy.csv",
    causes=("rate_small", "rewards_large"),
    check=PLOT,
)
def kl_low(run: Evidence) -> Sign | None:
    found, limits = middle(run, "kl"), range_of(run, "kl")
    if found is None or found[1] > limits.low / FAR_BELOW or run.learned:
        return None
    series, value = found
    if value_loss_is_large(run):
        causes = ("rewards_large", "rate_small")
    else:
        causes = ("dead_units", "rate_small") if abs(value) < 1e-10 else ("rate_small", "dead_units")
    step = first_step(series, series.values < limits.low / FAR_BELOW)
    return Sign(series.column, number(value), 0.8, step, str(limits), causes)


@rule(
    title="The policy jumps",
    needs=("kl",),
    meaning="Each update changes the policy far more than in healthy runs; what was learned does not survive it.",
    source="Schulman et al. 2015 and 2017; healthy.csv",
    causes=("rate_large", "observation_scale"),
    check=PLOT,
    remedy=f"{AGAIN} --lr=1e-4 --noptepochs=4",
)
def kl_high(run: Evidence) -> Sign | None:
    found, limits = middle(run, "kl"), range_of(run, "kl")
    if found is None or found[1] < FAR_ABOVE * limits.high:
        return None
    series, value = found
    step = first_step(series, series.values > FAR_ABOVE * limits.high)
    certainty = 0.85 if value > 30 * limits.high else 0.7
    return Sign(series.column, number(value), certainty, step, str(limits))


@rule(
    title="Most samples are clipped",
    needs=("clip_fraction",),
    meaning="Ratios leave the clip range at once: steps are too large for it, or the range is too small.",
    source="Schulman et al. 2017; healthy.csv",
    causes=("rate_large", "clip_small"),
    check=PLOT,
)
def clipped(run: Evidence) -> Sign | None:
    found, limits = middle(run, "clip_fraction"), range_of(run, "clip_fraction")
    if found is None or found[1] < max(0.45, 1.2 * limits.high):
        return None
    series, value = found
    kl = middle(run, "kl")
    small = kl is not None and kl[1] < range_of(run, "kl").high
    causes = ("clip_small", "rate_large") if small else ("rate_large", "clip_small")
    step = first_step(series, series.values > 0.45)
    return Sign(series.column, number(value), 0.72, step, str(limits), causes)


@rule(
    title="The policy is nearly certain from the start",
    needs=("entropy",),
    meaning="Actions are nearly the same from the first row on: the first standard deviation is tiny, or observations "
    "of large size saturate the policy.",
    source="Andrychowicz et al. 2021, section 3.2",
    causes=("deviation_small", "observation_scale"),
    check=PLOT,
    remedy=f"{AGAIN} --init_logstd=0 --normalize_observations=True",
)
def certain_at_start(run: Evidence) -> Sign | None:
    found = run.series("entropy")
    if found is None or len(found.values) < 2:
        return None
    first = float(found.values[0])
    if 0 < first < 0.05:
        causes = ("observation_scale", "no_exploration")
        return Sign(found.column, number(first), 0.7, found.steps[0], "0.3 or more", causes)
    # A Gaussian's entropy is 1.42 + the logarithm of its deviation, for each dimension.
    setting = run.settings.number("init_logstd") if "init_logstd" in run.settings.given else None
    if first < -2 and (setting is None or setting < -3):
        certainty = 0.92 if first < -4 else 0.6
        return Sign(
            found.column, f"{number(first)} at first", certainty, found.steps[0], "about 1.4 for each dimension"
        )
    return None


@rule(
    title="The policy stopped exploring early",
    needs=("entropy",),
    meaning="Entropy fell to nearly 0 in the first third of the run while returns are low: it repeats one action.",
    source="Mnih et al. 2016, section on entropy; Ahmed et al. 2019",
    causes=("collapse", "no_exploration"),
    check=PLOT,
    remedy=f"{AGAIN} --ent_coef=0.01",
)
def entropy_collapsed(run: Evidence) -> Sign | None:
    found = run.series("entropy")
    if found is None or len(found.values) < 6 or run.learned or not found.values[0] >= 0.05:
        return None
    third = found.values[len(found.values) // 3 :]
    if float(found.values[0]) > 1.2 and float(third.min()) < 0:
        # A Gaussian's entropy may be negative.
        return None
    if float(np.median(third)) > 0.03 * float(found.values[0]):
        return None
    step = first_step(found, found.values < 0.03 * found.values[0])
    causes = ("rate_large", "collapse") if range_exceeded(run, "kl") else ("collapse", "no_exploration")
    return Sign(found.column, number(float(np.median(third))), 0.6, step, "a slow fall", causes)


def range_exceeded(run: Evidence, quantity: str) -> bool:
    found = run.series(quantity)
    return found is not None and float(found.values.max()) > FAR_ABOVE * range_of(run, quantity).high


@rule(
    title="The policy stays at its first randomness",
    needs=("entropy",),
    meaning="Entropy does not change in the whole run: the policy gets no gradient, or the entropy bonus holds it.",
    source="experience",
    causes=("entropy_large", "rate_small"),
    check=PLOT,
)
def entropy_still(run: Evidence) -> Sign | None:
    found = run.series("entropy")
    if found is None or len(found.values) < 8 or run.learned:
        return None
    change, size = float(np.ptp(found.values)), max(abs(float(found.values[0])), 0.1)
    if change > 0.01 * size:
        return None
    words = f"{number(float(found.values[0]))}, and changes by {number(change)}"
    if change < 1e-5 * size:
        return Sign(found.column, words, 0.85, None, "a slow fall", ("dead_units", "rate_small"))
    causes = ("entropy_large", "rate_small")
    if value_loss_is_large(run):
        causes = ("rewards_large", "rate_small")
    elif (scaled_reward(run) or 1) < 1e-3:
        causes = ("rewards_small", "entropy_large")
    return Sign(found.column, words, 0.62, None, "a slow fall", causes)


@rule(
    title="The policy becomes more random",
    needs=("entropy",),
    meaning="Entropy rises without end: the entropy bonus is worth more than returns, or advantages are noise.",
    source="experience with Gaussian policies",
    causes=("entropy_large",),
    check=PLOT,
    remedy=f"{AGAIN} --ent_coef=0",
)
def entropy_rises(run: Evidence) -> Sign | None:
    found = run.series("entropy")
    if found is None or len(found.values) < 8:
        return None
    first, last = float(found.values[0]), float(found.values[-1])
    if last < first + 0.7 or run.learned:
        return None
    certainty = 0.8 if last > first + 2 else 0.55
    return Sign(found.column, f"{number(last)}, and was {number(first)}", certainty, None, "a slow fall")


@rule(
    title="The value function explains nothing",
    needs=("explained_variance",),
    meaning="Values are no better than a constant: they do not see what matters, their rate is wrong, rewards have the "
    "wrong size, or units are dead.",
    source="Schulman 2016, slides on debugging; healthy.csv",
    causes=("value_function", "observation_scale"),
    check=PLOT,
    remedy=f"{AGAIN} --value_network=copy --normalize_observations=True",
)
def nothing_explained(run: Evidence) -> Sign | None:
    found = run.late("explained_variance")
    if found is None or run.series("explained_variance").values.size < 6:
        return None
    value = float(np.median(found.values))
    limits = range_of(run, "explained_variance")
    if value >= min(0.05, limits.low) and value > 1e-3:
        return None
    if run.learned and float(run.series("explained_variance").values.max()) > EXPLAINED:
        # Equal returns of a solved task leave no variance to explain.
        return None
    causes: tuple[str, ...] = ()
    certainty = 0.35 if run.learned else 0.5
    if abs(value) < 1e-3 and float(np.abs(found.values).max()) < 0.02:
        causes = ("rewards_large", "rate_small") if value_loss_is_large(run) else ("dead_units", "rate_small")
        certainty = 0.74
    elif value < -1:
        causes = ("observation_scale", "rate_large")
    return Sign(found.column, number(value), certainty, found.steps[0], str(limits), causes)


@rule(
    title="The value loss is huge",
    needs=("value_loss",),
    meaning="Returns are far from 1 in size, so the value function's gradient drowns the policy's.",
    source="van Hasselt et al. 2016 (Pop-Art); healthy.csv",
    causes=("rewards_large", "rate_large"),
    check=PLOT,
    remedy=f"{AGAIN} --reward_scale=0.01",
)
def value_loss_huge(run: Evidence) -> Sign | None:
    found = middle(run, "value_loss")
    if found is None or found[1] < LARGE_LOSS:
        return None
    series, value = found
    size = scaled_reward(run)
    causes = ("rewards_large",) if size is None or size > 10 else ("rate_large", "divergence")
    step = first_step(series, series.values > LARGE_LOSS)
    return Sign(series.column, number(value), 0.78, step, str(range_of(run, "value_loss")), causes)


@rule(
    title="The value loss leaves the policy little of the gradient",
    needs=("value_loss",),
    meaning="Both losses share one clipped gradient, so a value loss this large scales the policy's part down, and "
    "RMSProp's epsilon, inside the square root, holds such small gradients back.",
    source="healthy.csv; experience with a2c on LunarLander (data/benchmarks/zoo_tried.csv)",
    causes=("rewards_large", "rate_small"),
    check=PLOT,
)
def gradient_held_back(run: Evidence) -> Sign | None:
    found, high = middle(run, "value_loss"), range_of(run, "value_loss").high
    epsilon, clip = run.settings.number("epsilon"), run.settings.number("max_grad_norm")
    if found is None or not epsilon or not clip or epsilon < HOLDING or run.learned:
        return None
    series, value = found
    if not LARGE_BESIDE * high < value < LARGE_LOSS:
        return None
    words = f"{number(value)}, gradients are clipped at {number(clip)}, and epsilon is {number(epsilon)}"
    return Sign(series.column, words, 0.6, None, str(range_of(run, "value_loss")), flags="--epsilon=1e-10")


@rule(
    title="The policy changes, and returns do not",
    needs=("clip_fraction", "kl"),
    meaning="Updates have a healthy size and the value function learns nothing: advantages are noise.",
    source="Schulman 2016, slides on debugging",
    causes=("observation_partial", "actions_ignored", "reward_noise"),
)
def noise_followed(run: Evidence) -> Sign | None:
    kl, explained = middle(run, "kl"), run.late("explained_variance")
    if kl is None or explained is None or not is_flat(run):
        return None
    if kl[1] < range_of(run, "kl").low or float(np.median(explained.values)) > 0.2:
        return None
    return Sign(kl[0].column, number(kl[1]), 0.45, None, "returns that rise with it")
