"""Signs in a configuration: it is trained on the probe environments, and again with single arguments changed."""

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from tfbaselines.algs import get
from tfbaselines.doctor.findings import number
from tfbaselines.envs.adapt import as_vec_env
from tfbaselines.envs.probing import ProbeEnv, RecordedEnv
from tfbaselines.probes import answers
from tfbaselines.probes.answers import Question
from tfbaselines.probes.settings import Difference, cause_of
from tfbaselines.probes.signs import Sign
from tfbaselines.probes.trial import LEAST_UPDATES, Watch, arguments, steps_of_update, try_out

# Environment steps of a trial: with a rollout for each update, and with a replay.
ROLLOUT_STEPS, REPLAY_STEPS = 30_000, 4_000
# Judgements in a trial.
JUDGED = 40
# Variation of actions below which there is no exploration.
UNEXPLORED = 0.01
# Progress of a wrong answer that shows slow learning.
NEARER = 0.06
# Certainty of a culprit whose trial had no exploration.
LUCK = 0.6
# Largest number of environments in a trial.
MOST_ENVS = 16


class Outcome(NamedTuple):
    """Result of a trial.

    Attributes:
        right: the answer was right in the end.
        words: the answer.
        steps: environment steps until then.
        varied: variation of the actions for one observation; None for few steps.
        nearer: a wrong answer was nearer to the right one in the end than at first.
    """

    right: bool
    words: str
    steps: int
    varied: float | None
    nearer: bool = False


class Trials:
    """Trains a run's configuration on probe environments.

    Attributes:
        algorithm: algorithm of the run.
        outcomes: outcomes by rule of the question.

    Args:
        config: description of the run.
        observations, actions: spaces of the run.
        seconds: seconds of a trial.
    """

    def __init__(
        self, config: Mapping[str, Any], observations: spaces.Space, actions: spaces.Space, seconds: float
    ) -> None:
        self._config = config
        self._spaces = actions, observations
        self._seconds = seconds
        self.algorithm = get(config["alg"])
        self._count = max(1, min(MOST_ENVS, int(config["env"].get("num_env") or 1)))
        self.outcomes: dict[str, Outcome] = {}

    def ask(self, question: Question, changes: Mapping[str, Any] | None = None) -> Outcome:
        """Train on a question's environment, with changed arguments if some are given."""
        envs: list[ProbeEnv] = []

        def make() -> ProbeEnv:
            envs.append(question.env(*self._spaces))
            return envs[-1]

        examined = question.env(*self._spaces)
        latest: list[tuple[answers.Answer, int]] = []

        def judge(run: Any) -> bool | None:
            latest.append((question.judge(run.model, examined), run.timesteps))
            return True if latest[-1][0].right else None

        watch = self._train(make, judge, changes or {})
        answer, steps = latest[-1] if latest else (answers.Answer(False, "it learned nothing in the time", 0.0), 0)
        words = watch.failure or answer.words
        nearer = bool(latest) and answer.score - latest[0][0].score > NEARER and not watch.failure
        varied = answers.exploration(max(envs, key=lambda env: len(env.taken)))
        outcome = Outcome(answer.right and not watch.failure, words, steps, varied, nearer)
        if changes is None:
            self.outcomes[question.rule] = outcome
        return outcome

    def fit(self, obs: np.ndarray, space: spaces.Box) -> Outcome:
        """Train on a fixed batch of the run's observations [B, ...] with a known value for each."""
        rows = obs.reshape(len(obs), -1).astype(np.float64)
        centered = rows - rows.mean(0)
        direction = np.linalg.svd(centered, full_matrices=False)[2][0]
        along = centered @ direction
        rewards = np.tanh(2.0 * along / max(along.std(), 1e-12))
        latest: list[tuple[float, int]] = []

        def judge(run: Any) -> bool | None:
            values = answers.values_of(run.model, obs)
            latest.append((1.0 - float(np.square(values - rewards).mean() / rewards.var()), run.timesteps))
            return True if latest[-1][0] > 0.3 else None

        watch = self._train(lambda: RecordedEnv(space, obs, rewards, self._spaces[0]), judge, {})
        share, steps = latest[-1] if latest else (0.0, 0)
        words = (
            watch.failure or f"{share:.0%} of the variance of {len(obs)} fixed values was fitted after {steps} steps"
        )
        return Outcome(share > 0.3, words, steps, None)

    def _train(self, make: Any, judge: Any, changes: Mapping[str, Any]) -> Watch:
        algorithm = self.algorithm
        learn = {**self._config["learn"], **changes}
        of_update = steps_of_update(algorithm, learn, self._count)
        steps = REPLAY_STEPS if of_update == 1 else max(ROLLOUT_STEPS, LEAST_UPDATES * of_update)
        watch = Watch(judge, self._seconds, steps // JUDGED)
        env = as_vec_env([make] * self._count, 0, not algorithm.dict_observations)
        try:
            try_out(self._config, env, arguments(algorithm, learn, steps), watch)
        finally:
            env.close()
        return watch


def first_failure(trials: Trials, deadline: float, recurrent: bool) -> Iterator[tuple[Question, Outcome]]:
    """Ask the questions; yield the first of each kind that is answered wrong, the simplest of its kind.

    A right answer to a harder question answers the simpler ones too.
    """
    kinds = [
        *([answers.VALUES] if trials.algorithm.values else []),
        answers.ACTIONS,
        *([answers.MEMORIES] if recurrent else []),
    ]
    for hard, simple in kinds:
        if time.process_time() > deadline:
            return
        outcome = trials.ask(hard)
        if outcome.right:
            continue
        for question in simple:
            simpler = trials.ask(question) if time.process_time() < deadline else Outcome(True, "", 0, None)
            if not simpler.right:
                yield question, simpler
                break
        else:
            yield hard, outcome


def exploration_signs(trials: Trials) -> Iterator[Sign]:
    """Judge whether actions varied while the trials learned."""
    varied = [outcome.varied for outcome in trials.outcomes.values() if outcome.varied is not None]
    if varied and max(varied) < UNEXPLORED:
        yield Sign("unexplored", f"{number(max(varied))} of the actions for one observation vary", 0.94)


def culprits(
    trials: Trials, question: Question, differences: list[Difference], deadline: float
) -> Iterator[tuple[Difference, Outcome]]:
    """Yield the differences from known settings that make a failed question answered right, one at a time."""
    for difference in differences:
        if time.process_time() > deadline:
            return
        outcome = trials.ask(question, {difference.name: difference.known})
        if outcome.right:
            yield difference, outcome
            return


def culprit_sign(question: Question, failed: Outcome, difference: Difference, outcome: Outcome) -> Sign:
    """Return the sign of an argument that alone makes the difference between right and wrong."""
    value = (
        f"{difference.name}={difference.value}: {failed.words}; with {difference.known} ({difference.origin}): "
        f"{outcome.words}, in {outcome.steps:,} steps"
    )
    causes = (cause_of(difference), "settings")
    return Sign("culprit", value, 0.97, tuple(dict.fromkeys(causes)), f"--{difference.name}={difference.known}")


def doubted(sign: Sign) -> Sign:
    """Lower the certainty of a culprit where actions did not vary: right actions may be luck."""
    return sign if "no_exploration" in sign.causes else sign._replace(certainty=min(sign.certainty, LUCK))
