"""Which import paths of baselines and Spinning Up there are, and where their names are in this package.

The modules that tfbaselines.porting makes, and MIGRATION.md, come from this table.
"""

from dataclasses import dataclass, field

from tfbaselines.algs.registry import ALGORITHMS

SPINNING_UP = ("vpg", "trpo", "ppo", "ddpg", "td3", "sac")

KERAS = "write the network with Keras layers, see README, 'Add a network'"
RETURNS = "returns are tfbaselines.experience.returns.n_step_returns"
NO_SESSION = "TensorFlow 2 has no sessions and placeholders: call the model (step, act, value, save, load)"
NO_MPI_ADAM = (
    "the algorithms average gradients over the ranks of mpirun themselves; see tfbaselines.optim.update.Update"
)
SAVED = "tfbaselines.load(path) loads the run's model"
RUNNER = "tfbaselines.experience.rollout.Runner(env, policy, actor, nsteps, rng)"
REGISTRY = "python -m tfbaselines.bench table --suite atari10m runs the published tables"


@dataclass(frozen=True)
class Port:
    """A module of the originals.

    Attributes:
        names: names in it, separated by spaces, by the module here that has them; 'old=new' for another name here.
        rest: the module here whose other public names it has too.
        instead: names without a counterpart, and what to use instead.
        nothing: what to use instead of any other name.
        same: the module here that it is.
        call: 'module:function' that calling the module calls.
    """

    names: dict[str, str] = field(default_factory=dict)
    rest: str | None = None
    instead: dict[str, str] = field(default_factory=dict)
    nothing: str | None = None
    same: str | None = None
    call: str | None = None

    def places(self) -> dict[str, str]:
        """'module:name' here by the original's name; a '.' for the name stands for the module itself."""
        places = {}
        for module, names in self.names.items():
            for one in names.split():
                old, _, new = one.partition("=")
                places[old] = module if new == "." else f"{module}:{new or old}"
        return places

    def everything(self) -> list[str]:
        """Its listed names."""
        return [*self.places(), *self.instead]


def instead(names: str, what: str) -> dict[str, str]:
    """The same advice for several names."""
    return dict.fromkeys(names.split(), what)


def algorithm(name: str, **more: Port) -> dict[str, Port]:
    """An algorithm's package, in which baselines has a module of the same name."""
    call = f"porting.spinup:{name}" if name in SPINNING_UP else None
    module = Port(rest=f"algs.{name}", call=call)
    return {name: module, f"{name}.{name}": module} | {f"{name}.{child}": port for child, port in more.items()}


BASELINES: dict[str, Port] = {
    "logger": Port(same="logs.logger"),
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
        runner=Port(instead={"Runner": RUNNER}),
        utils=Port(instead={"discount_with_dones": RETURNS}, nothing=KERAS),
    ),
    **algorithm("acer"),
    **algorithm(
        "acktr", kfac=Port(nothing="acktr.learn(network, env, ...); its optimiser is tfbaselines.optim.kfac.Kfac")
    ),
    **algorithm(
        "deepq",
        replay_buffer=Port(names={"experience.replay.buffers": "ReplayBuffer PrioritizedReplayBuffer"}),
        models=Port(nothing="deepq.learn(env, network, hiddens=[256], dueling=True) builds the Q-network"),
        build_graph=Port(nothing="deepq.learn(env, network) acts and learns in compiled functions of its own"),
        utils=Port(nothing=NO_SESSION),
    ),
    **algorithm(
        "ddpg",
        noise=Port(
            names={"experience.noise": "AdaptiveParamNoiseSpec NormalActionNoise OrnsteinUhlenbeckActionNoise"},
            instead={"ActionNoise": "a class with __call__() and reset(); see tfbaselines.experience.noise"},
        ),
        memory=Port(names={"experience.replay.buffers": "Memory"}),
        models=Port(nothing="ddpg.learn(network, env, layer_norm=True) builds actor and critic"),
        ddpg_learner=Port(nothing="ddpg.learn(network, env, ...) trains; the model that it returns acts"),
    ),
    **algorithm(
        "gail",
        mlp_policy=Port(names={"porting.baselines": "MlpPolicy"}),
        trpo_mpi=Port(rest="algs.gail"),
    ),
    "gail.dataset.mujoco_dset": Port(names={"porting.expert_data": "Mujoco_Dset"}),
    "gail.adversary": Port(nothing="gail.learn makes its discriminator; see tfbaselines.policy.discriminator"),
    "gail.behavior_clone": Port(nothing="python -m tfbaselines.run --alg=bc, or gail.learn(pretrained=True)"),
    **algorithm("her"),
    "ppo1": Port(rest="algs.ppo1"),
    "ppo1.pposgd_simple": Port(names={"porting.baselines": "learn=ppo1_learn"}),
    "ppo1.mlp_policy": Port(names={"porting.baselines": "MlpPolicy"}),
    "ppo1.cnn_policy": Port(names={"porting.baselines": "CnnPolicy"}),
    **algorithm(
        "ppo2",
        model=Port(names={"algs.ppo2": "Model"}),
        runner=Port(instead={"Runner": RUNNER}),
        policies=Port(nothing="name the network: ppo2.learn(network='mlp', env=env), 'cnn', 'lstm' or 'cnn_lstm'"),
    ),
    **algorithm("trpo_mpi"),
    "common": Port(
        names={
            "experience.returns": "explained_variance discount",
            "logs.epoch_logger": "colorize",
            "porting.baselines": "set_global_seeds boolean_flag",
        },
    ),
    "common.math_util": Port(names={"experience.returns": "explained_variance discount"}),
    "common.misc_util": Port(names={"porting.baselines": "set_global_seeds boolean_flag"}),
    "common.console_util": Port(names={"logs.epoch_logger": "colorize"}),
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
            "envs.make": "make_vec_env make_env",
            "porting.baselines": "arg_parser common_arg_parser parse_unknown_args",
        },
        instead=instead("make_mujoco_env make_robotics_env", "make_env(env_id, env_type, seed=seed)")
        | instead("atari_arg_parser mujoco_arg_parser robotics_arg_parser", "common_arg_parser()"),
    ),
    "common.distributions": Port(
        names={
            "policy.distributions": "make_pdtype CategoricalPdType=CategoricalHead DiagGaussianPdType=GaussianHead "
            "BernoulliPdType=BernoulliHead MultiCategoricalPdType=MultiCategoricalHead Pd=Distribution"
        },
        instead=instead(
            "CategoricalPd MultiCategoricalPd DiagGaussianPd BernoulliPd PdType",
            "make_pdtype(action_space).distribution(parameters) has logp, neglogp, entropy, kl, sample and mode",
        ),
    ),
    "common.models": Port(
        names={
            "policy.networks": "register get_network_builder mlp cnn cnn_small conv_only lstm cnn_lstm cnn_lnlstm "
            "impala_cnn impala_cnn_lstm nature_cnn"
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
    "common.mpi_fork": Port(names={"parallel.mpi_tools": "mpi_fork"}),
    "common.mpi_moments": Port(names={"parallel.moments": "mpi_moments"}),
    "common.mpi_running_mean_std": Port(names={"parallel.moments": "RunningMeanStd=MpiRunningMeanStd"}),
    "common.mpi_util": Port(nothing="tfbaselines.parallel.mpi: world(), share(variables, comm), threads_for_rank()"),
    "common.retro_wrappers": Port(
        nothing="gym-retro has no release for Gymnasium: hand functions that make stable-retro's environments to "
        "learn(network, env=[make, ...])"
    ),
    "common.runners": Port(names={"porting.baselines": "AbstractEnvRunner"}),
    "common.running_mean_std": Port(
        names={"parallel.moments": "RunningMeanStd"}, instead={"TfRunningMeanStd": "RunningMeanStd"}
    ),
    "common.schedules": Port(
        names={"settings.schedules": "LinearSchedule PiecewiseSchedule ConstantSchedule linear_interpolation"},
        instead={"Schedule": "a class with value(t); see tfbaselines.settings.schedules"},
    ),
    "common.segment_tree": Port(
        names={"experience.replay.segment_tree": "SegmentTree SumSegmentTree MinSegmentTree"},
    ),
    "common.tile_images": Port(names={"envs.vec.viewer": "tile_images"}),
    "common.vec_env": Port(
        names={
            "envs.vec": "VecEnv VecEnvWrapper VecEnvObservationWrapper CloudpickleWrapper DummyVecEnv SubprocVecEnv "
            "ShmemVecEnv VecFrameStack VecNormalize VecMonitor VecVideoRecorder VecExtractDictObs"
        },
    ),
    "common.vec_env.vec_env": Port(
        names={"envs.vec": "VecEnv VecEnvWrapper VecEnvObservationWrapper CloudpickleWrapper"}
    ),
    "common.vec_env.dummy_vec_env": Port(names={"envs.vec": "DummyVecEnv"}),
    "common.vec_env.subproc_vec_env": Port(names={"envs.vec": "SubprocVecEnv"}),
    "common.vec_env.shmem_vec_env": Port(names={"envs.vec": "ShmemVecEnv"}),
    "common.vec_env.vec_frame_stack": Port(names={"envs.vec": "VecFrameStack"}),
    "common.vec_env.vec_normalize": Port(names={"envs.vec": "VecNormalize"}),
    "common.vec_env.vec_monitor": Port(names={"envs.vec": "VecMonitor"}),
    "common.vec_env.vec_video_recorder": Port(names={"envs.vec": "VecVideoRecorder"}),
    "common.vec_env.vec_remove_dict_obs": Port(names={"envs.vec": "VecExtractDictObs"}),
}


def _spinning_up(name: str) -> dict[str, Port]:
    """An algorithm of Spinning Up: a function at the top, and its module and core below `algos`."""
    module = Port(rest=f"algs.{name}", call=f"porting.spinup:{name}")
    ports = dict.fromkeys((name, f"{name}_tf1", f"{name}_pytorch"), module)
    for backend in ("tf1", "pytorch"):
        place = f"algos.{backend}.{name}"
        ports[f"{place}.{name}"] = Port(names={"porting.spinup": name})
        ports[f"{place}.core"] = Port(
            names={"porting.spinup": "mlp_actor_critic MLPActorCritic=mlp_actor_critic"}, nothing=KERAS
        )
    return ports


SPINUP: dict[str, Port] = {
    **{path: port for name in SPINNING_UP for path, port in _spinning_up(name).items()},
    "utils.logx": Port(
        names={"porting.epoch_logger": "EpochLogger Logger=EpochLogger", "logs.epoch_logger": "colorize"},
        instead={"restore_tf_graph": SAVED},
    ),
    "utils.mpi_tools": Port(
        names={
            "parallel.mpi_tools": "mpi_fork msg proc_id num_procs allreduce broadcast mpi_op mpi_sum mpi_avg "
            "mpi_statistics_scalar"
        },
    ),
    "utils.mpi_tf": Port(nothing=NO_MPI_ADAM),
    "utils.mpi_pytorch": Port(nothing=NO_MPI_ADAM),
    "utils.run_utils": Port(
        names={"porting.experiments": "ExperimentGrid setup_logger_kwargs call_experiment all_bools valid_str"}
    ),
    "user_config": Port(
        names={"porting.experiments": "DEFAULT_DATA_DIR"},
        nothing="TensorFlow is the only backend; setup_logger_kwargs(..., datestamp=True) has the date in the name",
    ),
    "utils.test_policy": Port(
        names={"porting.spinup": "load_policy_and_env run_policy"},
        instead=instead("load_tf_policy load_pytorch_policy", "load_policy_and_env(path)"),
    ),
    "utils.serialization_utils": Port(names={"settings.jsonable": "convert_json=to_jsonable"}),
    "utils.plot": Port(
        nothing="python -m tfbaselines.run plot DIR, or python -m tfbaselines.plot DIR, draws the curves"
    ),
}

# Our own short names.
OWN: dict[str, Port] = {
    "callbacks": Port(same="running.callbacks"),
    "plot_util": Port(same="plot.plot_util"),
    "vec_env": Port(same="envs.vec"),
    **{name: Port(rest=f"algs.{name}") for name in ALGORITHMS},
}

TABLE: dict[str, Port] = OWN | SPINUP | BASELINES

# Every path of the table and every package above one.
PACKAGES: frozenset[str] = frozenset(
    ".".join(parts[:length]) for parts in (path.split(".") for path in TABLE) for length in range(1, len(parts) + 1)
)
