"""The probes in their order; each yields the signs that it sees."""

import time
from collections.abc import Iterator

import numpy as np

from tfbaselines.demos import load_demonstrations
from tfbaselines.doctor.settings import number_of
from tfbaselines.envs.check import MISTAKE, check
from tfbaselines.envs.vec.observations import is_image
from tfbaselines.errors import UsageError
from tfbaselines.probes import (
    comparison,
    configuration,
    demonstrations,
    environment,
    learner,
    policy,
    trial,
    vectors,
    wrappers,
)
from tfbaselines.probes.examination import Probe
from tfbaselines.probes.patient import COMPARED, Patient, acted, timer
from tfbaselines.probes.prediction import dependence
from tfbaselines.probes.settings import differences
from tfbaselines.probes.signs import Sign
from tfbaselines.probes.walks import different_actions, fixed, persistent, walk

# Steps of check_env and of walks with a simple behavior.
CHECKED, SIMPLE = 300, 600
# Seconds of one training on a probe environment.
TRAINING = 20.0
# Differences from known settings that are tried out one at a time.
MOST_TRIED = 5
# Differences whose effect on short runs is compared, and seconds of one of these runs.
MOST_COMPARED, SHORT_RUN = 3, 12.0


def interface(patient: Patient, end: float) -> Iterator[Sign]:
    """Run check_env on the environment."""
    mistakes = [found.text for found in check(patient.make, CHECKED) if found.kind == MISTAKE]
    if mistakes:
        yield Sign("check_env", "; ".join(mistakes)[:300], 0.6)


def observations(patient: Patient, end: float) -> Iterator[Sign]:
    """Judge observations, rewards and ends of random steps."""
    random = patient.random_walk
    yield from environment.observation_signs(random)
    yield from environment.repeated_start(random)
    yield from environment.reset_signs(random)
    yield from environment.reward_signs(random, getattr(patient.spec, "reward_threshold", None), patient.limit)
    yield from environment.end_signs(random, patient.limit)


def horizon(patient: Patient, end: float) -> Iterator[Sign]:
    """Judge discount and rollout beside the length of episodes."""
    random = patient.random_walk
    gamma = getattr(patient.arguments, "gamma", None)
    length = float(np.mean(random.lengths)) if len(random.lengths) else float(len(random.rewards))
    yield from environment.horizon_signs(gamma, length, random, patient.limit)
    yield from environment.rollout_signs(getattr(patient.arguments, "nsteps", None), length)


def behaviors(patient: Patient, end: float) -> Iterator[Sign]:
    """Compare the returns of random, repeated and constant actions."""
    env = patient.make()
    try:
        returns = {"random": patient.random_walk.returns}
        for name, choose in [("repeated", persistent(env.action_space))] + [
            (f"always {action}", fixed(action)) for action in different_actions(env.action_space, 4)
        ]:
            returns[name] = walk(env, choose, SIMPLE, until=timer(max(0.1, (end - time.process_time()) / 4))).returns
    finally:
        env.close()
    yield from environment.return_signs(returns)


def actions(patient: Patient, end: float) -> Iterator[Sign]:
    """Take different actions in equal states, and fit what observations depend on."""
    env = patient.make()
    effects = []
    try:
        try:
            effects, equal = environment.experiments(env)
            yield from environment.effect_signs(effects, equal)
            yield from environment.bounds_signs(env)
        except environment.NotRepeatable:
            pass
        image = is_image(env.observation_space)
    finally:
        env.close()
    found = None if image else dependence(patient.random_walk)
    if found is not None:
        yield from environment.prediction_signs(found, [one for some in effects for one in some])


def around(patient: Patient, end: float) -> Iterator[Sign]:
    """Compare the environment with the innermost one."""
    found = wrappers.pairs(patient.make)
    yield from wrappers.wrapper_signs(found)
    yield from wrappers.reach_signs(patient.make)


def copies(patient: Patient, end: float) -> Iterator[Sign]:
    """Judge what the learner gets: sizes, copies, and ends by time limit."""
    count = int(patient.config["env"].get("num_env") or 1)
    env = vectors.copies_of(patient.config, min(vectors.COPIES, max(2, count)))
    try:
        obs, rewards = vectors.seen(env)
    finally:
        env.close()
    if count > 1:
        random = patient.random_walk
        yield from environment.copies_signs(obs, random.obs[random.first])
        yield from vectors.shared_signs(patient.make)
    late = obs[len(obs) // 2 :].reshape(-1, obs.shape[-1])
    if not is_image(env.observation_space):
        own = getattr(patient.arguments, "normalize_observations", False)
        yield from environment.size_signs(np.zeros_like(late) if own else late, rewards.ravel())
    env_type = patient.config["env"].get("env_type")
    if env_type in vectors.WITHOUT_LIMIT or "NoFrameskip" in str(patient.config["env"]["env"]):
        return
    limited = vectors.copies_of(patient.config, 4, max_episode_steps=vectors.LIMIT)
    try:
        yield from vectors.limit_signs(limited)
    finally:
        limited.close()


def acting(patient: Patient, end: float) -> Iterator[Sign]:
    """Judge the trained policy over observations of the environment."""
    env = patient.vector()
    try:
        model = patient.model(env)
        yield from policy.weight_signs(list(model.variables()))
        obs, likely, _ = acted(model, env, 1000, timer(min(15.0, end - time.process_time())))
        yield from policy.action_signs(likely, model.policy.action_space)
        if not isinstance(obs, np.ndarray):
            return
        chosen = obs[np.random.default_rng(0).permutation(len(obs))[: policy.MOST_ROWS]]
        if model.policy.recurrent:
            yield from policy.memory_signs(model.policy, model.actor, chosen)
            return
        yield from policy.unit_signs(policy.units(model.policy, chosen), fresh=False)
        yield from policy.spread_signs(policy.spread(model.policy, model.actor, chosen))
    finally:
        env.close()


def beginning(patient: Patient, end: float) -> Iterator[Sign]:
    """Judge the policy before training over observations of random steps."""
    env = patient.vector()
    try:
        fresh = patient.fresh(env)
        fresh.actor.refresh()
        obs = _compared(env)
        if obs is None or fresh.policy.recurrent:
            return
        yield from policy.unit_signs(policy.units(fresh.policy, obs), fresh=True)
        yield from policy.deviation_signs(policy.spread(fresh.policy, fresh.actor, obs))
    finally:
        env.close()


def learning(patient: Patient, end: float) -> Iterator[Sign]:
    """Train on the run's environment for a few updates, and judge how the parts of the learner behave."""
    if patient.algorithm.name in trial.OBSTACLES:
        raise UsageError(f"{patient.algorithm.name} does not learn from the environment's rewards")
    if patient.config["learn"].get("offline"):
        raise UsageError("it learns from a data set, and takes no steps in the environment")
    count = int(patient.config["env"].get("num_env") or 1)
    env = vectors.copies_of(patient.config, min(count, configuration.MOST_ENVS))
    try:
        learn = patient.config["learn"] | learner.one_step_at_a_time(patient.algorithm.config.arguments())
        of_update = trial.steps_of_update(patient.algorithm, learn, env.num_envs)
        steps = 3000 if of_update == 1 else 12 * of_update
        record = learner.Record(_compared(env), most=400 if of_update == 1 else 10)
        watch = trial.Watch(record, max(5.0, min(25.0, end - time.process_time() - 10)))
        trial.try_out(patient.config, env, trial.arguments(patient.algorithm, learn, steps), watch)
    finally:
        env.close()
    if watch.failure:
        yield Sign("training_not_finite", watch.failure, 0.8)
    if not record.counted and not patient.algorithm.values:
        raise UsageError("its population takes more episodes than the trial has")
    yield from learner.learner_signs(record)


def _compared(env: vectors.VecEnv) -> np.ndarray | None:
    obs = env.reset()
    if not isinstance(obs, np.ndarray):
        return None
    rows, rng = [obs], np.random.default_rng(0)
    while sum(map(len, rows)) < COMPARED:
        rows.append(env.step(np.stack([vectors.random_action(env.action_space, rng) for _ in range(env.num_envs)]))[0])
    return np.concatenate(rows)


def configured(patient: Patient, end: float) -> Iterator[Sign]:
    """Train the configuration on probe environments; where it fails, look for the argument that makes it fail."""
    if reason := trial.obstacle(patient.config):
        raise UsageError(reason)
    env = patient.make()
    observation_space, action_space = env.observation_space, env.action_space
    env.close()
    trials = configuration.Trials(patient.config, observation_space, action_space, TRAINING)
    recurrent = "lstm" in str(patient.config["network"]) or bool(patient.config["learn"].get("memory_size"))
    known = [one for one in differences(patient.config) if not one.of_env][:MOST_TRIED]
    found: list[Sign] = []
    for question, outcome in configuration.first_failure(trials, end, recurrent):
        yield Sign(question.rule, outcome.words, 0.4 if outcome.nearer else 0.65)
        for difference, better in configuration.culprits(trials, question, known, end):
            patient.culprit = difference.name
            found.append(configuration.culprit_sign(question, outcome, difference, better))
    unexplored = list(configuration.exploration_signs(trials))
    yield from unexplored
    yield from (configuration.doubted(sign) if unexplored else sign for sign in found)


def fixed_batch(patient: Patient, end: float) -> Iterator[Sign]:
    """Fit the values of a fixed batch of the run's observations."""
    if reason := trial.obstacle(patient.config) or ("" if patient.algorithm.values else "it has no values"):
        raise UsageError(reason)
    env = vectors.copies_of(patient.config, 4)
    try:
        obs = _compared(env)
        space, action_space = env.observation_space, env.action_space
    finally:
        env.close()
    if obs is None or not np.ptp(obs, axis=0).any():
        raise UsageError("its observations are not one array, or never change")
    trials = configuration.Trials(patient.config, space, action_space, TRAINING)
    outcome = trials.fit(obs[-32:], space)
    if not outcome.right:
        yield Sign("fixed_batch", outcome.words, 0.55)


def compared(patient: Patient, end: float) -> Iterator[Sign]:
    """Make short runs with single arguments set to their known values, unless one was found to be the culprit."""
    if reason := trial.obstacle(patient.config):
        raise UsageError(reason)
    if patient.culprit:
        return
    known = differences(patient.config)[:MOST_COMPARED]
    yield from comparison.effect_signs(list(comparison.effects(patient.config, known, SHORT_RUN, end)))


def shown(patient: Patient, end: float) -> Iterator[Sign]:
    """Judge demonstrations or a data set: returns, first observations, actions, and what bc learned of them."""
    source = demonstrations.source_of(patient.arguments)
    if source is None:
        raise UsageError("the run has none")
    env = patient.vector()
    try:
        spaces_of = env.observation_space, env.action_space
        episodes = load_demonstrations(source.path, *spaces_of, source.argument)
        clones = patient.algorithm.name == "bc"
        yield from demonstrations.return_signs(episodes, patient.random_walk, source.argument != "offline")
        if is_image(spaces_of[0]) or len(spaces_of[0].shape or ()) != 1:
            return
        yield from demonstrations.start_signs(episodes, patient.random_walk)
        yield from demonstrations.action_signs(episodes, spaces_of[1])
        model = patient.fresh(env) if clones else None
        if model is None or model.policy.recurrent:
            return
        rate = number_of(patient.arguments.lr)
        yield from demonstrations.batch_signs(model, episodes, rate or 0.0)
        used = episodes.first(patient.arguments.traj_limitation)
        yield from demonstrations.imitation_signs(patient.model(env), used, patient.arguments.held_out)
    finally:
        env.close()


PROBES = (
    Probe("the interface", interface, 20),
    Probe("observations, rewards and ends", observations, 20),
    Probe("horizon", horizon, 15),
    Probe("simple behaviors", behaviors, 10),
    Probe("effects of actions", actions, 30),
    Probe("wrappers", around, 20),
    Probe("copies and normalization", copies, 20),
    Probe("policy", acting, 40),
    Probe("first policy", beginning, 20),
    Probe("demonstrations", shown, 30),
    Probe("learner", learning, 50),
    Probe("configuration", configured, 150),
    Probe("fixed batch", fixed_batch, 40),
    Probe("known settings", compared, 70),
)
