"""The section of MIGRATION.md for scripts of Stable-Baselines3 that are rewritten."""

from tfbaselines.settings.stable_baselines3 import TWINS

OTHERS = {
    "`make_vec_env(id, n_envs=4, vec_env_cls=SubprocVecEnv, monitor_dir=...)`": (
        "`make_vec_env(id, num_env=4, worker='subproc', logger_dir=...)` of `tfbaselines.envs.make`"
    ),
    "`VecNormalize(venv, norm_obs=, norm_reward=, clip_obs=, clip_reward=)`": (
        "`VecNormalize(venv, ob=, ret=, clipob=, cliprew=)` of `tfbaselines.envs.normalize`; its statistics are saved "
        "with the model, and the command line wraps MuJoCo's environments in it"
    ),
    "`VecFrameStack(venv, n_stack=4)`": "`VecFrameStack(venv, nstack=4)` of `tfbaselines.envs.vec`",
    "`'MlpPolicy'`, `'CnnPolicy'`, `'MlpLstmPolicy'`": "`network='mlp'` or `'dense'`, `'cnn'`, `'lstm'`",
    "`'MultiInputPolicy'`": (
        "none is needed: every network takes several parts; the encoder of images among them is `vis_encode_type` of "
        "`deepq`, `sac` and `td3`"
    ),
    "`policy_kwargs=dict(net_arch=[64, 64], activation_fn=...)`": (
        "`hidden_sizes=[64, 64], activation=...` of `network='dense'`; `num_layers=2, num_hidden=64` of `'mlp'`"
    ),
    "`model.learn(total_timesteps=N)`": "`model = learn(network, env, total_timesteps=N)`",
    "`model.predict(obs, deterministic=True)`, `model.save(path)`": (
        "the same; algorithms that flatten Dict and Tuple observations take "
        "`gymnasium.spaces.flatten(env.observation_space, obs)`"
    ),
    "`PPO.load(path)`": (
        "`tfbaselines.load(log_directory)`, or `learn(network, env, total_timesteps=0, load_path=path)`"
    ),
    "`evaluate_policy(model, env, n_eval_episodes=10)`": (
        "`python -m tfbaselines.evaluate DIR --episodes 10 --deterministic`, or `tfbaselines.evaluate.evaluate`"
    ),
    "`EvalCallback`, `CheckpointCallback`, `StopTrainingOnRewardThreshold`, `StopTrainingOnNoModelImprovement`": (
        "`EvaluateEvery`, `SaveEvery`, `StopAt`, `StopWithoutGain` of `tfbaselines.callbacks`, and flags of the "
        "command line"
    ),
    "`tensorboard_log=DIR`": "`--log_format=stdout,csv,tensorboard`",
}

EXAMPLE = """from tfbaselines.algs import ppo2
from tfbaselines.envs.make import make_vec_env

# env = make_vec_env("CartPole-v1", n_envs=4)
# model = PPO("MlpPolicy", env, n_steps=128, batch_size=128, n_epochs=4, clip_range=0.2)
# model.learn(total_timesteps=2048)
env = make_vec_env("CartPole-v1", num_env=4)
model = ppo2.learn("mlp", env, total_timesteps=2048, nsteps=128, nminibatches=4, noptepochs=4, cliprange=0.2)

action, state = model.predict(env.reset(), deterministic=True)
"""


def section() -> list[str]:
    """The lines of the page's section."""
    lines = [
        "## Stable-Baselines3\n",
        "Its scripts are rewritten, not run: an algorithm is a function that trains and returns the model.\n",
        f"```python\n{EXAMPLE}```\n",
        "Arguments that have another name here, with the name there in brackets; others that both have are the same:\n",
        "| there | here | arguments | differs |",
        "|---|---|---|---|",
    ]
    for there, twin in TWINS.items():
        arguments = "; ".join(_renamed(old, new) for old, new in twin.arguments.items())
        lines.append(f"| `{there}` | `{twin.here}` | {arguments} | {twin.differs} |")
    lines += ["", "| there | here |", "|---|---|", *(f"| {old} | {new} |" for old, new in OTHERS.items())]
    return lines


def _renamed(old: str, new: str) -> str:
    names, _, note = new.partition(", ")
    here = " and ".join(f"`{name}`" for name in names.split())
    return f"{here} (`{old}`)" + (f", {note}" if note else "")
