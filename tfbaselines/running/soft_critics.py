"""Which critics a run of SAC has."""

from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import given
from tfbaselines.losses.conservative import ConservativeCritics
from tfbaselines.losses.soft_critics import SoftCritics
from tfbaselines.policy.actor_critic import ActorCritic
from tfbaselines.running.off_policy import OffPolicyRun
from tfbaselines.running.replay_signals import replay_signals


def make_critics(run: OffPolicyRun, policy: ActorCritic, target: ActorCritic, env: VecEnv) -> SoftCritics:
    """The critics of a run: of reward signals, of a data set, or plain ones.

    Args:
        run: of sac; gains its reward signals, if it has any.
        policy: an actor with two critics, or two for each signal.
        target: its targets.
        env: the environments.
    """
    config = run.config
    signals = replay_signals(run, policy, target, env)
    if signals is not None:
        return signals.critics
    if config.offline is None:
        return SoftCritics(policy, target)
    own = given(weight=config.cql_weight, threshold=config.cql_threshold, actions=config.cql_actions)
    return ConservativeCritics(policy, target, **own)
