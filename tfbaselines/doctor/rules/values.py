"""Rules of Q values, of the randomness of actions, and of the run's progress."""

import numpy as np

from tfbaselines.doctor.evidence import Evidence
from tfbaselines.doctor.findings import number
from tfbaselines.doctor.rules import AGAIN, PLOT, PLOT_RETURNS, Sign, rule
from tfbaselines.doctor.rules.columns import range_of
from tfbaselines.doctor.rules.episodes import returns_name, scaled_reward

# Episodes of a window, and the share of the run after which most of them should differ from a failure.
WINDOW, LATE = 20, 0.5
# Steps of an episode over which one-step targets carry its reward slowly.
LONG = 50


def reachable(run: Evidence) -> float | None:
    """Return a bound of discounted returns, from the rewards of the episodes; None without them."""
    gamma = run.settings.number("gamma")
    gamma = 0.99 if gamma is None else gamma
    lengths, returns = run.episodes.lengths, np.abs(run.episodes.returns)
    if not len(lengths) or gamma >= 1:
        return None
    scale = (scaled_reward(run) or 1.0) / (run.reward or 1.0)
    horizon = 1 / (1 - gamma)
    largest = float((returns / np.maximum(lengths, 1)).max()) * scale
    # An entropy bonus of SAC is part of its values.
    alpha = run.settings.number("alpha") or 0.0
    return (3 * largest + 2 * (alpha if run.settings.alg == "sac" else 0.0)) * horizon


@rule(
    title="Q values are beyond every possible return",
    needs=("q",),
    meaning="The critics have lost touch with the rewards. From the first rows on: inputs are too large; later: the "
    "rate is too large, or targets follow too fast.",
    source="van Hasselt et al. 2018 (the deadly triad); Fujimoto et al. 2018",
    causes=("divergence", "rate_large"),
    check=PLOT,
    remedy=f"{AGAIN} --lr=3e-4",
)
def q_diverged(run: Evidence) -> Sign | None:
    found, bound = run.series("q"), reachable(run)
    if found is None or bound is None or len(found.values) < 2:
        return None
    beyond = np.abs(found.values) > 2 * bound
    if beyond.mean() < 0.3 and not beyond[-1]:
        return None
    early = bool(beyond[: max(1, len(beyond) // 6)].any())
    causes = ("observation_scale", "rate_large") if early else ("rate_large", "divergence")
    step = float(found.steps[int(np.argmax(beyond))])
    worst = float(found.values[int(np.argmax(np.abs(found.values)))])
    return Sign(found.column, f"up to {number(worst)}", 0.86, step, f"within {number(bound)}", causes)


@rule(
    title="Q values do not move toward the returns",
    needs=("q",),
    meaning="The critics stay where they began: their steps are too small, targets never change, or the discount "
    "leaves one reward of many.",
    source="experience",
    causes=("rate_small", "target_frozen", "dead_units"),
    check=PLOT,
)
def q_still(run: Evidence) -> Sign | None:
    found, reward, length = run.series("q"), scaled_reward(run), run.length
    if found is None or not reward or not length or len(found.values) < 4:
        return None
    gamma = run.settings.number("gamma")
    horizon = min(length, 1 / max(1e-3, 1 - (0.99 if gamma is None else gamma)))
    last = float(np.abs(found.values[-2:]).mean())
    if horizon < 10 or last > 0.1 * reward * horizon or run.learned:
        return None
    certainty = 0.7 if last < 0.03 * reward * horizon else 0.5
    return Sign(found.column, number(last), certainty, None, f"about {number(reward * horizon)}")


@rule(
    title="Actions are nearly certain",
    needs=("log_probability",),
    meaning="The policy has no noise left to explore with, or its outputs are saturated by large inputs.",
    source="Haarnoja et al. 2018",
    causes=("no_exploration", "observation_scale"),
    check=PLOT,
    remedy=f"{AGAIN} --alpha=auto",
)
def actions_certain(run: Evidence) -> Sign | None:
    found = run.late("log_probability")
    if found is None:
        return None
    value, limits = float(np.median(found.values)), range_of(run, "log_probability")
    if value < max(4.0, 3 * limits.high):
        return None
    # tanh saturates, so that the logarithm of its derivative has no bound.
    causes = ("observation_scale", "rate_large") if value > 30 else ("no_exploration", "rate_large")
    return Sign(found.column, number(value), 0.68, found.steps[0], str(limits), causes)


@rule(
    title="Actions stay uniform",
    needs=("log_probability",),
    meaning="The policy is as random as it can be: the entropy bonus outweighs the rewards, or the actor is still.",
    source="Haarnoja et al. 2018",
    causes=("entropy_large", "rewards_small"),
    check=PLOT,
    remedy=f"{AGAIN} --alpha=auto",
)
def actions_uniform(run: Evidence) -> Sign | None:
    found = run.late("log_probability")
    if found is None or len(found.values) < 4 or run.learned:
        return None
    value = float(np.median(found.values))
    if value > -0.5 or float(np.ptp(found.values)) > 0.1 * abs(value):
        return None
    small = (scaled_reward(run) or 1) < 0.01
    causes = ("rewards_small", "entropy_large") if small else ("entropy_large", "rate_small")
    return Sign(found.column, number(value), 0.64, found.steps[0], str(range_of(run, "log_probability")), causes)


@rule(
    title="Exploration does not end",
    needs=("exploration",),
    meaning="At the end most actions are still random: the schedule is for a longer run.",
    source="Mnih et al. 2015",
    causes=("endless_exploration",),
    check=PLOT,
    remedy=f"{AGAIN} --exploration_fraction=0.1",
)
def exploration_stays(run: Evidence) -> Sign | None:
    found = run.series("exploration")
    if found is None or len(found.values) < 3 or found.values[-1] < 0.3 or run.learned:
        return None
    whole = run.planned is None or run.steps >= 0.9 * run.planned
    return Sign(found.column, f"{found.values[-1]:.0%}", 0.7 if whole else 0.4, None, "1 % to 10 % at the end")


@rule(
    title="There is no exploration from the start",
    needs=("exploration",),
    meaning="The first row has no random actions already.",
    source="Mnih et al. 2015",
    causes=("no_exploration",),
    check=PLOT,
    remedy=f"{AGAIN} --exploration_fraction=0.1 --epsilon_start=1",
)
def exploration_none(run: Evidence) -> Sign | None:
    found = run.series("exploration")
    noise = run.settings.value("noisy") or run.settings.value("param_noise")
    if found is None or float(found.values.max()) > 0.001 or noise:
        return None
    return Sign(found.column, "0 %", 0.8, found.steps[0], "from 100 % to 1 % or more")


@rule(
    title="The learning rate has reached 0",
    needs=("rate",),
    meaning="The schedule ended before the run had learned; more steps of this run change nothing.",
    source="experience with a2c on Pong",
    causes=("rate_ended",),
    check=PLOT,
    remedy=f"{AGAIN} --num_timesteps=1e7",
)
def rate_ended(run: Evidence) -> Sign | None:
    found = run.series("rate")
    if found is None or len(found.values) < 10 or run.learned or found.values.max() <= 0:
        return None
    gone = found.values < 0.02 * found.values.max()
    if gone.mean() < 0.05:
        return None
    return Sign(found.column, number(float(found.values[-1])), 0.5, float(found.steps[int(np.argmax(gone))]))


@rule(
    title="It is too early to tell",
    meaning="Healthy runs of this algorithm need more steps before their returns rise.",
    source="num_timesteps of tuned settings",
    causes=("too_early",),
    check=PLOT_RETURNS,
    remedy="tfbaselines run --resume={run}",
)
def too_early(run: Evidence) -> Sign | None:
    tuned = run.settings.tuned().get("num_timesteps")
    usual = float(tuned) if tuned else 20_000.0
    if not run.steps or run.steps >= 0.05 * usual or run.learned:
        return None
    return Sign("steps", number(run.steps), 0.58, None, f"{number(usual)} in a tuned run")


def first_success(run: Evidence) -> float | None:
    """Return the share of the run after which most episodes no longer have the worst return; None without a success.

    Only episodes that fail alike count, as those of a rare reward do.
    """
    returns = run.episodes.returns
    if len(returns) < 3 * WINDOW or not run.steps:
        return None
    failed = np.isclose(returns, returns.min(), rtol=1e-6)
    if failed.all() or failed[:WINDOW].mean() < 0.9 or float(np.median(run.episodes.lengths[failed])) < LONG:
        return None
    most = np.convolve(failed, np.ones(WINDOW) / WINDOW, "valid") < 0.5
    if not most.any():
        return 1.0
    return float(run.episodes.steps[int(np.argmax(most)) + WINDOW - 1]) / run.steps


@rule(
    title="A rare reward spreads slowly, and targets look one step ahead",
    meaning="Most episodes fail alike until late in the run. A one-step target carries the reward at the end back by "
    "one step each time; returns over several steps carry it back at once.",
    source="Sutton and Barto 2018, chapter 7; Hessel et al. 2018; healthy runs succeed by 0.3",
    causes=("reward_sparse",),
    check=PLOT_RETURNS,
)
def reward_spreads_slowly(run: Evidence) -> Sign | None:
    found = first_success(run)
    if found is None or found < LATE or run.settings.number("n_step") != 1:
        return None
    worst = number(float(run.episodes.returns.min()))
    words = f"{worst} in most episodes until {found:.0%} of the run, with n_step=1"
    certainty = 0.5 + 0.2 * (found - LATE) / (1 - LATE)
    return Sign(returns_name(run), words, certainty, healthy="other returns by 30 % of the run", flags="--n_step=8")
