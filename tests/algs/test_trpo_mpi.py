"""trpo_mpi, trpo and ppo1 end when they should; their options."""

import pytest
from small_environments import identity
from small_runs import rows

from tfbaselines.algs import ppo1, trpo, trpo_mpi
from tfbaselines.logs import logger

ALGORITHMS = {"trpo_mpi": trpo_mpi, "trpo": trpo, "ppo1": ppo1}
SMALL = {
    "trpo_mpi": {"timesteps_per_batch": 64, "max_iters": 3},
    "trpo": {"steps_per_epoch": 64, "epochs": 3, "train_v_iters": 2},
    "ppo1": {"timesteps_per_actorbatch": 64, "max_iters": 3, "optim_epochs": 2},
}
BATCH_COLUMNS = "EpLenMean EpRewMean EpThisIter EpisodesSoFar TimeElapsed TimestepsSoFar ev_tdlam_before"
COLUMNS = {
    "trpo_mpi": f"{BATCH_COLUMNS} entloss entropy meankl optimgain surrgain",
    "ppo1": f"{BATCH_COLUMNS} loss_ent loss_kl loss_pol_entpen loss_pol_surr loss_vf_loss",
    "trpo": "AverageEpRet AverageVVals BacktrackIters DeltaLossPi DeltaLossV EpLen Epoch KL LossPi LossV MaxEpRet "
    "MaxVVals MinEpRet MinVVals StdEpRet StdVVals Time TotalEnvInteracts fps",
}


def learn(name, env=None, **kwargs):
    return ALGORITHMS[name].learn("mlp", env or identity(), **{"seed": 0, "num_hidden": 8} | SMALL[name] | kwargs)


def train(directory, name, env=None, **kwargs):
    logger.configure(str(directory), ["csv"], resume=bool(kwargs.get("run") and kwargs["run"].resume))
    return learn(name, env, **kwargs)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_columns(tmp_path, name, eager):
    train(tmp_path, name)
    header = (tmp_path / "progress.csv").read_text().splitlines()[0]
    assert header == ",".join(sorted(COLUMNS[name].split()))


def test_npg_tries_one_step(tmp_path, eager):
    train(tmp_path, "trpo", algo="npg")
    assert "BacktrackIters" not in rows(tmp_path)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_policies_with_memory_are_refused(name):
    with pytest.raises(
        ValueError, match=rf"^network='lstm' is not valid: {name} trains no recurrent policies, take ppo2"
    ):
        ALGORITHMS[name].learn("lstm", identity(), nlstm=4, **SMALL[name])


@pytest.mark.parametrize("name", ["trpo_mpi", "ppo1"])
@pytest.mark.parametrize(
    ("limit", "updates"),
    [
        ({"max_iters": 4}, 4),
        ({"max_iters": 4, "total_timesteps": 0}, 4),
        ({"max_iters": 4, "total_timesteps": 128}, 2),
        # 6 episodes of 10 steps end in 64, 12 in 128.
        ({"max_iters": 0, "max_episodes": 7, "total_timesteps": None}, 2),
        ({"max_iters": 0, "total_timesteps": 200}, 3),
        ({"max_iters": 0, "total_timesteps": 0}, 0),
    ],
)
def test_the_run_ends_at_the_first_limit(name, limit, updates, eager):
    seen, schedule = [], {"schedule": "constant"} if name == "ppo1" else {}
    learn(name, callback=lambda names, _: seen.append(names["iters_so_far"]), **limit, **schedule)
    assert seen == list(range(updates))


@pytest.mark.parametrize(
    ("name", "argument", "value"),
    [
        ("ppo1", "optim_batchsize", 65),
        ("ppo1", "schedule", "quick"),
        ("ppo1", "adam_epsilon", 0),
        ("trpo_mpi", "max_kl", 0),
        ("trpo_mpi", "timesteps_per_batch", 0),
        ("trpo_mpi", "cg_iters", -1),
        ("trpo", "algo", "ngp"),
        ("trpo", "backtrack_coeff", 1.5),
    ],
)
def test_bad_arguments_are_named_in_one_line(name, argument, value):
    with pytest.raises(ValueError, match=r"valid|unknown") as error:
        learn(name, **{argument: value})
    assert "\n" not in str(error.value) and str(value) in str(error.value) and argument in str(error.value)
