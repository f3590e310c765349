"""rlib's classes: their names and defaults on ours, and the whole way from training to films."""

import gymnasium
import pytest
from loops import for_each

from tfbaselines.algs import ALGORITHMS, get
from tfbaselines.cli.command_line import parse
from tfbaselines.cli.sections import tuned_sections
from tfbaselines.compat import rlib
from tfbaselines.errors import UsageError
from tfbaselines.logs.logger import read_csv

SMALL = {"hidden_sizes": [8]}
POLE = {"id": "CartPole-v1"}
RUNS = {
    rlib.PPO: (POLE, {"num_envs": 2, "num_steps_per_iter": 32, "total_timesteps": 128, "num_updates_per_iter": 1}),
    rlib.DeepQLearning: (POLE, {"num_time_steps": 128, "learning_starts": 50, "max_total_reward": 9}),
    rlib.DDPG: ({"id": "Pendulum-v1", "g": 9.0}, {"num_episodes": 4, "learning_starts": 20, "max_episode_length": 20}),
    rlib.EvolutionStrategy: (POLE, {"num_agents": 4, "num_iterations": 4, "max_episode_length": 12}),
    rlib.QLearning: (POLE, {"num_iterations": 4, "max_episode_length": 12}),
}


class Half(gymnasium.RewardWrapper):
    def reward(self, reward):
        return reward / 2


@pytest.mark.parametrize("kind", RUNS, ids=lambda kind: kind.__name__)
def test_a_run_trains_tests_plots_and_is_filmed(kind, tmp_path, eager):
    env, own = RUNS[kind]
    counts = "num_test_agents" if kind is rlib.PPO else "num_test_episodes"
    every = 64 if kind in (rlib.PPO, rlib.DeepQLearning) else 2
    agents = [{"grid_size": 4} if kind is rlib.QLearning else SMALL] * len(kind.agents)
    more = {"test_every": every, counts: 1, "save_folder": tmp_path, "verbose": False, "envs_wrappers": [Half]}
    make = lambda: kind(env, *agents, **own, **more)
    model = make()
    with pytest.raises(UsageError, match=r"has no model yet: call train\(\) or load\(path\)"):
        model.test()
    assert model.train() is model
    mean, std = model.test(3, seed=5)
    assert (mean, std) == model.test(3, seed=5) and std >= 0
    # Wrappers are in training and in tests: rewards are halves.
    assert kind is rlib.DDPG or (2 * mean * 3) == pytest.approx(round(2 * mean * 3))
    assert len(read_csv(model.save_folder / "progress.csv")) > 0
    model.save(tmp_path / "saved")
    again = make().load(tmp_path / "saved")
    assert again.save_folder.name == "run_1" and again.test(3, seed=5) == (mean, std)
    if kind in (rlib.DeepQLearning, rlib.EvolutionStrategy, rlib.DDPG):
        # The others show plots and films.
        return
    assert model.test(1, seed=5, save_video=True, video_path=str(tmp_path / "one"))[1] == 0
    assert len(list((tmp_path / "one").iterdir())) == 1
    model.save_plots()
    assert (model.plots_folder / "plot.png").stat().st_size > 1000
    # A model at each of two tests.
    films = model.save_videos()
    assert len(films) == 2 and all("iter_" in film for film in films)


def test_episodes_end_at_the_largest_length_and_return(tmp_path, eager):
    own = {"num_time_steps": 100, "learning_starts": 50, "test_every": 50, "num_test_episodes": 1, "verbose": False}
    for bound, name in (({"max_episode_length": 6}, "l"), ({"max_total_reward": 6}, "r")):
        model = rlib.DeepQLearning(POLE, SMALL, **own, **bound, save_folder=tmp_path / name).train()
        lines = (model.save_folder / "0.0.monitor.csv").read_text().splitlines()[2:]
        assert {line.split(",")[1] for line in lines} == {"6"}
        assert model.test(2)[0] == 6.0


@for_each("kind", RUNS)
def test_every_name_reaches_an_argument(kind):
    """The defaults are valid for our algorithm, and each name of the tables is one of rlib's and one of ours."""
    env, _ = RUNS[kind]
    ours = get(kind.alg).config.arguments()
    assert set(kind.names) <= set(kind.defaults) and set(kind.names.values()) <= set(ours)
    learn = kind(env).learn_arguments()
    assert set(learn) <= set(ours) and learn["seed"] == 42


def test_names_on_ours():
    learn = rlib.PPO(
        POLE, learning_rate=1e-3, clip_value_loss=False, num_envs=2, num_steps_per_iter=64
    ).learn_arguments()
    assert (learn["lr"], learn["cliprange_vf"], learn["nminibatches"]) == ("linear_0.001", False, 2)
    learn = rlib.DeepQLearning(POLE, epsilon_greedy=0.3, epsilon_decay=0.9, main_target_update=70).learn_arguments()
    named = ("epsilon_start", "epsilon_decay", "exploration_final_eps", "target_network_update_freq")
    assert [learn[name] for name in named] == [0.3, 0.9, 0.01, 70]
    learn = rlib.EvolutionStrategy(POLE, max_total_reward=500, stop_max_score=True).learn_arguments()
    assert learn["stop_max_score"] == 500 and learn["mirrored"] is False
    learn = rlib.DDPG({"id": "Pendulum-v1"}, num_episodes=3, learning_starts=100).learn_arguments()
    assert learn["total_timesteps"] == 100 + 3 * 200 and learn["nb_rollout_steps"] == 200


@for_each(
    ("make", "words"),
    [
        (lambda: rlib.PPO(POLE, num_env=3), "unknown argument of PPO 'num_env': did you mean 'num_envs'?"),
        (lambda: rlib.PPO("CartPole-v1"), "env_kwargs='CartPole-v1' is not valid: a dict with the environment's 'id'"),
        (lambda: rlib.DeepQLearning(POLE, SMALL, SMALL), "takes env_kwargs, agent_kwargs, and others by name"),
        (lambda: rlib.DeepQLearning(POLE, discount=2), "gamma=2 is not valid"),
        (lambda: rlib.PPO(POLE, SMALL, {"hidden_sizes": [9]}).network_arguments(), "differs from actor_kwargs"),
        (lambda: rlib.EvolutionStrategy(POLE, stop_max_score=True), "needs max_total_reward"),
        (lambda: rlib.QLearning(POLE, {"grid": 3}), "did you mean 'grid_size'?"),
        (lambda: rlib.PPO(POLE).test(0), "num_episodes=0 is not valid: at least 1"),
    ],
)
def test_mistakes_are_one_line(make, words):
    with pytest.raises(UsageError) as caught:
        make()
    assert words in str(caught.value) and "\n" not in str(caught.value)


@for_each("kind", RUNS)
def test_the_tuned_set_has_the_same_defaults(kind):
    args = parse({"alg": kind.alg, "env": RUNS[kind][0]["id"]} | tuned_sections(kind.alg)["rlib"], ALGORITHMS)
    ours = get(kind.alg).config
    learn = kind(RUNS[kind][0]).learn_arguments()
    if kind is rlib.DDPG:
        # Its cycle is the environment's longest episode.
        learn["nb_rollout_steps"] = args.learn["nb_rollout_steps"]
    same = args.learn.keys() & learn.keys()
    given, expected = (ours.of({name: one[name] for name in same}) for one in (args.learn, learn))
    rates = given.schedules().keys() & same
    assert [given.schedules()[name](1.0) for name in rates] == [expected.schedules()[name](1.0) for name in rates]
    assert [name for name in same - rates if getattr(given, name) != getattr(expected, name)] == [] and len(same) > 5
    # All others have our own defaults.
    assert {name for name in learn if learn[name] != ours.arguments()[name].default} <= (
        args.learn.keys() | {"seed", "total_timesteps", "nb_epoch_cycles"}
    )
