"""BC: behaviour cloning (Pomerleau 1991). The policy becomes the one under which demonstrations are most likely,

    L = E[-log pi(a|s)] + weight_decay / 2 |theta|^2,

by passes of Adam over shuffled minibatches. A part of the demonstrations is held out; when its loss has not fallen for
`patience` passes, the parameters with which it was smallest are taken back, and the run ends.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.action_mask import refuse_action_masks
from tfbaselines.experience.demonstrations import load_demonstrations
from tfbaselines.logs import logger
from tfbaselines.logs.search_rows import columns_without_episodes
from tfbaselines.running.build import make_direct_policy
from tfbaselines.running.cloning import Cloning, CloningOptions
from tfbaselines.running.model import PolicyModel
from tfbaselines.running.search_run import SearchRun
from tfbaselines.settings.bases import DemonstrationConfig, SearchConfig
from tfbaselines.settings.config import NetworkSpec, Schedule, arg
from tfbaselines.settings.takes import takes

make_policy = partial(make_direct_policy, certain=False)


@dataclass(frozen=True, kw_only=True)
class Config(DemonstrationConfig, SearchConfig):
    """Arguments of behaviour cloning."""

    total_timesteps: float | None = arg(
        None, "demonstrated steps learnt from, after which no pass begins; None for all passes", at_least=0
    )
    num_iterations: int = arg(
        500, "passes over the demonstrations, unless total_timesteps (--num_timesteps) is given", at_least=0
    )
    test_every: int = arg(50, "passes between tests; another test comes at the end", at_least=1)
    num_test_episodes: int = arg(10, "episodes of a test; 0 for no tests", at_least=0)
    lr: Schedule = arg(1e-3, "learning rate", at_least=0)
    batch_size: int = arg(128, "demonstrated steps in a gradient step", at_least=1)
    held_out: float = arg(0.1, "share of the demonstrations that is not learnt from", at_least=0, at_most=0.5)
    patience: int = arg(
        20, "passes without a smaller loss of the held-out part after which the run ends; 0 for no such end", at_least=0
    )
    weight_decay: float = arg(0.0, "factor of the penalty of half the squared parameters", at_least=0, at_most=1)
    sequence_length: int = arg(64, "steps of the sequences that a recurrent policy learns from", at_least=1)
    normalize_observations: bool = arg(
        False, "scale observations by the mean and deviation of the demonstrations', kept inside the policy"
    )

    order: ClassVar = """
        demo_path traj_limitation subsample num_iterations lr batch_size held_out patience weight_decay
        normalize_observations seed total_timesteps
    """
    env_defaults: ClassVar = {"mujoco": {"normalize_observations": True}}


@takes(Config)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Train a policy by behaviour cloning; the environments serve for tests alone."""
    config = Config.of(kwargs)
    with SearchRun("bc", env, config, columns=columns_without_episodes) as run:
        env.reset()
        refuse_action_masks(env, "bc")
        policy = make_policy(network, env, config, run.comm)
        model = PolicyModel(policy, rng=run.rng)
        if run.plan.total_timesteps == 0 and config.demo_path is None:
            # A saved model is loaded, and nothing learnt.
            run.start(model)
            return model
        demonstrations = load_demonstrations(config.demo_path, env.observation_space, env.action_space)
        options = CloningOptions(
            batch_size=config.batch_size,
            held_out=config.held_out,
            patience=config.patience,
            weight_decay=config.weight_decay,
            subsample=config.subsample,
            sequence_length=config.sequence_length,
        )
        used = demonstrations.first(config.traj_limitation)
        cloning = Cloning(policy, policy.trainable_variables, used, options, run.comm)
        model.optimizer, model.parts = cloning.optimizer, [cloning]
        for update in run.search(model, over=lambda: cloning.over):
            if update == 1:
                cloning.begin()
            statistics = cloning.one_pass(run.rng, run.rates()["lr"])
            model.actor.refresh()
            run.learnt(cloning.steps_per_pass, [], statistics)
        if cloning.over:
            logger.info(f"the held-out loss has not fallen for {config.patience} passes: its best policy is taken")
    return model
