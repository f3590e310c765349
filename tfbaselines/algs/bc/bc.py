"""BC: behavior cloning (Pomerleau 1991): the policy maximizes the likelihood of demonstrations.

Passes of Adam over shuffled minibatches descend

    L = E[-log pi(a|s)] + weight_decay / 2 |theta|^2

Early stopping: a part of the demonstrations is held out for validation. After `patience` passes without improvement of
its loss the run ends, with the parameters of the smallest validation loss.
"""

from functools import partial
from typing import Any

from tfbaselines.algs.bc import ALGORITHM, Config
from tfbaselines.config.algorithm import takes
from tfbaselines.config.config import NetworkSpec
from tfbaselines.demos import load_demonstrations
from tfbaselines.demos.cloning import Cloning, CloningOptions
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.packed import refuse_action_masks
from tfbaselines.logs import logger
from tfbaselines.training.build import make_direct_policy
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.on_policy import SearchRun, counter_columns, test_columns

make_policy = partial(make_direct_policy, certain=False)


@takes(ALGORITHM)
def learn(network: NetworkSpec, env: VecEnv, **kwargs: Any) -> PolicyModel:
    """Train a policy by behavior cloning; the environments are for tests only."""
    config = Config.of(kwargs)
    with SearchRun(ALGORITHM, env, config, columns=lambda run: counter_columns(run) | test_columns(run)) as run:
        env.reset()
        refuse_action_masks(env, "bc")
        policy = make_policy(network, env, config, run.comm)
        if run.plan.total_timesteps == 0 and config.demo_path is None:
            # Only load a saved model.
            model = PolicyModel(policy)
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
        model = PolicyModel(policy, cloning.optimizer, parts=[cloning])
        for update in run.search(model, over=lambda: cloning.over):
            if update == 1:
                cloning.begin()
            statistics = cloning.one_pass(run.rng, run.rates()["lr"])
            model.actor.refresh()
            run.learned(cloning.steps_per_pass, [], statistics)
        if cloning.over:
            logger.info(f"the held-out loss has not fallen for {config.patience} passes: its best policy is taken")
    return model
