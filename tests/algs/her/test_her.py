"""What is particular to her: its cycles, exploration, demonstrations, statistics, arguments; and that it learns."""

import os
import signal

import gymnasium
import numpy as np
import pytest
from helpers import vec
from small_environments import Goals
from small_runs import joined, learn, own_identity, rows, small, table, train, weights

from tfbaselines.algs import her, sac, td3
from tfbaselines.config.options import RunOptions
from tfbaselines.envs import tiny
from tfbaselines.envs.adapt import as_vec_env
from tfbaselines.policy.bounded import DeterministicHead
from tfbaselines.replay.hindsight import HindsightReplay
from tfbaselines.run import command as main
from tfbaselines.training.guards import Interrupted
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.testing import even_episodes

ID = "tfbaselines/PointReach-v0"
ON_COMMAND_LINE = f"tfbaselines.envs.tiny:{ID}"
QUICK = {"n_cycles": 10, "n_batches": 20, "hidden": 64, "layers": 2, "polyak": 0.9, "seed": 0}


def points(count=2, seed=0):
    return vec(lambda: tiny.PointReachEnv(), count, seed)


def success_rate(model, episodes=40):
    played = even_episodes(model, as_vec_env(ID, seed=77, flatten=False), episodes, deterministic=True)
    return np.mean([episode["is_success"] for episode in played])


def demonstrations(path, episodes=12, steps=15):
    """Straight ways from the middle to a goal."""
    rng = np.random.default_rng(1)
    goals = np.repeat(rng.uniform(-1, 1, (episodes, 1, 2)), steps + 1, axis=1)
    places, actions = [np.zeros((episodes, 2))], []
    for _ in range(steps):
        actions.append(np.clip((goals[:, 0] - places[-1]) / tiny.PointReachEnv.STEP, -1, 1))
        places.append(places[-1] + tiny.PointReachEnv.STEP * actions[-1])
    places = np.stack(places, axis=1)
    observed = {"obs/observation": places, "obs/achieved_goal": places, "obs/desired_goal": goals}
    np.savez(path, acs=np.stack(actions, axis=1), **observed)
    return path


# Cycles.


def test_a_cycle_is_an_episode_of_every_environment_and_some_gradient_steps(seen):
    model = learn("her", points(3), 2, n_batches=7, batch_size=5)
    assert [one.count for one in seen] == [7, 7]
    assert seen[0].block["rewards"].shape == (7, 5)
    assert model.replay.steps == 2 * 15


def test_targets_follow_at_a_cycles_end():
    steps = []

    def callback(run):
        steps.append([np.copy(variable.numpy()) for variable in run.model.variables()])

    model = learn("her", points(), 2, n_batches=3, polyak=0.75, run=RunOptions(callback=callback))
    count = len(model.policy.trainable_variables)
    first, second = steps
    for now, before, after in zip(second[:count], first[count:], second[count:], strict=True):
        np.testing.assert_allclose(after, 0.75 * before + 0.25 * now, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("strategy", "replay_k", "share"), [("future", 4, 0.8), ("future", 1, 0.5), ("none", 4, 0.0)])
def test_the_share_of_new_goals(strategy, replay_k, share, seen):
    learn("her", points(), 2, replay_strategy=strategy, replay_k=replay_k, n_batches=50, batch_size=40)
    block = seen[0].block
    # New goals are places on the way, which begins in the middle; in two dimensions none of these is a drawn goal.
    achieved = {
        tuple(row) for row in np.concatenate([b.block["next_obs"]["achieved_goal"] for b in seen]).reshape(-1, 2)
    }
    new = np.mean([tuple(row) in achieved for row in block["obs"]["desired_goal"].reshape(-1, 2)])
    assert new == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize(("gamma", "expected"), [(None, 1 - 1 / 15), (0.5, 0.5)])
def test_the_discount_is_that_of_the_episodes_length(gamma, expected, seen):
    learn("her", points(), 2, gamma=gamma)
    assert set(joined(seen, "discount")) == {np.float32(expected)}


@pytest.mark.parametrize(
    ("own", "bounds"),
    [({}, (-15.0, 0.0)), ({"clip_return": False}, (-100.0, 0.0)), ({"clip_pos_returns": False}, (-15.0, 100.0))],
)
def test_bounds_of_targets(own, bounds, eager, monkeypatch):
    found = {}
    make = her.make_update

    def recorded(policy, averaged, config, least_return, comm):
        found["update"] = make(policy, averaged, config, least_return, comm)
        return found["update"]

    monkeypatch.setattr("tfbaselines.algs.her.her.make_update", recorded)
    learn("her", points(), 1, n_batches=0, **own)
    obs = points(2).reset()
    batch = {"obs": obs, "next_obs": obs, "actions": np.zeros((2, 2), np.float32)}
    batch |= {"rewards": np.array([-100, 100], np.float32), "discount": np.zeros(2, np.float32)}
    assert found["update"].prepared(batch)["targets"].numpy() == pytest.approx(bounds, rel=1e-5)


@pytest.mark.parametrize(("name", "cycles"), [("FetchReach-v0", 10), ("FetchReachDense-v0", 10), ("Other-v0", 50)])
def test_cycles_in_an_epoch(name, cycles, monkeypatch):
    monkeypatch.setitem(gymnasium.registry, name, gymnasium.envs.registration.EnvSpec(name, tiny.PointReachEnv))
    env = as_vec_env(name, flatten=False)
    assert her.completed(her.Config(max_ep_len=15), env)[0].n_cycles == cycles
    assert her.completed(her.Config(max_ep_len=15, n_cycles=3), env)[0].n_cycles == 3


class Paid(tiny.PointReachEnv):
    """Pays 1 near the goal, and else nothing."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        return 1.0 + super().compute_reward(achieved_goal, desired_goal, info)


@pytest.mark.parametrize(
    ("make", "own", "told"), [(Paid, {}, 1), (Paid, {"clip_pos_returns": False}, 0), (None, {}, 0)]
)
def test_rewards_above_zero_are_warned_of(make, own, told, seen, tmp_path):
    train(tmp_path, "her", vec(make or tiny.PointReachEnv, 2), 4, batch_size=64, **own)
    assert (tmp_path / "log.txt").read_text().count("give clip_pos_returns=False") == told


# Exploration and statistics.


def test_exploration():
    head = DeterministicHead(tiny.PointReachEnv().action_space)
    rng, actions = np.random.default_rng(0), np.full((20_000, 2), 0.1, np.float32)
    chosen = her.explored(actions, head, rng, 0.2, 0.0)
    assert chosen.dtype == np.float32 and np.abs(chosen).max() <= 1.0
    assert chosen.mean() == pytest.approx(0.1, abs=0.01) and chosen.std() == pytest.approx(0.2, abs=0.01)
    random = her.explored(actions, head, rng, 0.0, 0.3)
    replaced = (random != np.float32(0.1)).any(axis=1)
    assert replaced.mean() == pytest.approx(0.3, abs=0.02)
    assert random[replaced].std() == pytest.approx(1 / np.sqrt(3), abs=0.02)


def test_statistics_are_of_new_goals_too():
    far = {"n_batches": 0, "replay_k": 1e6}
    model = learn("her", own_identity("her", 2), 20, **far)
    goals = model.policy.normalizer["desired_goal"]
    # Of actions nearly all over their bounds, not of the goal that is always desired.
    assert np.all(goals.std > 0.3)
    own = learn("her", own_identity("her", 2), 20, n_batches=0, replay_strategy="none")
    goals = own.policy.normalizer["desired_goal"]
    assert goals.mean == pytest.approx(Goals.DESIRED, abs=0.01) and np.all(goals.std < 0.05)


def test_what_the_networks_see():
    env = points()
    own = {"clip_obs": 2.0, "norm_clip": 1.0, "norm_eps": 0.5}
    obs = {"observation": [[9.0, 0.3]], "achieved_goal": [[1.0, 0.5]], "desired_goal": [[0.5, 0.25]]}
    obs = {name: np.array(part, np.float32) for name, part in obs.items()}
    # Statistics that saw nothing: mean 0 and the smallest deviation.
    for relative, goal in ((False, [1.0, 0.5]), (True, [-1.0, -0.5])):
        policy = her.make_policy("dense", env, her.Config(relative_goals=relative, **own))
        assert policy.rows_numpy(obs) == pytest.approx(np.array([[1.0, 0.6, *goal]]))
        seen = policy.preprocess(obs)
        assert np.concatenate([seen[name] for name in ("observation", "desired_goal")], 1) == pytest.approx(
            policy.rows_numpy(obs)
        )


def test_the_numpy_actor_acts_as_the_graph(eager):
    model = learn("her", points(), 3, relative_goals=True)
    obs = points(4, seed=9).reset()
    chosen = model.policy.head.mode(model.policy.act(model.policy.view(obs)))
    np.testing.assert_allclose(model.act(obs)[0], chosen, rtol=1e-4, atol=1e-5)


# Tests, and what is saved.


def test_rows_and_the_best_model(eager, tmp_path):
    env = {"eval_env": points(2, 50), "n_test_rollouts": 3, "save_path": str(tmp_path / "best")}
    train(tmp_path / "log", "her", points(), 4, **env)
    log = table(tmp_path / "log")
    assert log["epoch"].tolist() == [0, 1]
    assert log["test/episode"].tolist() == [6, 12] and log["train/episode"].tolist() == [4, 8]
    names = {f"stats_{kind}/{value}" for kind in "og" for value in ("mean", "std")}
    names |= {"test/success_rate", "test/mean_Q", "train/success_rate", "train/Q_loss", "train/pi_loss"}
    assert names <= set(log) and np.isfinite(log[sorted(names)].to_numpy()).all()
    loaded = learn("her", points(), 0, load_path=tmp_path / "best")
    assert loaded.policy.normalizer.state().keys() == {"observation", "desired_goal"}


def test_the_targets_actor_may_be_tested(eager, monkeypatch):
    tested = []
    act = PolicyModel.act
    monkeypatch.setattr(PolicyModel, "act", lambda self, *rest: tested.append(self.policy) or act(self, *rest))
    for polyak in (False, True):
        model = learn("her", points(), 2, eval_env=points(), n_test_rollouts=1, test_with_polyak=polyak)
        assert {*tested} == {model.averaged.policy if polyak else model.policy}
        tested.clear()


def test_a_run_stopped_within_an_epoch_goes_on_with_it(eager, tmp_path):
    def run(name, **kwargs):
        train(tmp_path / name, "her", points(), 3, n_cycles=3, **kwargs)
        return rows(tmp_path / name)

    def interrupt(run):
        if run.update == 2:
            os.kill(os.getpid(), signal.SIGINT)

    whole = run("whole")
    with pytest.raises(Interrupted):
        run("part", run=RunOptions(callback=interrupt))
    assert not (tmp_path / "part/progress.csv").read_text()
    assert run("part", run=RunOptions(resume=str(tmp_path / "part"))).equals(whole) and len(whole) == 1


# Arguments.


def test_overridden_parameters():
    config = her.Config(override_params={"n_cycles": 3, "Q_lr": 0.5, "bc_loss": True}, n_cycles=8)
    assert (config.n_cycles, config.Q_lr, config.bc_loss) == (3, 0.5, True)
    with pytest.raises(ValueError, match="unknown parameter of override_params 'n_cycle': did you mean 'n_cycles'"):
        her.Config(override_params={"n_cycle": 3})
    with pytest.raises(ValueError, match="polyak=2 is not valid: between 0 and 1"):
        her.Config(override_params={"polyak": 2})


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"max_ep_len": None}, "max_ep_len=None is not valid: give a number of steps"),
        ({"rollout_batch_size": 5}, "rollout_batch_size=5 is not valid: there are 2 environments"),
        ({"bc_loss": True, "demo_batch_size": 4}, "bc_loss=True is not valid: True with a demo_file"),
        ({"demo_file": "demo.npz"}, "bc_loss=False is not valid: True with a demo_file"),
        ({"bc_loss": True, "demo_file": "nowhere.npz", "batch_size": 256}, "demo_file='nowhere.npz' is not valid"),
        ({"q_filter": True}, "q_filter=True is not valid: needs bc_loss=True"),
        ({"bc_loss": True, "demo_batch_size": 8}, "demo_batch_size=8 is not valid: less than batch_size=8"),
        ({"replay_strategy": "past"}, "unknown replay_strategy 'past'"),
        ({"network": "conv_only", "layers": 2}, "network='conv_only' is not valid: 'dense' and 'mlp' have layers"),
    ],
)
def test_mistakes(own, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = {name: value for name, value in small("her").items() if name != "hidden_sizes"}
    with pytest.raises(ValueError, match=words) as error:
        her.learn(**{"network": "dense", "env": points(), "total_timesteps": 0} | arguments | own)
    assert "\n" not in str(error.value)


def test_environments_without_goals():
    with pytest.raises(ValueError, match="hindsight needs Dict observations of observation, achieved_goal"):
        her.learn("dense", vec(lambda: tiny.BoxIdentityEnv()))


@pytest.mark.parametrize("network", ["dense", "mlp"])
def test_layers_and_hidden_are_of_the_network(network):
    def shapes(**own):
        policy = her.make_policy(network, points(), her.Config.of(own))
        return [tuple(one.shape) for one in policy.acting_variables if one.name == "kernel"]

    assert shapes(layers=2, hidden=7) == [(4, 7), (7, 7), (7, 2)]
    assert shapes() == [(4, 256), (256, 256), (256, 256), (256, 2)]


def test_a_network_s_own_arguments_win():
    policy = her.make_policy("dense", points(), her.Config.of({"hidden_sizes": [5]}))
    assert [tuple(one.shape) for one in policy.acting_variables if one.name == "kernel"] == [(4, 5), (5, 2)]


# Demonstrations.


@pytest.mark.parametrize("q_filter", [False, True])
def test_the_last_rows_of_a_batch_are_demonstrations(q_filter, seen, tmp_path):
    own = {"bc_loss": True, "q_filter": q_filter, "demo_batch_size": 3, "num_demo": 12, "batch_size": 8, "n_batches": 6}
    learn("her", points(), 2, demo_file=str(demonstrations(tmp_path / "demo.npz")), **own)
    actions = seen[0].block["actions"]
    assert actions.shape == (6, 8, 2)
    with np.load(tmp_path / "demo.npz") as file:
        shown = {tuple(row) for row in file["acs"].astype(np.float32).reshape(-1, 2)}
    ours = np.array([[tuple(row) in shown for row in batch] for batch in actions])
    assert ours[:, 5:].all() and not ours[:, :5].any()


def test_statistics_take_in_demonstrations(seen, tmp_path):
    path = str(demonstrations(tmp_path / "demo.npz"))
    own = {"bc_loss": True, "demo_file": path, "num_demo": 12, "demo_batch_size": 3}
    counts = [
        learn("her", points(), 1, **arguments).policy.normalizer["observation"].state()["count"]
        for arguments in ({}, own)
    ]
    assert counts == [1 + 30, 1 + 30 + 12 * 15]


@pytest.mark.slow
def test_demonstrations_are_imitated(tmp_path):
    path = str(demonstrations(tmp_path / "demo.npz", 50))
    own = {"bc_loss": True, "demo_file": path, "num_demo": 50, "aux_loss_weight": 1.0, "prm_loss_weight": 0.0}
    # The replay in hindsight alone does not learn it in this time.
    model = her.learn("dense", as_vec_env(ID, seed=0, flatten=False), 600, **QUICK | own)
    assert success_rate(model) >= 0.8


# Learning.


@pytest.mark.slow
def test_her_learns_and_without_hindsight_it_does_not():
    env = as_vec_env(ID, seed=0, flatten=False)
    assert success_rate(her.learn("dense", env, 2000, **QUICK)) >= 0.9
    assert success_rate(her.learn("dense", env, 2000, replay_strategy="none", **QUICK)) <= 0.5


@pytest.mark.slow
@pytest.mark.parametrize(("alg", "steps"), [(sac, 2000), (td3, 3000)])
def test_hindsight_with_other_algorithms(alg, steps):
    own = {"hidden_sizes": [64, 64], "update_every": 50, "num_update": 25, "start_steps": 300, "update_after": 300}
    own |= {"gamma": 0.9, "polyak": 0.98, "seed": 0} | ({"alpha": 0.02} if alg is sac else {"act_noise": 0.2})
    model = alg.learn("dense", as_vec_env(ID, seed=0, flatten=False), total_timesteps=steps, replay="hindsight", **own)
    assert isinstance(model.replay, HindsightReplay)
    assert success_rate(model) >= 0.9


@pytest.mark.slow
def test_values_go_on_after_a_time_limit():
    """An actor that stands still never reaches the goal, which costs 1 / (1 - gamma), not what an episode costs."""
    own = {"replay_strategy": "none", "gamma": 0.9, "random_eps": 0.0, "noise_eps": 0.0}
    own |= {"pi_lr": 0.0, "Q_lr": 3e-3, "max_ep_len": 3, "polyak": 0.3}
    model = her.learn("dense", points(), 80 * 6, **QUICK | own)
    assert np.mean(model.value(points(50, 9).reset())) == pytest.approx(-10.0, rel=0.1)


# The command line.


def test_two_environments_on_the_command_line(eager, tmp_path):
    words = ["--alg=her", f"--env={ON_COMMAND_LINE}", "--seed=0", "--hidden_sizes=[8]", "--n_cycles=2", "--n_batches=1"]
    words += ["--n_test_rollouts=1", "--batch_size=4"]
    for own, count in ([], 2), (["--rollout_batch_size=3"], 3), (["--num_env=1"], 1):
        log = tmp_path / f"log{count}"
        assert main([*words, *own, f"--num_timesteps={2 * 15 * count}", f"--log_path={log}"]) == 0
        assert len(list(log.glob("*.monitor.csv"))) == count
        row = table(log).iloc[-1]
        assert (row["test/episode"], row["train/episode"]) == (count, 2 * count)


@pytest.mark.parametrize("alg", ["sac", "td3"])
def test_hindsight_on_the_command_line(alg, eager, capsys, tmp_path):
    words = [f"--alg={alg}", f"--env={ON_COMMAND_LINE}", "--hidden_sizes=[8]", "--start_steps=20", "--update_after=20"]
    words += ["--update_every=20", "--num_update=2", "--num_timesteps=80", "--num_test_episodes=0", "--seed=0"]
    assert main([*words, "--replay=hindsight", f"--log_path={tmp_path / 'log'}"]) == 0
    assert main([f"--resume={tmp_path / 'log'}", "--num_timesteps=120"]) == 0
    capsys.readouterr()
    mistakes = {
        "--replay_k=2": "replay_k=2.0 is not valid: needs replay='hindsight'",
        "--n_step=2 --replay=hindsight": "n_step=2 is not valid: 1 with replay='hindsight'",
        "--memory_size=4 --replay=hindsight": "replay='hindsight' is not valid: a policy without memory",
        "--env=Pendulum-v1 --replay=hindsight": "hindsight needs Dict observations of observation, achieved_goal",
    }
    for given, message in mistakes.items():
        assert main([*words, *given.split()]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.slow
def test_fetch_reach(tmp_path):
    """The original's bar, within three epochs."""
    pytest.importorskip("gymnasium_robotics")
    log = tmp_path / "log"
    assert main(["--alg=her", "--env=FetchReach-v4", "--num_timesteps=3000", "--seed=0", f"--log_path={log}"]) == 0
    assert table(log)["test/success_rate"].max() > 0.9
    assert (log / "0.0.monitor.csv").read_text().splitlines()[1] == "r,l,t,is_success"


def test_parameters_do_not_change_without_gradient_steps():
    start_, end = (weights(learn("her", points(), updates, n_batches=0).policy) for updates in (0, 2))
    np.testing.assert_array_equal(start_, end)
