"""Rules of episodes: their returns, lengths and ends, from the monitor files or the columns of means."""

import numpy as np

from tfbaselines.doctor.columns import Copy
from tfbaselines.doctor.evidence import Environment, Evidence
from tfbaselines.doctor.findings import number
from tfbaselines.doctor.rules import AGAIN, CHECK_ENV, PLOT_RETURNS, Sign, rule

# Sizes of a step's reward, |return| / length, in the environments of Gymnasium and in healthy runs.
REWARD_LOW, REWARD_HIGH = 0.003, 50.0


def returns_name(run: Evidence) -> str:
    """Name the source of the returns."""
    column = run.series("return")
    return "returns in monitor.csv" if len(run.episodes.returns) or column is None else column.column


def scaled_reward(run: Evidence) -> float | None:
    """Return the typical size of a step's reward as the learner gets it; None if it is unknown."""
    scale = run.settings.env_settings.get("reward_scale")
    factor = abs(scale) if isinstance(scale, int | float) and not isinstance(scale, bool) and scale else 1.0
    return None if run.reward is None else factor * run.reward


def beside_random(run: Evidence) -> float | None:
    """Return the first episodes' mean return over a random policy's; None where its returns are around 0."""
    known, trend = run.known, run.trend
    if known is None or trend is None or abs(known.return_mean) < 0.5 * (known.return_high - known.return_low):
        return None
    return trend.early / known.return_mean if known.return_mean else None


def usual_size(run: Evidence) -> bool:
    """Return True if the largest return of a known environment has the size of those that are known."""
    known, returns = run.known, run.episodes.returns
    if known is None or not len(returns) or scaled_reward(run) != run.reward:
        return False
    sizes = [abs(size) for size in (known.return_low, known.return_high, known.best) if np.isfinite(size)]
    return min(sizes) / 30 < float(np.abs(returns).max()) < 30 * max(sizes)


@rule(
    title="No episode ended",
    meaning="Either the environment never reports an end (terminated, truncated), or episodes are longer than the run. "
    "Without ends values have nothing to compare, and no return is logged.",
    source="Gymnasium's API; experience",
    causes=("no_ends",),
    check=CHECK_ENV,
)
def no_episodes(run: Evidence) -> Sign | None:
    silent = not len(run.episodes.returns) and run.series("return") is None
    if not silent or not run.takes_steps or run.steps < 1000:
        return None
    each = run.steps / run.num_env
    longest = run.known.limit if run.known else 10_000
    certainty = 0.97 if each > 2 * longest else 0.85 if run.known and each > longest else 0.75 if each > 2000 else 0.6
    words = f"0 episodes in {number(each)} steps of each environment"
    return Sign("episodes", words, certainty, healthy=f"one in {number(longest)} steps or fewer")


@rule(
    title="Rewards are large",
    meaning="The value loss and its gradients are as large as the rewards' square; where losses share a clipped "
    "gradient, the policy gets none of it.",
    source="Henderson et al. 2018; van Hasselt et al. 2016 (Pop-Art)",
    causes=("rewards_large",),
    remedy=f"{AGAIN} --reward_scale=0.01",
)
def rewards_large(run: Evidence) -> Sign | None:
    size = scaled_reward(run)
    if size is None or size <= REWARD_HIGH or usual_size(run):
        return None
    certainty = 0.45 if run.normalizes_rewards else min(0.97, 0.6 + 0.2 * np.log10(size / REWARD_HIGH))
    if (beside_random(run) or 0) > 30:
        certainty = max(certainty, 0.9)
    words = f"about {number(size)} a step"
    return Sign("rewards", words, float(certainty), healthy=f"{REWARD_LOW} to {number(REWARD_HIGH)}")


@rule(
    title="Rewards are tiny",
    meaning="Values and advantages vanish beside the networks' first outputs, the entropy bonus and Adam's epsilon.",
    source="Henderson et al. 2018; experience",
    causes=("rewards_small",),
    remedy=f"{AGAIN} --reward_scale=100",
)
def rewards_small(run: Evidence) -> Sign | None:
    size = scaled_reward(run)
    if size is None or size >= REWARD_LOW or size == 0 or usual_size(run):
        return None
    certainty = 0.4 if run.normalizes_rewards else min(0.95, 0.55 + 0.2 * np.log10(REWARD_LOW / size))
    ratio = beside_random(run)
    if ratio is not None and 0 < ratio < 0.03:
        certainty = max(certainty, 0.92)
    words = f"about {number(size)} a step"
    return Sign("rewards", words, float(certainty), healthy=f"{REWARD_LOW} to {number(REWARD_HIGH)}")


@rule(
    title="Returns have the opposite sign of this environment's",
    meaning="The reward is multiplied by a negative number somewhere, so the run learns the worst policy.",
    source="returns of random policies (tests/doctor/environments.py)",
    causes=("reward_sign",),
)
def sign_turned(run: Evidence) -> Sign | None:
    known, returns = run.known, run.episodes.returns
    if known is None or run.trend is None:
        return None
    ratio = beside_random(run)
    # No reward of some environments has the other sign, whatever the policy does.
    sided = known.return_low * known.return_high > 0 and len(returns) > 0
    other = sided and float((returns * np.sign(known.return_mean)).max()) < 0
    # Good policies have the other sign in some environments, and random ones here.
    changes = not known.best * known.return_mean > 0
    if changes or (not other and (ratio is None or ratio > -0.2)):
        return None
    healthy = f"a random policy: {number(known.return_low)} to {number(known.return_high)}"
    return Sign(returns_name(run), f"{number(run.trend.early)} at first", 0.95, healthy=healthy)


@rule(
    title="The policy learns to end its episodes",
    meaning="Each step costs, and episodes become shorter: right for a race to a goal, wrong for a task that should "
    "last.",
    source="experience",
    causes=("reward_sign",),
)
def ends_sooner(run: Evidence) -> Sign | None:
    lengths, returns = run.episodes.lengths, run.episodes.returns
    if run.known is not None or len(lengths) < 40 or returns.max() >= 0:
        return None
    fifth = len(lengths) // 5
    ratio = float(lengths[-fifth:].mean() / max(lengths[:fifth].mean(), 1))
    constant = float(np.std(returns / lengths)) < 0.01 * abs(float(np.mean(returns / lengths)))
    if not constant or ratio > 0.7:
        return None
    return Sign("episode lengths", f"{number(ratio)} of the first ones", 0.5)


@rule(
    title="All returns are equal",
    meaning="If no episode is better than another, nothing can be learned from them: rewards do not depend on what the "
    "policy does, ends are missing, or the reward is too rare to be found.",
    source="experience with MountainCar",
    causes=("rewards_constant", "reward_sparse"),
    check=PLOT_RETURNS,
)
def returns_equal(run: Evidence) -> Sign | None:
    returns = run.episodes.returns
    if len(returns) < 10 or float(np.ptp(returns)) > 1e-6 * (1 + abs(float(returns[0]))):
        return None
    # A solved task has equal episodes: lengths that differ show that returns depend on nothing.
    differ = float(np.ptp(run.episodes.lengths)) > 0
    if run.known is not None and returns[0] >= run.known.best and not differ:
        return None
    causes = ("reward_sparse", "no_exploration")
    if not run.known or run.known.return_high > run.known.return_low:
        causes = ("reward_sparse", "rewards_constant") if returns[0] == 0 else ("rewards_constant", "no_ends")
    words = f"{number(float(returns[0]))} in all {len(returns)} episodes"
    if differ:
        words += f", which have {number(run.episodes.lengths.min())} to {number(run.episodes.lengths.max())} steps"
        causes = ("rewards_constant", "reward_sparse") if returns[0] else ("reward_sparse", "rewards_constant")
    certainty = 0.93 if differ else 0.82
    return Sign(returns_name(run), words, certainty, healthy="different between episodes", causes=causes)


def agreement(copies: list[Copy]) -> tuple[float, float]:
    """Return the mean correlation between copies of the changes from episode to episode, and its z-score.

    A better policy changes all copies alike, but slowly: differences of neighbors leave the chance alone.
    """
    firsts = [copy.first[:, 0] for copy in copies]
    count = min((len(first) for first in firsts), default=0)
    if len(firsts) < 2 or count < 8:
        return 0.0, 0.0
    changes = np.diff(np.array([first[:count] for first in firsts]), axis=1)
    # One jump of all copies, when the task is found, is no chance.
    low, high = np.percentile(changes, (10, 90), axis=1, keepdims=True)
    changes = np.clip(changes, low, high)
    spread = changes.std(axis=1)
    if (spread < 1e-9).any():
        return 0.0, 0.0
    correlations = np.corrcoef(changes)
    pairs = len(firsts) * (len(firsts) - 1)
    mean = float((correlations.sum() - len(firsts)) / pairs)
    # Neighbors of differences are correlated, which leaves two thirds of them.
    return mean, mean * np.sqrt(pairs / 2 * (count - 1) * 2 / 3)


@rule(
    title="All copies of the environment meet the same episodes",
    meaning="The n-th episode is alike in all copies: they draw the same random numbers, so that several copies show "
    "no more than one.",
    source="two-way analysis of variance; copies of one seed",
    causes=("equal_copies",),
    check=CHECK_ENV,
)
def copies_equal(run: Evidence) -> Sign | None:
    mean, score = agreement(run.copies)
    if mean < 0.15 or score < 5:
        return None
    words = f"{number(mean)} between the copies' n-th returns"
    certainty = 0.96 if mean > 0.5 or score > 12 else 0.75
    return Sign("correlation", words, certainty, healthy="-0.1 to 0.1")


@rule(
    title="Episodes end at a limit of their own",
    meaning="Many episodes have the longest length exactly. If this limit is reported as terminated=True and not as "
    "truncated=True, values learn that the world ends there.",
    source="Pardo et al. 2018",
    causes=("limits_as_ends",),
    check=CHECK_ENV,
)
def own_limit(run: Evidence) -> Sign | None:
    lengths = run.episodes.lengths
    if len(lengths) < 20:
        return None
    longest = float(lengths.max())
    share = float(np.mean(lengths == longest))
    if not 0.1 <= share < 1 or (run.known and longest >= run.known.limit):
        return None
    if not run.known and run.learned:
        # The limit of the environment itself.
        return None
    certainty = 0.4 if not run.known else 0.8 if share > 0.2 else 0.6
    limit = f"a limit of {number(run.known.limit)}" if run.known else ""
    words = f"{number(longest)} in {share:.0%} of the episodes"
    return Sign("longest length", words, certainty, healthy=limit)


@rule(
    title="Every episode ends by its time limit, and returns do not rise",
    meaning="The files cannot tell whether the limit is reported as truncated=True, as it should be, or as "
    "terminated=True: then equal observations have different values.",
    source="Pardo et al. 2018",
    causes=("limits_as_ends",),
    check=CHECK_ENV,
)
def only_limits(run: Evidence) -> Sign | None:
    lengths = run.episodes.lengths
    if len(lengths) < 20 or np.ptp(lengths) > 0 or run.learned or run.trend is None:
        return None
    return Sign("episode lengths", f"{number(float(lengths[0]))} in all {len(lengths)} episodes", 0.3)


@rule(
    title="Returns fell again",
    meaning="The policy was better before: steps are too large for what it has learned, values diverge, or it forgets.",
    source="experience; Andrychowicz et al. 2021",
    causes=("collapse", "rate_large"),
    check=PLOT_RETURNS,
    remedy=f"{AGAIN} --lr=linear_1e-4",
)
def returns_fell(run: Evidence) -> Sign | None:
    trend = run.trend
    if trend is None or trend.deviation <= 0:
        return None
    rise, fall = trend.best - trend.early, trend.best - trend.late
    if rise < 2 * trend.deviation or fall < 0.5 * rise:
        return None
    words = f"{number(trend.late)} after {number(trend.best)}"
    return Sign(returns_name(run), words, 0.65 if fall > 0.8 * rise else 0.5, healthy="at its best near the end")


@rule(
    title="All episodes became alike, and no better",
    meaning="The first episodes differed, and now they hardly do: the policy takes the same actions whatever it sees. "
    "An actor whose outputs are far beyond the bounds of its actions has no gradient there, and small noise no effect.",
    source="td3 on Humanoid with a learning rate of 1e-3; experience",
    causes=("collapse", "rate_large", "no_exploration"),
    check=PLOT_RETURNS,
    remedy=f"{AGAIN} --lr=linear_3e-4 --pi_lr=linear_3e-4 --act_noise=0.2",
)
def episodes_alike(run: Evidence) -> Sign | None:
    returns, known = run.episodes.returns, run.known
    if len(returns) < 60:
        return None
    first, late = returns[: len(returns) // 20 + 10], returns[len(returns) // 2 :]
    # Most episodes count: a rare one may go on.
    before, now = (float(np.subtract(*np.percentile(part, (90, 10)))) for part in (first, late))
    typical = float(np.median(late))
    if before <= 0 or now > 0.1 * before or typical > float(np.mean(first)):
        return None
    certainty = 0.9 if known is not None and typical < known.return_mean else 0.7
    words = f"{number(now)} between most episodes, {number(before)} between the first ones"
    return Sign(f"difference of {returns_name(run)}", words, certainty, healthy="more than a tenth of the first ones'")


def worse_than_random(known: Environment, late: float) -> bool:
    spread = known.return_high - known.return_low
    return late < known.return_low - 0.25 * max(spread, 0.05 * abs(known.return_mean))


@rule(
    title="The policy is worse than a random one",
    meaning="It learned something, but the opposite: the reward's sign is turned, actions are clipped to one side, or "
    "values diverge.",
    source="returns of random policies (tests/doctor/environments.py)",
    causes=("reward_sign", "divergence"),
    check=PLOT_RETURNS,
)
def below_random(run: Evidence) -> Sign | None:
    if run.known is None or run.trend is None or not worse_than_random(run.known, run.trend.late):
        return None
    healthy = f"a random policy: {number(run.known.return_low)} to {number(run.known.return_high)}"
    return Sign(returns_name(run), f"{number(run.trend.late)} at the end", 0.55, healthy=healthy)


def is_flat(run: Evidence) -> bool:
    """Return True if returns show no rise over enough episodes, and those of a known environment are random ones."""
    trend = run.trend
    if trend is None or len(run.episodes.returns) < 30 or abs(trend.gain) > 0.5:
        return False
    known = run.known
    return known is None or trend.late < known.return_high + 0.1 * (known.return_high - known.return_low)


def share_done(run: Evidence) -> float:
    """Return the steps so far as a share of those of the tuned settings, or of 100,000."""
    tuned = run.settings.tuned().get("num_timesteps")
    return run.steps / float(tuned or 1e5)


@rule(
    title="Returns stay as they were, though the learner works",
    meaning="The value function explains the returns and the policy moves, but what it does makes no difference: "
    "actions have no effect, or too little of it within their bounds.",
    source="experience; the policy-gradient theorem",
    causes=("actions_ignored", "action_bounds"),
)
def no_effect(run: Evidence) -> Sign | None:
    if not is_flat(run):
        return None
    explained, kl, q = run.late("explained_variance"), run.late("kl"), run.late("q")
    values_work = explained is not None and float(np.median(explained.values)) > 0.3
    moves = kl is not None and float(np.median(kl.values)) > 2e-4
    if values_work and (kl is None or moves):
        words = f"{number(float(np.median(explained.values)))}, returns {number(run.trend.late)} as at first"
        return Sign(explained.column, words, 0.66, healthy="returns that rise with it")
    if q is not None and run.reward and abs(float(q.values[-1])) > 5 * run.reward:
        words = f"{number(float(q.values[-1]))}, returns {number(run.trend.late)} as at first"
        return Sign(q.column, words, 0.5, healthy="returns that rise with it")
    return None


@rule(
    title="Returns stay those of a random policy",
    meaning="Nothing was learned. If the settings are known to work, the observations do not show what matters, or "
    "actions have no effect.",
    source="experience",
    causes=("actions_ignored", "observation_scale"),
)
def returns_flat(run: Evidence) -> Sign | None:
    if not is_flat(run) or share_done(run) < 0.1:
        return None
    words = f"{number(run.trend.late)} at the end, {number(run.trend.early)} at first"
    return Sign(returns_name(run), words, 0.4, healthy="a rise of more than an episode's deviation")


@rule(
    title="Returns rose, and stopped far below what is known",
    meaning="The policy finds what can be found from what it sees: an observation lacks velocities or frames, is late, "
    "or a part of it never changes.",
    source="experience; best scores in data/benchmarks",
    causes=("observation_partial", "observation_delay"),
)
def plateau(run: Evidence) -> Sign | None:
    known, trend, returns = run.known, run.trend, run.episodes.returns
    if known is None or trend is None or np.isnan(known.best) or len(returns) < 60:
        return None
    third = len(returns) // 3
    middle, last = float(returns[third : 2 * third].mean()), float(returns[2 * third :].mean())
    reached = (trend.best - known.return_mean) / (known.best - known.return_mean)
    rose = trend.best - trend.early > 0.5 * trend.deviation and middle > trend.early
    stopped = last - middle <= 0.5 * trend.deviation
    if not (rose and stopped and 0.03 < reached < 0.5) or share_done(run) < 0.1:
        return None
    words = f"{number(trend.late)}, and was {number(middle)} in the middle of the run"
    return Sign(returns_name(run), words, 0.48, healthy=f"up to {number(known.best)}")
