"""Every worker gets environments of its own, as many as the others, and one normalisation goes for all."""

from types import SimpleNamespace

import numpy as np
import pytest
from acer_small import identity, learn, weights
from helpers import vec

from tfbaselines.algs import acer
from tfbaselines.algs.acer.workers import make_workers, workers_environments
from tfbaselines.config.options import RunOptions
from tfbaselines.envs import tiny
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.parallel.mpi import Communicator
from tfbaselines.policy.actor import make_actor


class TwoRanks(Communicator):
    """What mpirun -np 2 would give."""

    size = 2


def plain(count=1, seed=0):
    return vec(lambda: tiny.BoxIdentityEnv((2,), episode_len=8), count, seed)


def normalized(count=1, seed=0):
    return VecNormalize(plain(count, seed))


def environments(env, num_workers=1, make_env=None, comm=None):
    with workers_environments(env, num_workers, RunOptions(make_env=make_env), comm or Communicator()) as envs:
        return envs


def refused(*args, **kwargs):
    """The one line with which it is refused."""
    with pytest.raises(ValueError) as error:
        environments(*args, **kwargs)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_one_worker_has_what_was_given():
    env = plain()
    assert environments(env) == [env] and not env.closed


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("num_workers", [1, 3])
def test_a_list_has_the_environments_of_every_worker(num_workers, kind):
    """The default of num_workers stands for the list's length."""
    given = kind(plain() for _ in range(3))
    envs = environments(given, num_workers, make_env=pytest.fail)
    assert envs == list(given) and not any(env.closed for env in envs)


@pytest.mark.parametrize("listed", [False, True])
def test_what_is_missing_is_made(listed):
    first, asked = plain(), []

    def make_env(worker):
        asked.append(worker)
        return plain(seed=worker)

    given = [first] if listed else first
    envs = environments(given, 3, make_env)
    assert asked == [1, 2]
    assert envs[0] is first and [env.closed for env in envs] == [False, True, True]
    # The caller's list stays the caller's.
    assert given == ([first] if listed else first)


def test_no_worker_is_refused():
    assert "num_workers=0 is not valid: at least 1" in refused(plain(), 0)
    assert "workers=0 is not valid: at least 1" in refused([])


def test_workers_without_environments_are_refused():
    assert "num_workers=2 is not valid: env holds the environments of 1: give a list" in refused(plain(), 2)
    # Which of the others' a further worker's should be like is not clear.
    for make_env in (None, pytest.fail):
        for num_workers in (2, 4):
            assert f"num_workers={num_workers} is not valid: env holds the environments of 3" in refused(
                [plain(), plain(), plain()], num_workers, make_env
            )


@pytest.mark.parametrize("counts", [(1, 2), (2, 2, 1)])
def test_workers_with_unequal_numbers_of_environments_are_refused(counts):
    assert str(list(counts)) in refused([plain(count) for count in counts])
    unequal = plain(1)
    assert "[2, 1]" in refused(plain(2), 2, make_env=lambda worker: unequal)
    assert unequal.closed


@pytest.mark.parametrize("turn", [1, -1])
def test_workers_of_which_some_are_normalised_are_refused(turn):
    assert "some are not" in refused([plain(), normalized()][::turn])


def test_several_workers_under_mpirun_are_refused():
    """Before anything is made."""
    assert "num_workers=2 is not valid" in refused(plain(), 2, pytest.fail, TwoRanks())
    assert "run without mpirun" in refused([plain(), plain()], 1, None, TwoRanks())


def test_one_worker_under_mpirun_is_welcome():
    env = plain()
    assert environments([env], comm=TwoRanks()) == environments(env, comm=TwoRanks()) == [env]


def statistics(env):
    return [(rms.mean, rms.var, rms.count) for rms in (env.ob_rms, env.ret_rms)]


@pytest.mark.parametrize("made", [False, True])
def test_all_workers_scale_by_the_same_statistics(made):
    if made:
        envs = environments(normalized(), 3, lambda worker: normalized(seed=worker))
    else:
        envs = environments([normalized(seed=seed) for seed in range(3)])
    before = envs[0].ob_rms.count
    for env in envs:
        env.reset()
        for _ in range(5):
            env.step(np.ones((1, 2), np.float32))
    assert envs[0].ob_rms.count == pytest.approx(before + 3 * 6)
    assert envs[0].ret_rms.count == pytest.approx(before + 3 * 5)
    for env in envs[1:]:
        np.testing.assert_equal(statistics(env), statistics(envs[0]))
    # What one of them restores, all of them have.
    envs[0].restore_normalization({"ob": {"mean": np.full(2, 7.0), "var": np.ones(2), "count": 1.0}})
    np.testing.assert_array_equal(envs[2].ob_rms.mean, [7.0, 7.0])


def test_the_environments_of_other_runs_keep_their_own_statistics():
    (one,) = environments(normalized())
    (other,) = environments(normalized())
    one.reset()
    assert one.ob_rms.count > other.ob_rms.count


def make_team(count, **arguments):
    """Workers of one run, whose model writes down what it learns from."""
    env = plain()
    config = acer.Config.of({"nsteps": 4, "num_hidden": 4, "replay_start": 4, "buffer_size": 8} | arguments)
    run = SimpleNamespace(config=config, comm=Communicator(), rng=np.random.default_rng(0), rates=lambda: {"lr": 0.5})
    policy = acer.make_policy("mlp", env, config)
    run.model = SimpleNamespace(policy=policy, actor=make_actor(policy), observe=lambda seen: None, learnt=[])

    def train(lr, batch, rng, replayed):
        run.model.learnt.append((lr, batch["rewards"], rng, replayed))
        return {"loss": float(len(run.model.learnt))}

    run.model.train = train
    envs = [env, *(plain(seed=seed) for seed in range(1, count))]
    return run, make_workers(run, run.model, envs)


def test_a_worker_learns_from_new_experience_then_from_the_replay():
    run, (worker,) = make_team(1, replay_ratio=30)
    statistics, _ = worker.turn()
    # Of learning from what was just collected, not of what was replayed after it.
    assert statistics == {"loss": 1.0}
    first, *replayed = run.model.learnt
    assert first[0] == 0.5 and first[1].shape == (1, 4) and first[2] is worker.rng and not first[3]
    assert replayed and all(one[3] for one in replayed)


def test_several_workers_have_generators_and_actors_of_their_own_and_share_a_lock():
    run, workers = make_team(3)
    assert len({id(worker.rng) for worker in workers} | {id(run.rng)}) == 4
    assert len({worker.rng.random() for worker in workers}) == 3
    assert len({id(worker._access) for worker in workers}) == 1
    held = {(lock, update): locks(lock, update) for lock in (True, False) for update in (None, True, False)}
    assert held[True, None] == held[True, True] == (False, True, True)
    assert held[False, None] == held[False, False] == (False, False, False)
    assert held[True, False] == (True, True, False) and held[False, True] == (True, False, True)


def locks(lock, lock_update):
    """Whether gradients and changes have contexts of their own, and which of the two are locks."""
    _, (worker, _) = make_team(2, lock=lock, lock_update=lock_update)
    access = worker._access
    return access.apart, *(hasattr(context, "acquire") for context in (access.computing(), access.changing()))


def test_gradients_and_changes_have_locks_of_their_own(eager):
    """The step in two parts is the step in one; no lock is held in the other one's part."""
    whole, apart, none = (
        weights(learn([identity()], updates, lock_update=update, replay_start=0).policy)
        for updates, update in ((6, True), (6, False), (0, True))
    )
    np.testing.assert_allclose(apart, whole, atol=1e-5)
    assert np.abs(whole - none).max() > 1e-3
    run, (worker, _) = make_team(2, replay_ratio=0, lock_update=False)

    def train_apart(computing, changing, lr, batch, rng, replayed):
        with computing:
            assert computing.locked()
        with changing:
            assert not computing.locked()
        return {"loss": 3.0}

    run.model.train_apart = train_apart
    assert worker.turn()[0] == {"loss": 3.0}


def test_a_saved_worker_draws_on_from_where_it_stood():
    _, (_, worker) = make_team(2)
    worker.turn()
    saved = worker.state()
    expected = worker.rng.random(3)
    _, (_, resumed) = make_team(2)
    resumed.restore(saved)
    np.testing.assert_array_equal(resumed.rng.random(3), expected)
    # Older versions' checkpoints lack the generator.
    resumed.restore({name: value for name, value in saved.items() if name != "rng"})


def test_a_worker_of_several_acts_by_the_parameters_of_now():
    run, workers = make_team(2, replay_ratio=0)
    obs = np.ones((1, 2), np.float32)
    for variable in run.model.policy.trainable_variables:
        variable.assign(variable + 1.0)
    workers[1].turn()
    run.model.actor.refresh()
    expected = run.model.actor.choose(obs, None, np.ones(1, bool), None)[0]
    np.testing.assert_allclose(workers[1]._actor.choose(obs, None, np.ones(1, bool), None)[0], expected, rtol=1e-6)


def test_no_worker_copies_parameters_while_another_changes_them(monkeypatch):
    _, workers = make_team(2, replay_ratio=0)
    held = []
    monkeypatch.setattr(workers[1]._actor, "refresh", lambda: held.append(workers[1]._access.changing().locked()))
    workers[1].turn()
    assert held == [True]


def test_nothing_is_replayed_before_there_is_enough():
    run, (worker,) = make_team(1, replay_ratio=50, replay_start=8)
    worker.turn()
    assert len(run.model.learnt) == 1
    worker.turn()
    assert len(run.model.learnt) > 10


def test_rewards_are_clipped_before_they_are_learnt_from():
    for clip in (None, 0.25):
        run, (worker,) = make_team(1, reward_clip=clip, replay_ratio=50)
        worker.turn()
        largest = max(np.abs(rewards).max() for _, rewards, _, _ in run.model.learnt)
        assert (largest == 0.25) == (clip is not None)
