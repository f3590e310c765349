"""Signs in policies, learners and configurations: each on a faulty and on a healthy toy."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.algs import get
from tfbaselines.envs.probing import ENVIRONMENTS, ProbeActionEnv, ProbeLaterRewardEnv
from tfbaselines.errors import UsageError
from tfbaselines.probes import answers, comparison, configuration, learner, policy, series, trial
from tfbaselines.probes.settings import cause_of, differences
from tfbaselines.training.build import saved_model

BOX = spaces.Box(-1.0, 1.0, (1,), np.float32)
SMALL = {"num_hidden": 16, "num_layers": 1}
PPO2 = {"nsteps": 64, "noptepochs": 8, "nminibatches": 2, "lr": 1e-2, "gamma": 0.9} | SMALL


def run_of(alg, learn, network="mlp", env="CartPole-v1", **more):
    return {
        "alg": alg,
        "network": network,
        "learn": learn,
        "env": {"env": env, "num_env": 4, "normalize": False} | more,
    }


def trials_of(alg, learn, actions=None, seconds=10.0, **more):
    return configuration.Trials(run_of(alg, learn, **more), BOX, actions or spaces.Discrete(2), seconds)


def test_probe_environments_have_their_answers():
    for name, kind in ENVIRONMENTS.items():
        env = gymnasium.make(f"tfbaselines.envs.probing:tfbaselines/{name}-v0")
        obs, _ = env.reset(seed=3)
        steps, total, over = 0, 0.0, False
        cues = [float(obs[0])]
        while not over:
            obs, reward, over, _, _ = env.step(1 if cues[0] > 0 or kind is ProbeActionEnv else 0)
            steps, total = steps + 1, total + reward
        assert steps == kind.length
        assert total == (cues[0] if name == "ProbeObservation" else 1.0)
    pictures = ProbeLaterRewardEnv(spaces.Discrete(4), spaces.Box(0, 255, (8, 8, 1), np.uint8))
    assert {int(pictures.show(number).max()) for number in (-1.0, 0.0, 1.0)} == {28, 128, 228}


def test_a_healthy_configuration_answers_and_a_faulty_one_is_mended_by_the_argument_at_fault():
    trials = trials_of("ppo2", PPO2)
    assert not list(configuration.first_failure(trials, np.inf, recurrent=False))
    assert not list(configuration.exploration_signs(trials))
    # Without a discount above 0 the first step has no value.
    short = trials_of("ppo2", PPO2 | {"gamma": 0.0}, seconds=1.5)
    failed = short.ask(answers.LATER)
    assert not failed.right
    known = [one for one in differences(run_of("ppo2", {"gamma": 0.0})) if one.name == "gamma"]
    ((culprit, better),) = configuration.culprits(short, answers.LATER, known, np.inf)
    sign = configuration.culprit_sign(answers.LATER, failed, culprit, better)
    assert sign.causes[0] == "discount_small"
    assert sign.remedy == "--gamma=0.98"


def test_the_simplest_failed_question_of_each_kind_is_named():
    class Trials:
        algorithm = get("ppo2")

        def __init__(self, wrong):
            self.wrong = wrong
            self.asked = []

        def ask(self, question, changes=None):
            self.asked.append(question)
            return configuration.Outcome(question not in self.wrong, "", 0, None)

    def named(*wrong, **more):
        return [
            question
            for question, _ in configuration.first_failure(
                Trials(wrong), **{"deadline": np.inf, "recurrent": True} | more
            )
        ]

    everything = [*answers.VALUES[1], answers.LATER, answers.ACTION, answers.FROM_OBSERVATION, answers.MEMORY]
    assert named() == []
    assert named(*everything) == [answers.CONSTANT, answers.ACTION, answers.MEMORY]
    assert named(answers.LATER, answers.FROM_OBSERVATION) == [answers.LATER, answers.FROM_OBSERVATION]
    assert named(*everything, deadline=0.0) == []


def test_no_exploration():
    still, moving = ProbeActionEnv(), ProbeActionEnv()
    still.taken = [(0.0, 1.0)] * 300
    moving.taken = [(0.0, float(i % 2)) for i in range(300)]
    assert answers.exploration(still) == 0
    assert answers.exploration(moving) == 1
    assert answers.exploration(ProbeActionEnv()) is None


def test_units_and_deviations():
    env = SimpleNamespace(observation_space=BOX, action_space=BOX)
    obs = np.linspace(-1, 1, 50, dtype=np.float32)[:, None]
    for deviation, rules in ((-6.9, ["first_deviation"]), (-0.5, [])):
        model = saved_model(get("ppo2"), "mlp", env, SMALL | {"activation": "relu", "init_logstd": deviation})
        share = policy.spread(model.policy, model.actor, obs)
        assert [sign.rule for sign in policy.deviation_signs(share)] == rules
    assert not list(policy.unit_signs(policy.units(model.policy, obs), fresh=True))
    biases = [variable for variable in model.policy.network.trainable_variables if "bias" in variable.path]
    biases[0].assign(np.full(16, -100.0, np.float32))
    (dead,) = policy.unit_signs(policy.units(model.policy, obs), fresh=True)
    assert dead.rule == "dead_units"
    assert dead.certainty > 0.9


def test_actions_weights_and_memory():
    rng = np.random.default_rng(0)
    assert [sign.rule for sign in policy.action_signs(np.zeros(40, int), spaces.Discrete(2))] == ["one_action"]
    assert [sign.rule for sign in policy.action_signs(np.sign(rng.normal(size=(40, 1))), BOX)] == ["at_bounds"]
    assert not list(policy.action_signs(rng.uniform(-0.5, 0.5, (40, 1)), BOX))
    assert [sign.rule for sign in policy.weight_signs([np.array([np.nan])])] == ["weights"]
    env = SimpleNamespace(observation_space=BOX, action_space=spaces.Discrete(2))
    model = saved_model(get("ppo2"), "lstm", env, {"nlstm": 4})
    obs = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
    assert not list(policy.memory_signs(model.policy, model.actor, obs))
    for variable in model.policy.pi_layer.trainable_variables:
        variable.assign(np.zeros(variable.shape, np.float32))
    model.actor.refresh()
    assert [sign.rule for sign in policy.memory_signs(model.policy, model.actor, obs)] == ["memory"]


DEEPQ = {"learning_starts": 20, "batch_size": 8, "buffer_size": 500, "hiddens": [8], "total_timesteps": 1000} | SMALL
FAULTS = {
    ("target_frozen", "small_steps"): {"target_network_update_freq": 10**6, "lr": 1e-8},
    ("target_copied", "replay", "large_steps"): {"target_network_update_freq": 1, "buffer_size": 1, "lr": 3.0},
    (): {},
}


def test_a_learner_at_work():
    config = run_of("deepq", DEEPQ)
    for rules, changes in FAULTS.items():
        learn = DEEPQ | {"target_network_update_freq": 100} | changes
        record = learner.Record(None, most=320)
        with_steps = trial.arguments(get("deepq"), learn, 420)
        trial.try_out(config, "CartPole-v1", with_steps, trial.Watch(record, 20.0))
        found = {sign.rule for sign in learner.learner_signs(record) if sign.certainty > 0.7}
        assert found == set(rules)


def test_differences_from_known_settings():
    learn = {"lr": 0.1, "gamma": 0.98, "nsteps": 32, "log_interval": 4}
    (rate, *others) = differences(run_of("ppo2", learn))
    assert (rate.name, rate.known, cause_of(rate)) == ("lr", "linear_1e-3", "rate_large")
    assert rate.decades == pytest.approx(2)
    # Tuned arguments that the run leaves at their defaults.
    assert {one.name for one in others} == {"cliprange_vf", "value_network", "noptepochs", "nminibatches", "lam"}
    small = rate._replace(value=1e-7)
    assert cause_of(small) == "rate_small"
    config = run_of("ppo2", {})
    config["env"] |= {"env": "MountainCar-v0", "normalize": "rewards"}
    (scale,) = (one for one in differences(config) if one.of_env)
    assert (scale.name, scale.value, scale.known, cause_of(scale)) == (
        "normalize",
        "rewards",
        "both",
        "observation_scale",
    )
    scores = [(rate, comparison.Score(10.0, 1.0, 20), comparison.Score(50.0, 1.0, 20))]
    assert [sign.causes[0] for sign in comparison.effect_signs(scores)] == ["rate_large"]
    assert not list(comparison.effect_signs([(rate, comparison.Score(50.0, 1.0, 20), comparison.Score(10.0, 1.0, 20))]))


def test_culprits_of_trials_without_exploration_are_doubted():
    sign = configuration.Sign("culprit", "lr=1", 0.97, ("rate_large",))
    assert configuration.doubted(sign).certainty == configuration.LUCK
    assert configuration.doubted(sign._replace(causes=("no_exploration",))).certainty == 0.97


def test_a_population_that_no_trial_finishes_is_no_sign(monkeypatch):
    watch = trial.Watch
    monkeypatch.setattr(trial, "Watch", lambda record, seconds: watch(record, 0.3))
    patient = SimpleNamespace(algorithm=get("es"), config=run_of("es", {"num_agents": 10_000} | SMALL))
    with pytest.raises(UsageError, match="its population takes more episodes than the trial has"):
        list(series.learning(patient, np.inf))
