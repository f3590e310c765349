"""Names of Stable-Baselines3 and their counterparts here, for errors and for MIGRATION.md."""

from collections.abc import Collection
from typing import NamedTuple


class Twin(NamedTuple):
    """An algorithm of Stable-Baselines3 or sb3-contrib and the nearest one here.

    Attributes:
        here: name of the algorithm here.
        arguments: the names here by the name there, separated by spaces; a note may follow a comma.
        differs: defaults that differ in kind, not only in number.
    """

    here: str
    arguments: dict[str, str]
    differs: str = ""


LEARNING_RATE = {"learning_rate": "lr"}
OFF_POLICY = {
    "buffer_size": "replay_size",
    "learning_starts": "start_steps update_after, the random steps and the steps before the first gradient step",
    "train_freq": "update_every",
    "n_steps": "n_step",
}
# SAC and TD3 average their targets and count gradient steps as Spinning Up does.
AVERAGED = OFF_POLICY | {"gradient_steps": "num_update", "tau": "polyak, which is 1 - tau"}

TWINS = {
    "PPO": Twin(
        "ppo2",
        LEARNING_RATE
        | {
            "n_steps": "nsteps",
            "batch_size": "nminibatches, which is n_steps * num_env / batch_size",
            "n_epochs": "noptepochs",
            "gae_lambda": "lam",
            "clip_range": "cliprange",
            "clip_range_vf": "cliprange_vf, False for None",
            "normalize_advantage": "normalize_advantages",
        },
        "values are clipped unless `cliprange_vf=False`; `ppo` has a `target_kl`",
    ),
    "A2C": Twin(
        "a2c",
        LEARNING_RATE | {"n_steps": "nsteps", "rms_prop_eps": "epsilon", "normalize_advantage": "normalize_advantages"},
        "`lrschedule='constant'` and `ent_coef=0` are the defaults there; advantages are those of n-step returns",
    ),
    "DQN": Twin(
        "deepq",
        LEARNING_RATE
        | {
            "target_update_interval": "target_network_update_freq",
            "max_grad_norm": "grad_norm_clipping, of each variable's gradient",
            "n_steps": "n_step",
        },
        "`double_q=False, dueling=False, hiddens=()` make it plain",
    ),
    "SAC": Twin(
        "sac",
        LEARNING_RATE | AVERAGED | {"ent_coef": "alpha"},
        "`alpha='auto', update_every=1, num_update=1` are the defaults there",
    ),
    "TD3": Twin(
        "td3",
        {"learning_rate": "pi_lr q_lr"}
        | AVERAGED
        | {
            "action_noise": "act_noise, its deviation",
            "target_policy_noise": "target_noise",
            "target_noise_clip": "noise_clip",
        },
    ),
    "DDPG": Twin(
        "ddpg",
        {"learning_rate": "actor_lr critic_lr"}
        | OFF_POLICY
        | {"action_noise": "noise_type, such as normal_0.1", "gradient_steps": "nb_train_steps"},
        "`critic_l2_reg=0, normalize_observations=False` are the defaults there",
    ),
    "TRPO": Twin(
        "trpo_mpi",
        {
            "learning_rate": "vf_stepsize",
            "n_steps": "timesteps_per_batch",
            "target_kl": "max_kl",
            "cg_max_steps": "cg_iters",
            "n_critic_updates": "vf_iters",
            "gae_lambda": "lam",
        },
    ),
}

# Counterparts of arguments that all algorithms have there: in Python, on the command line.
OF_ALL = {
    "policy_kwargs": (
        "give the network's arguments, as in learn('dense', env, hidden_sizes=[64, 64])",
        "give the network's arguments, as in --network=dense --hidden_sizes=[64,64]",
    ),
    "tensorboard_log": (
        "call logger.configure(directory, ['stdout', 'csv', 'tensorboard'])",
        "give --log_path=DIR --log_format=stdout,csv,tensorboard",
    ),
    "verbose": (
        "call logger.configure(directory, ['csv']) for a run that prints nothing",
        "give --log_format=csv for a run that prints nothing",
    ),
}


# Counterparts of calls and classes, for MIGRATION.md.
OTHERS = {
    "`make_vec_env(id, n_envs=4, vec_env_cls=SubprocVecEnv, monitor_dir=...)`": (
        "`make_vec_env(id, num_env=4, worker='subproc', logger_dir=...)` of `tfbaselines.envs.make`"
    ),
    "`VecNormalize(venv, norm_obs=, norm_reward=, clip_obs=, clip_reward=)`": (
        "`VecNormalize(venv, ob=, ret=, clipob=, cliprew=)` of `tfbaselines.envs.wrappers`; its statistics are saved "
        "with the model, and the command line wraps MuJoCo's environments in it"
    ),
    "`VecFrameStack(venv, n_stack=4)`": "`VecFrameStack(venv, nstack=4)` of `tfbaselines.envs.vec`",
    "`'MlpPolicy'`, `'CnnPolicy'`, `'MlpLstmPolicy'`": "`network='mlp'` or `'dense'`, `'cnn'`, `'lstm'`",
    "`'MultiInputPolicy'`": (
        "none is needed: every network takes several parts; the encoder of images among them is `vis_encode_type` of "
        "`deepq`, `sac` and `td3`"
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
}


def name_here(name: str, known: Collection[str], form: str) -> str | None:
    """Return a hint with the name here of an argument of Stable-Baselines3; None if there is none.

    Args:
        name: name of the argument there.
        known: names of the arguments here.
        form: format of an argument, '{}=' in Python and '--{}' on the command line.
    """
    if name in OF_ALL:
        return OF_ALL[name][form.startswith("--")]
    for twin in TWINS.values():
        names, _, note = twin.arguments.get(name, "").partition(", ")
        if names and set(names.split()) <= set(known):
            here = " and ".join(map(form.format, names.split()))
            return f"Stable-Baselines3's {name} is {here} here" + (f", {note}" if note else "")
    return None
