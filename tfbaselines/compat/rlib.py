"""rlib's classes: ``DeepQLearning(env_kwargs, agent_kwargs, lr=3e-4).train()``, with rlib's names and defaults.

    from tfbaselines.compat.rlib import PPO

    model = PPO({"id": "CartPole-v1"}, {"hidden_sizes": [64, 64]}, total_timesteps=200_000)
    model.train()
    mean, std = model.test(num_episodes=10)
    model.save_plots()
    model.save_videos()

A run's directory is save_folder/run_N: a log directory, with the models of each test in checkpoints/.
"""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium

from tfbaselines.compat.rlib_base import LONGEST, NONE, Algorithm, annealed, names_of, values_of
from tfbaselines.errors import bad_argument, unknown


class _Searching(Algorithm):
    """An algorithm with iterations, tests of its own, and an end at the largest score."""

    def learn_arguments(self) -> dict[str, Any]:
        learn = super().learn_arguments()
        score = self.arguments["max_total_reward"]
        if self.arguments["stop_max_score"] and score in (None, NONE):
            raise bad_argument("stop_max_score", True, "needs max_total_reward, the largest score")
        return learn | {"stop_max_score": score if self.arguments["stop_max_score"] else None}

    def callbacks(self) -> list[Callable[[Any], Any]]:
        from tfbaselines.training.callbacks import SaveEvery

        return [SaveEvery(self.arguments["test_every"], count=self.counted)]

    def counted(self, run: Any) -> int:
        return run.iterations


class EvolutionStrategy(_Searching):
    """rlib's evolution strategy."""

    alg = "es"
    names: ClassVar = names_of("num_agents num_iterations lr sigma test_every num_test_episodes")
    defaults: ClassVar = values_of(
        "num_agents=30 num_iterations=300 lr=0.03 sigma=0.1 test_every=50 num_test_episodes=5 stop_max_score=False"
    )

    def learn_arguments(self) -> dict[str, Any]:
        # Each member has noise of its own.
        return super().learn_arguments() | {"mirrored": False}


class QLearning(_Searching):
    """rlib's Q-learning; agent_kwargs has grid_size."""

    alg = "qlearning"
    network = "table"
    names: ClassVar = names_of(
        "num_iterations lr discount epsilon_greedy epsilon_decay epsilon_min test_every num_test_episodes"
    )
    defaults: ClassVar = values_of(
        "num_iterations=1000 lr=0.03 discount=0.99 epsilon_greedy=0.9 epsilon_decay=0.9999 epsilon_min=0.01 "
        "test_every=10 num_test_episodes=5 grid_size=20 stop_max_score=False"
    )

    def learn_arguments(self) -> dict[str, Any]:
        learn = super().learn_arguments()
        if learn.pop("normalize_observations"):
            raise bad_argument("normalize_observation", True, "False: the cells of a table are between bounds")
        unused = sorted(self._networks[0].keys() - {"grid_size"})
        if unused:
            raise unknown("argument of QLearning's agent_kwargs", unused[0], ["grid_size"])
        return learn | {"grid_size": self._networks[0].get("grid_size", self.arguments["grid_size"])}

    def network_arguments(self) -> dict[str, Any]:
        return {}


class DeepQLearning(Algorithm):
    """rlib's deep Q-learning: without dueling, double Q-learning and prioritized replay."""

    alg = "deepq"
    names: ClassVar = names_of(
        "lr discount=gamma epsilon_start epsilon_min=exploration_final_eps epsilon_decay "
        "exploration_fraction num_time_steps=total_timesteps learning_starts update_every=train_freq "
        "number_updates=gradient_steps main_target_update=target_network_update_freq batch_size "
        "size_replay_buffer=buffer_size max_grad_norm=grad_norm_clipping"
    )
    defaults: ClassVar = values_of(
        "lr=0.0003 discount=0.99 epsilon_start=0.1 epsilon_greedy=None epsilon_decay=None epsilon_min=0.01 "
        "exploration_fraction=0.1 num_time_steps=100000 learning_starts=50000 update_every=4 number_updates=1 "
        "main_target_update=10 test_every=50000 num_test_episodes=10 batch_size=64 size_replay_buffer=100000 "
        "max_grad_norm=10"
    )

    def learn_arguments(self) -> dict[str, Any]:
        plain = {"hiddens": (), "dueling": False, "double_q": False, "checkpoint_freq": None}
        learn = super().learn_arguments() | plain
        # The name in rlib's first version.
        first = self.arguments["epsilon_greedy"]
        return learn if first is None else learn | {"epsilon_start": first}


class DDPG(Algorithm):
    """rlib's DDPG: num_updates_per_iter gradient steps after as many steps as the longest episode has."""

    alg = "ddpg"
    agents = ("mu_kwargs", "q_kwargs")
    names: ClassVar = names_of(
        "action_noise=act_noise target_noise num_updates_per_iter=nb_train_steps delay_policy_update "
        "twin_q discount=gamma target_update_tau=tau batch_size size_replay_buffer=replay_size "
        "max_grad_norm=clip_norm"
    )
    defaults: ClassVar = values_of(
        "q_lr=0.0003 mu_lr=0.0003 lr_annealing=True action_noise=0.1 target_noise=0.2 num_updates_per_iter=10 "
        "delay_policy_update=2 twin_q=True discount=0.99 num_episodes=1000 learning_starts=50000 "
        "target_update_tau=0.01 test_every=10 num_test_episodes=10 batch_size=64 size_replay_buffer=100000 "
        "max_grad_norm=10 use_norm_wrappers=True"
    )

    def learn_arguments(self) -> dict[str, Any]:
        given = self.arguments
        longest, starts = self._longest(), int(given["learning_starts"])
        # Rates of both networks fall over all episodes.
        rates = {ours: annealed(given[name], given["lr_annealing"]) for name, ours in RATES.items()}
        steps = {"start_steps": starts, "update_after": starts, "nb_rollout_steps": longest, "nb_epoch_cycles": 1}
        total = starts + int(given["num_episodes"]) * longest
        return super().learn_arguments() | rates | steps | {"total_timesteps": total, "critic_l2_reg": 0.0}

    def callbacks(self) -> list[Callable[[Any], Any]]:
        most = self.arguments["num_episodes"]
        return [*super().callbacks(), lambda run: self.counted(run) < most]

    def counted(self, run: Any) -> int:
        # Random steps at the start are of no episode.
        return max(0, run.episodes.count - math.ceil(self.arguments["learning_starts"] / self._longest()))

    def _longest(self) -> int:
        spec = gymnasium.spec(self.env_kwargs["id"])
        limits = [self.arguments["max_episode_length"], spec.max_episode_steps]
        return min((int(limit) for limit in limits if limit not in (None, NONE)), default=LONGEST)


RATES = {"q_lr": "critic_lr", "mu_lr": "actor_lr"}


class PPO(Algorithm):
    """rlib's PPO."""

    alg = "ppo2"
    agents = ("actor_kwargs", "critic_kwargs")
    names: ClassVar = names_of(
        "num_steps_per_iter=nsteps num_updates_per_iter=noptepochs total_timesteps discount=gamma "
        "use_gae lambda_gae=lam policy_loss_clip=cliprange value_loss_coef=vf_coef "
        "entropy_loss_coef=ent_coef max_grad_norm norm_advantages=normalize_advantages"
    )
    defaults: ClassVar = values_of(
        "num_envs=10 num_steps_per_iter=2048 num_updates_per_iter=10 total_timesteps=1000000 test_every=10000 "
        "num_test_agents=10 batch_size=64 discount=0.99 use_gae=True lambda_gae=0.95 policy_loss_clip=0.2 "
        "clip_value_loss=True value_loss_clip=0.2 value_loss_coef=0.5 entropy_loss_coef=0.01 "
        "max_grad_norm=0.5 learning_rate=0.0003 lr_annealing=True norm_advantages=True use_norm_wrappers=True"
    )

    def learn_arguments(self) -> dict[str, Any]:
        given = self.arguments
        batches = max(1, int(given["num_steps_per_iter"]) * int(given["num_envs"]) // int(given["batch_size"]))
        clip = given["value_loss_clip"] if given["clip_value_loss"] else False
        learn = super().learn_arguments() | {"nminibatches": batches, "cliprange_vf": clip, "value_network": "copy"}
        return learn | {"lr": annealed(given["learning_rate"], given["lr_annealing"])}

    def _episodes_of_tests(self) -> int:
        return self.arguments["num_test_agents"]
