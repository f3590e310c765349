"""Table of the import paths of baselines and Spinning Up, with the places of their names in this package.

tfbaselines.compat makes modules from it, and MIGRATION.md is written from it.
"""

from dataclasses import dataclass, field

from tfbaselines.algs import NAMES
from tfbaselines.config.stable_baselines3 import TWINS


@dataclass(frozen=True)
class Port:
    """A module of the originals.

    Attributes:
        names: names, separated by spaces, by the module here that has them; 'old=new' if the name here is another.
        rest: module here with all other public names.
        instead: alternatives by name, for names without a counterpart.
        nothing: alternative for any other name.
        same: module here that takes the place of the whole module.
        call: 'module:function' to run when the module is called.
        note: remark on `rest` for MIGRATION.md.
    """

    names: dict[str, str] = field(default_factory=dict)
    rest: str | None = None
    instead: dict[str, str] = field(default_factory=dict)
    nothing: str | None = None
    same: str | None = None
    call: str | None = None
    note: str = ""

    def places(self) -> dict[str, str]:
        """Return 'module:name' here by the original's name; '.' as the name stands for the module."""
        places = {}
        for module, names in self.names.items():
            for one in names.split():
                old, _, new = one.partition("=")
                places[old] = module if new == "." else f"{module}:{new or old}"
        return places

    def everything(self) -> list[str]:
        """List all names of the row."""
        return [*self.places(), *self.instead]


def instead(names: str, what: str) -> dict[str, str]:
    """Give several names the same alternative."""
    return dict.fromkeys(names.split(), what)


SPINNING_UP = ("vpg", "trpo", "ppo", "ddpg", "td3", "sac")

KERAS = "write the network with Keras layers, see README, 'Add a network'"
RETURNS = "returns are tfbaselines.rollout.rollout.n_step_returns"
NO_SESSION = "TensorFlow 2 has no sessions and placeholders: call the model (step, act, value, save, load)"
NO_MPI_ADAM = (
    "the algorithms average gradients over the ranks of mpirun themselves; see tfbaselines.learn.engine.Engine"
)
SAVED = "tfbaselines.load(path) loads the run's model"
RUNNER = "tfbaselines.rollout.rollout.Runner(env, policy, actor, nsteps, rng)"
RETURNS_OR_RUNNER = "tfbaselines.rollout.rollout collects, tfbaselines.rollout.rollout.gae estimates advantages"
HINDSIGHT = "tfbaselines.replay.hindsight.HindsightReplay"
REGISTRY = "python -m tfbaselines.bench table --suite atari10m runs the published tables"


def algorithm(
    name: str,
    absent: dict[str, str] | None = None,
    names: dict[str, str] | None = None,
    note: str = "",
    defaults: bool = False,
    **more: Port,
) -> dict[str, Port]:
    """Make the rows of an algorithm's package and of baselines' module of the same name.

    Args:
        name: name of the algorithm.
        absent: alternatives by name (Port.instead).
        names: names by module (Port.names).
        note: remark for MIGRATION.md (Port.note).
        defaults: the package has a module of defaults by type of environment.
        more: rows of other modules in the package.
    """
    call = f"compat.spinup:{name}" if name in SPINNING_UP else None
    module = Port(rest=f"algs.{name}.{name}", call=call, instead=absent or {}, names=names or {}, note=note)
    if defaults:
        more["defaults"] = Port(nothing=f"tfbaselines.algs.get('{name}').config.defaults_for('atari')")
    return {name: module, f"{name}.{name}": module} | {f"{name}.{child}": port for child, port in more.items()}


def model_of(name: str) -> dict[str, str]:
    """Give the alternative to an algorithm's class Model."""
    return {"Model": f"{name}.learn(network, env, ...) trains; the model that it returns acts"}


def script_of(name: str) -> Port:
    """Make the row of a script that trains with one algorithm."""
    return Port(nothing=f"python -m tfbaselines.run --alg={name} --env=ID ...")


# Names of the modules of baselines.common that baselines.common exports too.
CONSOLE = {"fmt_row": "logger.logkv and logger.dumpkvs print tables", "timed": "with logger.profile_kv(name): ..."}
DATA_SET = instead("Dataset iterbatches", "tfbaselines.training.on_policy.minibatches(rng, rows, size, epochs)")
MATH = {
    "discount_with_boundaries": RETURNS,
    "explained_variance_2d": "tfbaselines.rollout.rollout.explained_variance of each column",
}
MISC = {
    "zipsame": "zip(..., strict=True)",
    "EzPickle": "gymnasium.utils.EzPickle",
    "pretty_eta": "str(datetime.timedelta(seconds=n))",
}
VEC_ENV = "VecEnv VecEnvWrapper VecEnvObservationWrapper CloudpickleWrapper"
VEC_ENV_ERRORS = "AlreadySteppingError NotSteppingError"


BASELINES: dict[str, Port] = {
    "logger": Port(same="logs.logger"),
    "run": Port(
        names={"run": "main"},
        instead={
            "train": "learn(network, env, ...) of an algorithm, or main(['--alg=ppo2', ...])",
            "build_env": "tfbaselines.common.cmd_util.make_vec_env, or tfbaselines.envs.make.build_env(config)",
            "get_env_type": "tfbaselines.envs.env_type_of(env_id)",
            "get_learn_function": "tfbaselines.algs.get(alg).learn",
            "get_learn_function_defaults": "tfbaselines.algs.get(alg).config.defaults_for(env_type)",
            "get_default_network": "tfbaselines.algs.get(alg).default_network(env_type)",
            "parse_cmdline_kwargs": "tfbaselines.common.cmd_util.parse_unknown_args",
            "configure_logger": "logger.configure(directory)",
        },
    ),
    "bench": Port(
        names={"envs.monitor": "Monitor load_results"},
        instead=instead("register_benchmark list_benchmarks get_benchmark get_task", REGISTRY),
    ),
    "bench.monitor": Port(
        names={"envs.monitor": "Monitor ResultsWriter LoadMonitorResultsError get_monitor_files load_results"}
    ),
    "bench.benchmarks": Port(nothing=REGISTRY),
    "results_plotter": Port(
        nothing="tfbaselines.plot_util.load_results and plot_results, or python -m tfbaselines.plot DIR"
    ),
    **algorithm(
        "a2c",
        absent=model_of("a2c"),
        runner=Port(instead={"Runner": RUNNER}),
        utils=Port(instead={"discount_with_dones": RETURNS}, nothing=KERAS),
    ),
    **algorithm(
        "acer",
        defaults=True,
        buffer=Port(instead={"Buffer": "acer.learn makes its replay, see tfbaselines.algs.acer.replay"}),
    ),
    **algorithm(
        "acktr",
        absent=model_of("acktr"),
        defaults=True,
        kfac=Port(nothing="acktr.learn(network, env, ...); its optimiser is tfbaselines.algs.acktr.kfac.Kfac"),
    ),
    **algorithm(
        "deepq",
        absent=instead("build_act build_train", "deepq.learn(env, network) acts and learns in compiled functions"),
        names={
            "compat.baselines": "wrap_atari_dqn",
            "algs.deepq.buffers": "ActWrapper load_act ReplayBuffer PrioritizedReplayBuffer ConstantSchedule "
            "LinearSchedule PiecewiseSchedule SumSegmentTree MinSegmentTree",
        },
        note="`load_act` raises, and names `learn(network, env, total_timesteps=0, load_path=path)` and "
        "`tfbaselines.load(path)`",
        defaults=True,
        replay_buffer=Port(names={"algs.deepq.buffers": "ReplayBuffer PrioritizedReplayBuffer"}),
        models=Port(nothing="deepq.learn(env, network, hiddens=[256], dueling=True) builds the Q-network"),
        build_graph=Port(nothing="deepq.learn(env, network) acts and learns in compiled functions of its own"),
        utils=Port(nothing=NO_SESSION),
    ),
    **algorithm(
        "ddpg",
        noise=Port(
            names={"policy.noise": "AdaptiveParamNoiseSpec NormalActionNoise OrnsteinUhlenbeckActionNoise"},
            instead={"ActionNoise": "a class with __call__() and reset(); see tfbaselines.policy.noise"},
        ),
        memory=Port(names={"algs.deepq.buffers": "Memory"}),
        models=Port(nothing="ddpg.learn(network, env, layer_norm=True) builds actor and critic"),
        ddpg_learner=Port(nothing="ddpg.learn(network, env, ...) trains; the model that it returns acts"),
    ),
    **algorithm(
        "gail",
        mlp_policy=Port(names={"compat.baselines": "MlpPolicy"}),
        trpo_mpi=Port(
            names={"compat.baselines": "learn=gail_learn"},
            rest="algs.gail.gail",
            instead=instead("traj_segment_generator add_vtarg_and_adv", RETURNS_OR_RUNNER),
        ),
        run_mujoco=script_of("gail"),
    ),
    "gail.dataset.mujoco_dset": Port(names={"compat.baselines": "Mujoco_Dset"}),
    "gail.adversary": Port(nothing="gail.learn makes its discriminator; see tfbaselines.rewards.learned"),
    "gail.behavior_clone": Port(nothing="python -m tfbaselines.run --alg=bc, or gail.learn(pretrained=True)"),
    **algorithm(
        "her",
        rollout=Port(nothing="her.learn(network, env, ...) collects episodes; python -m tfbaselines.evaluate plays"),
        her_sampler=Port(nothing=HINDSIGHT),
        replay_buffer=Port(nothing=HINDSIGHT),
        normalizer=Port(instead={"Normalizer": "tfbaselines.policy.encoding.Normalizer"}),
        util=Port(nothing=NO_SESSION),
    ),
    "her.experiment.config": Port(nothing="its parameters are arguments: her.learn(network, env, n_cycles=50, ...)"),
    "ppo1": Port(rest="algs.ppo1.ppo1"),
    "ppo1.run_mujoco": script_of("ppo1"),
    "ppo1.pposgd_simple": Port(
        names={"compat.baselines": "learn=ppo1_learn"},
        instead=instead("traj_segment_generator add_vtarg_and_adv", RETURNS_OR_RUNNER),
    ),
    "ppo1.mlp_policy": Port(names={"compat.baselines": "MlpPolicy"}),
    "ppo1.cnn_policy": Port(names={"compat.baselines": "CnnPolicy"}),
    **algorithm(
        "ppo2",
        absent={
            "Runner": RUNNER,
            "constfn": "a number as it is: ppo2.learn(network, env, lr=3e-4)",
            "safemean": "numpy.mean(xs) if len(xs) else numpy.nan",
        },
        defaults=True,
        microbatched_model=Port(nothing="smaller minibatches: ppo2.learn(network, env, nminibatches=...)"),
        model=Port(names={"algs.ppo2.ppo2": "Model"}),
        runner=Port(instead={"Runner": RUNNER}),
        policies=Port(nothing="name the network: ppo2.learn(network='mlp', env=env), 'cnn', 'lstm' or 'cnn_lstm'"),
    ),
    **algorithm(
        "trpo_mpi",
        absent=instead("traj_segment_generator add_vtarg_and_adv", RETURNS_OR_RUNNER),
        defaults=True,
    ),
    "common": Port(
        names={
            "rollout.returns": "explained_variance discount",
            "logs.statistics": "colorize",
            "compat.baselines": "set_global_seeds boolean_flag",
        },
        instead=CONSOLE | DATA_SET | MATH | MISC,
    ),
    "common.cg": Port(instead={"cg": "tfbaselines.learn.natural_gradient.conjugate_gradient"}),
    "common.console_util": Port(names={"logs.statistics": "colorize"}, instead=CONSOLE),
    "common.dataset": Port(instead=DATA_SET),
    "common.math_util": Port(names={"rollout.returns": "explained_variance discount"}, instead=MATH),
    "common.misc_util": Port(names={"compat.baselines": "set_global_seeds boolean_flag"}, instead=MISC),
    "common.plot_util": Port(same="plot.plot_util"),
    "common.atari_wrappers": Port(
        names={
            "envs.atari": "make_atari wrap_deepmind NoopResetEnv FireResetEnv EpisodicLifeEnv MaxAndSkipEnv "
            "ClipRewardEnv WarpFrame FrameStack ScaledFloatFrame LazyFrames",
            "envs.wrappers": "TimeLimit",
        },
    ),
    "common.wrappers": Port(names={"envs.wrappers": "TimeLimit ClipActionsWrapper=ClipActions"}),
    "common.cmd_util": Port(
        names={
            "envs.make": "make_env",
            "compat.baselines": "make_vec_env arg_parser common_arg_parser parse_unknown_args",
        },
        instead=instead(
            "make_mujoco_env make_robotics_env", "make_env(env_id, env_type, seed=seed, logger_dir=logger.get_dir())"
        )
        | {"make_atari_env": "make_vec_env(env_id, 'atari', num_env, seed)"}
        | instead("atari_arg_parser mujoco_arg_parser robotics_arg_parser", "common_arg_parser()"),
    ),
    "common.distributions": Port(
        names={
            "compat.distributions": "make_pdtype PdType CategoricalPdType MultiCategoricalPdType DiagGaussianPdType "
            "BernoulliPdType Pd"
        },
        instead=instead(
            "CategoricalPd MultiCategoricalPd DiagGaussianPd BernoulliPd",
            "make_pdtype(action_space).pdfromflat(parameters) has logp, neglogp, entropy, kl, sample and mode",
        ),
    ),
    "common.models": Port(
        names={
            "policy.networks": "register get_network_builder mlp cnn cnn_small conv_only lstm cnn_lstm cnn_lnlstm "
            "impala_cnn impala_cnn_lstm nature_cnn mapping=NETWORKS"
        },
        instead={"build_impala_cnn": "network='impala_cnn'"},
    ),
    "common.input": Port(nothing="policies take observations as arrays: model.step(obs), model.act(obs)"),
    "common.policies": Port(
        names={"policy.policy": "build_policy PolicyWithValue=Policy"},
    ),
    "common.tf_util": Port(nothing=NO_SESSION),
    "common.mpi_adam": Port(nothing=NO_MPI_ADAM),
    "common.mpi_adam_optimizer": Port(nothing=NO_MPI_ADAM),
    "common.mpi_fork": Port(names={"parallel.mpi": "mpi_fork"}),
    "common.mpi_moments": Port(
        names={"parallel.moments": "mpi_moments"}, instead={"mpi_mean": "mean, std, count = mpi_moments(x)"}
    ),
    "common.mpi_running_mean_std": Port(names={"parallel.moments": "RunningMeanStd=MpiRunningMeanStd"}),
    "common.mpi_util": Port(nothing="tfbaselines.parallel.mpi: world(), share(variables, comm), threads_for_rank()"),
    "common.retro_wrappers": Port(
        names={"envs.wrappers": "RewardScaler"},
        nothing="gym-retro has no release for Gymnasium: hand functions that make stable-retro's environments to "
        "learn(network, env=[make, ...])",
    ),
    "common.runners": Port(names={"compat.baselines": "AbstractEnvRunner"}),
    "common.running_mean_std": Port(
        names={"parallel.moments": "RunningMeanStd"}, instead={"TfRunningMeanStd": "RunningMeanStd"}
    ),
    "common.schedules": Port(
        names={"config.schedules": "LinearSchedule PiecewiseSchedule ConstantSchedule linear_interpolation"},
        instead={"Schedule": "a class with value(t); see tfbaselines.config.schedules"},
    ),
    "common.segment_tree": Port(
        names={"algs.deepq.buffers": "SegmentTree SumSegmentTree MinSegmentTree"},
    ),
    "common.tile_images": Port(names={"envs.vec.wrappers": "tile_images"}),
    "common.vec_env": Port(
        names={
            "envs.vec": f"{VEC_ENV} DummyVecEnv SubprocVecEnv ShmemVecEnv VecFrameStack VecNormalize VecMonitor "
            "VecVideoRecorder VecExtractDictObs",
            "compat.baselines": VEC_ENV_ERRORS,
        },
    ),
    "common.vec_env.util": Port(
        nothing="make_vec_env flattens Dict observations, and VecExtractDictObs takes one part of them"
    ),
    "common.vec_env.vec_env": Port(names={"envs.vec": VEC_ENV, "compat.baselines": VEC_ENV_ERRORS}),
    "common.vec_env.dummy_vec_env": Port(names={"envs.vec": "DummyVecEnv"}),
    "common.vec_env.subproc_vec_env": Port(names={"envs.vec": "SubprocVecEnv"}),
    "common.vec_env.shmem_vec_env": Port(names={"envs.vec": "ShmemVecEnv"}),
    "common.vec_env.vec_frame_stack": Port(names={"envs.vec": "VecFrameStack"}),
    "common.vec_env.vec_normalize": Port(names={"envs.vec": "VecNormalize"}),
    "common.vec_env.vec_monitor": Port(names={"envs.vec": "VecMonitor"}),
    "common.vec_env.vec_video_recorder": Port(names={"envs.vec": "VecVideoRecorder"}),
    "common.vec_env.vec_remove_dict_obs": Port(names={"envs.vec": "VecExtractDictObs"}),
}


STEPS = {"ReplayBuffer": "tfbaselines.deepq.ReplayBuffer(size) has add and sample"}
BUFFERS = dict.fromkeys(SPINNING_UP, STEPS) | {
    "vpg": {"VPGBuffer": RUNNER},
    "trpo": {"GAEBuffer": RUNNER},
    "ppo": {"PPOBuffer": RUNNER},
}


def _spinning_up(name: str) -> dict[str, Port]:
    """Make the rows of an algorithm of Spinning Up: a function at the top, a module and its core below `algos`."""
    module = Port(rest=f"algs.{name}.{name}", call=f"compat.spinup:{name}")
    ports = dict.fromkeys((name, f"{name}_tf1", f"{name}_pytorch"), module)
    # The last is the older one.
    for place in (f"algos.tf1.{name}", f"algos.pytorch.{name}", f"algos.{name}"):
        ports[f"{place}.{name}"] = Port(names={"compat.spinup": name}, instead=BUFFERS[name])
        ports[f"{place}.core"] = Port(
            names={"compat.spinup": "mlp_actor_critic MLPActorCritic=mlp_actor_critic"}, nothing=KERAS
        )
    return ports


SPINUP: dict[str, Port] = {
    **{path: port for name in SPINNING_UP for path, port in _spinning_up(name).items()},
    "utils.logx": Port(
        names={"compat.experiments": "EpochLogger Logger=EpochLogger", "logs.statistics": "colorize"},
        instead={"restore_tf_graph": SAVED},
    ),
    "utils.mpi_tools": Port(
        names={
            "parallel.mpi": "mpi_fork msg proc_id num_procs allreduce broadcast mpi_op mpi_sum mpi_avg "
            "mpi_statistics_scalar"
        },
    ),
    "utils.mpi_tf": Port(nothing=NO_MPI_ADAM),
    "utils.mpi_pytorch": Port(nothing=NO_MPI_ADAM),
    "utils.run_utils": Port(
        names={"compat.experiments": "ExperimentGrid setup_logger_kwargs call_experiment all_bools valid_str"}
    ),
    "user_config": Port(
        names={"compat.experiments": "DEFAULT_DATA_DIR"},
        nothing="TensorFlow is the only backend; setup_logger_kwargs(..., datestamp=True) has the date in the name",
    ),
    "utils.test_policy": Port(
        names={"compat.spinup": "load_policy_and_env run_policy"},
        instead=instead("load_tf_policy load_pytorch_policy", "load_policy_and_env(path)"),
    ),
    "utils.run_entrypoint": Port(nothing="python -m tfbaselines.run ALG --env ID ... starts runs"),
    "utils.serialization_utils": Port(
        names={"config.files": "convert_json=to_jsonable"},
        instead={"is_json_serializable": "convert_json(value) makes JSON of any value"},
    ),
    "utils.plot": Port(
        nothing="python -m tfbaselines.run plot DIR, or python -m tfbaselines.plot DIR, draws the curves"
    ),
}

READ_ON = "MIGRATION.md, 'Stable-Baselines3', has the names of arguments, wrappers and callbacks"

# The first path is this package itself. MIGRATION.md has a section on the counterparts.
STABLE_BASELINES3: dict[str, Port] = {
    "": Port(
        instead={
            there: f"tfbaselines.{twin.here}.learn(network, env, ...) trains and returns the model; {READ_ON}"
            for there, twin in TWINS.items()
        }
    ),
    "common.callbacks": Port(nothing=f"tfbaselines.callbacks; {READ_ON}"),
    "common.evaluation": Port(
        nothing="tfbaselines.evaluate.evaluate(log_directory), or python -m tfbaselines.evaluate DIR --deterministic"
    ),
}

# Short names of this package.
OWN: dict[str, Port] = {
    "callbacks": Port(same="training.callbacks"),
    "plot_util": Port(same="plot.plot_util"),
    "vec_env": Port(same="envs.vec"),
    **{name: Port(rest=f"algs.{name}.{name}") for name in NAMES},
}

TABLE: dict[str, Port] = OWN | STABLE_BASELINES3 | SPINUP | BASELINES

# Every path of the table and every package above one.
PACKAGES: frozenset[str] = frozenset(
    ".".join(parts[:length])
    for parts in (path.split(".") for path in TABLE if path)
    for length in range(1, len(parts) + 1)
)
