"""Behaviors that train together: seeds, files, resuming, commands, errors; docs/howto/multi-agent.md has scores."""

import numpy as np
import pytest
from small_runs import TIMES

from tfbaselines import load, multi
from tfbaselines.algs import ppo2
from tfbaselines.envs.tiny import Target1DEnv
from tfbaselines.errors import UsageError
from tfbaselines.logs import logger
from tfbaselines.logs.logger import read_csv
from tfbaselines.multi.__main__ import main
from tfbaselines.multi.tiny import GuidedEnv, guided

GUIDED = "--env=tfbaselines.multi.tiny:guided"
PPO2 = {"alg": "ppo2", "num_timesteps": 96, "nsteps": 12, "nminibatches": 2, "num_hidden": 4, "log_interval": 1}
SAC = {
    "alg": "sac",
    "num_timesteps": 160,
    "update_every": 20,
    "num_update": 2,
    "steps_per_epoch": 40,
    "start_steps": 20,
    "update_after": 20,
    "batch_size": 8,
    "hidden_sizes": [4],
}


def table(directory):
    found = read_csv(directory / "progress.csv")
    return found.drop(columns=[name for name in TIMES if name in found])


def weights(model):
    return np.concatenate([variable.numpy().ravel() for variable in model.policy.trainable_variables])


def test_behaviors_with_trainers_of_their_own(tmp_path, eager):
    """Another algorithm each; a seed gives one run; models load, act together, and training goes on."""
    behaviors = {"guide": PPO2, "runner": SAC}
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        models = multi.learn(guided, behaviors, num_env=2, seed=seed, log_path=tmp_path / name)
    for behavior in behaviors:
        one, same, other = (table(tmp_path / name / behavior) for name in ("a", "b", "c"))
        assert len(one) >= 2 and one.equals(same) and not one.equals(other)
        # A row for each agent of each copy.
        assert len(list((tmp_path / "a" / behavior).glob("0.*.monitor.csv"))) == 4
        assert np.array_equal(weights(load(tmp_path / "c" / behavior)), weights(models[behavior]))
    by_path, by_model = (
        multi.evaluate(guided, given, episodes=4, deterministic=True) for given in (tmp_path / "c", models)
    )
    assert by_path == by_model and min(len(result["returns"]) for result in by_path.values()) >= 4
    trained = {name: settings | {"num_timesteps": 192} for name, settings in behaviors.items()}
    more = multi.learn(guided, trained, num_env=2, seed=2, log_path=tmp_path / "c", resume=True)
    assert table(tmp_path / "c/guide")["misc/total_timesteps"].tolist() == [48, 96, 144, 192]
    assert not np.array_equal(weights(more["runner"]), weights(models["runner"]))
    with pytest.raises(UsageError, match="holds a run: continue it with --resume"):
        multi.learn(guided, behaviors, log_path=tmp_path / "c")


class Alone:
    """One agent that never pauses, in the parallel form."""

    possible_agents = ("only",)

    def __init__(self):
        self._env = Target1DEnv()
        self._env.reset(seed=5)
        self.agents = []

    def observation_space(self, agent):
        return self._env.observation_space

    def action_space(self, agent):
        return self._env.action_space

    def reset(self, seed=None, options=None):
        self.agents = ["only"]
        obs, info = self._env.reset()
        return {"only": obs}, {"only": info}

    def step(self, actions):
        *step, info = self._env.step(actions["only"])
        self.agents = [] if step[2] or step[3] else ["only"]
        return *({"only": one} for one in step), {"only": info}

    def close(self):
        pass


def test_one_agent_alone_learns_what_it_learns_in_an_environment_of_its_own(tmp_path, eager):
    own = {name: value for name, value in PPO2.items() if name not in ("alg", "num_timesteps")}
    multi.learn(Alone, {"only": PPO2 | {"seed": 3}}, log_path=tmp_path)
    env = Target1DEnv()
    env.reset(seed=5)
    with logger.scoped_configure(str(tmp_path / "single"), ["csv"]):
        # learn seeds an environment that it gets, so one that is made already goes in as a vector environment.
        from tfbaselines.envs.monitor import Monitor
        from tfbaselines.envs.vec import DummyVecEnv

        venv = DummyVecEnv([lambda: Monitor(env, None, allow_early_resets=True)])
        ppo2.learn("mlp", venv, total_timesteps=96, seed=3, **own)
    one, other = table(tmp_path / "only"), table(tmp_path / "single")
    assert len(one) == 8 and one["eprewmean"].notna().any()
    np.testing.assert_allclose(one[other.columns].to_numpy(float), other.to_numpy(float), rtol=1e-4, atol=1e-6)


TRAINERS = """
default: {alg: ppo2, num_timesteps: 48, nsteps: 12, nminibatches: 1, num_hidden: 4, log_interval: 1}
runner: {alg: sac, hidden_sizes: [4], update_every: 12, num_update: 1, start_steps: 12, update_after: 12}
"""


def test_the_command_trains_evaluates_and_resumes(tmp_path, eager, capsys):
    config, log = tmp_path / "trainers.yaml", tmp_path / "log"
    config.write_text(TRAINERS)
    words = [GUIDED, f"--config={config}", f"--log_path={log}"]
    assert main([*words, "--seed=0", "--env_kwargs.pairs=1"]) == 0
    out = capsys.readouterr().out
    assert "guide: steps 48" in out and "--evaluate=20" in out and f"tfbaselines.plot {log}/runner" in out
    assert main([GUIDED, f"--log_path={log}", "--evaluate=2", "--deterministic"]) == 0
    assert "guide: 2 episodes of agents  mean" in capsys.readouterr().out
    assert main([*words, "--resume", "--num_timesteps=72", "--env_kwargs.pairs=1"]) == 0
    assert table(log / "guide")["misc/total_timesteps"].iloc[-1] == 72


def test_a_stop_saves_every_behavior(tmp_path, eager):
    """A signal, as a batch system sends it: each trainer ends after its update."""
    import os
    import signal

    from tfbaselines.training.guards import Interrupted

    class Stopping(GuidedEnv):
        def step(self, actions):
            if self.steps == 30:
                os.kill(os.getpid(), signal.SIGTERM)
            self.steps += 1
            return super().step(actions)

        steps = 0

    with pytest.raises(Interrupted, match="stopped by SIGTERM: checkpoint saved in"):
        multi.learn(Stopping, {"default": PPO2 | {"num_timesteps": 960}}, seed=0, log_path=tmp_path)
    for name in ("guide", "runner"):
        assert table(tmp_path / name)["misc/total_timesteps"].iloc[-1] == 72
        assert [path.name for path in (tmp_path / name / "checkpoints").iterdir() if path.name.isdigit()][-1] == "00003"


def test_errors_are_one_line_that_names_the_behavior(tmp_path, capsys):
    for settings, words in (
        ({"guid": PPO2}, "unknown behavior 'guid': did you mean 'guide'"),
        ({"guide": PPO2}, "behavior 'runner' has no settings: give them, or those of 'default'"),
        ({"default": {"alg": "td3"}}, "alg=td3 trains no behaviors of several agents: ppo2 or sac"),
        ({"default": PPO2 | {"load_path": "model"}}, "load_path is for one agent alone"),
        ({"default": PPO2 | {"nsteps": 0}}, "nsteps"),
        ({"default": 3}, "the settings of behavior 'default' are no dict"),
    ):
        with pytest.raises(ValueError, match=words):
            multi.learn(guided, settings)
    config = tmp_path / "t.yaml"
    for text, words, message in (
        ("runner: {nstep: 3}", [], "section runner: unknown argument --nstep of ppo2 with network mlp"),
        ("runner: {num_env: 3}", [], "section runner: num_env is no setting of a behavior"),
        ("runner: {alg: a2c}", [], "section runner: alg=a2c trains no behaviors"),
        ("default: {}", ["--env=tfbaselines.multi.tiny:guide"], "a module with guide"),
        ("default: {}", ["--env_kwargs.pair=3"], "cannot be made with {'pair': 3}"),
        ("default: {}", [f"--log_path={tmp_path / 'none'}", "--evaluate=3"], "the directory of trained behaviors"),
    ):
        config.write_text(text)
        assert main([GUIDED, f"--config={config}", *words]) == 2
        err = capsys.readouterr().err
        assert message in err and err.count("\n") == 1


def test_a_task_of_pettingzoo_runs(tmp_path, eager):
    """Two behaviors by the agents' own names, whose observations are numbers."""
    rps = pytest.importorskip("pettingzoo.classic.rps_v2")
    behaviors = {"player_0": PPO2 | {"num_timesteps": 48}, "player_1": SAC | {"num_timesteps": 40}}
    models = multi.learn(lambda: rps.parallel_env(max_cycles=5), behaviors, seed=0, log_path=tmp_path)
    assert models.keys() == {"player_0", "player_1"}
    assert table(tmp_path / "player_0")["eplenmean"].iloc[-1] == 5
