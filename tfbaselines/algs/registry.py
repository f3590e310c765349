"""The algorithms there are. Adding one is its file and its entry here."""

from tfbaselines.settings.algorithm import Algorithm, named

EVERY_KIND = ("Discrete", "MultiDiscrete", "MultiBinary", "Box")

ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            name="a2c",
            summary="advantage actor-critic, synchronous (Mnih et al. 2016)",
            actions=EVERY_KIND,
            packed_observations=True,
        ),
        Algorithm(
            name="acer",
            summary="actor-critic with experience replay (Wang et al. 2017)",
            actions=("Discrete", "Box"),
            packed_observations=True,
        ),
        Algorithm(
            name="acktr",
            summary="actor-critic with Kronecker-factored trust region (Wu et al. 2017)",
            actions=EVERY_KIND,
            packed_observations=True,
            recurrent=False,
        ),
        Algorithm(
            name="bc",
            summary="behaviour cloning: the policy imitates demonstrations (Pomerleau 1991)",
            actions=EVERY_KIND,
            values=False,
            normalized_environments=False,
            length_arguments=("num_iterations",),
        ),
        Algorithm(
            name="ddpg",
            summary="deep deterministic policy gradient (Lillicrap et al. 2016), baselines' and Spinning Up's",
            actions=("bounded Box",),
            encodes_images=True,
            length_arguments=("nb_epochs",),
        ),
        Algorithm(
            name="deepq",
            summary="deep Q-learning (Mnih et al. 2015), with Rainbow's parts (Hessel et al. 2018)",
            actions=("Discrete",),
            recurrent=False,
            dict_observations=True,
            action_masks=True,
        ),
        Algorithm(
            name="es",
            summary="evolution strategies: a population searches parameters without gradients (Salimans et al. 2017)",
            actions=("Box", "Discrete", "MultiDiscrete", "MultiBinary"),
            values=False,
            normalized_environments=False,
            packed_observations=True,
            length_arguments=("num_iterations",),
        ),
        Algorithm(
            name="her",
            summary="hindsight experience replay with DDPG, for environments with goals (Andrychowicz et al. 2017)",
            actions=("bounded Box",),
            recurrent=False,
            normalized_environments=False,
            dict_observations=True,
            goals=True,
            num_env=2,
        ),
        Algorithm(
            name="gail",
            summary="generative adversarial imitation learning (Ho and Ermon 2016): demonstrations in place of rewards",
            actions=EVERY_KIND,
            recurrent=False,
            values=False,
            normalized_environments=False,
            length_arguments=("max_episodes", "max_iters"),
        ),
        Algorithm(
            name="qlearning",
            summary="Q-learning with a table, of discrete observations or of a grid (Watkins and Dayan 1992)",
            actions=("Discrete",),
            recurrent=False,
            tabular=True,
            normalized_environments=False,
            packed_observations=True,
            length_arguments=("num_iterations",),
        ),
        Algorithm(
            name="ppo",
            summary="proximal policy optimisation stopped early by the KL divergence, Spinning Up's form",
            actions=EVERY_KIND,
            packed_observations=True,
            normalized_environments=False,
            length_arguments=("epochs",),
        ),
        Algorithm(
            name="vpg",
            summary="vanilla policy gradient with generalised advantage estimates, Spinning Up's form",
            actions=EVERY_KIND,
            packed_observations=True,
            normalized_environments=False,
            length_arguments=("epochs",),
        ),
        Algorithm(
            name="ppo2",
            summary="proximal policy optimisation with clipped probability ratios (Schulman et al. 2017)",
            actions=EVERY_KIND,
            packed_observations=True,
        ),
        Algorithm(
            name="sac",
            summary="soft actor-critic (Haarnoja et al. 2018)",
            actions=("bounded Box", "Discrete", "MultiDiscrete"),
            normalized_environments=False,
            dict_observations=True,
            action_masks=True,
            length_arguments=("epochs",),
        ),
        Algorithm(
            name="td3",
            summary="twin delayed deep deterministic policy gradient (Fujimoto et al. 2018)",
            actions=("bounded Box",),
            normalized_environments=False,
            dict_observations=True,
            length_arguments=("epochs",),
        ),
        Algorithm(
            name="ppo1",
            summary="proximal policy optimisation, baselines' earlier form (Schulman et al. 2017)",
            actions=EVERY_KIND,
            packed_observations=True,
            recurrent=False,
            length_arguments=("max_timesteps", "max_episodes", "max_iters", "max_seconds"),
        ),
        Algorithm(
            name="trpo",
            summary="trust region policy optimisation and natural policy gradient, Spinning Up's form",
            actions=EVERY_KIND,
            packed_observations=True,
            recurrent=False,
            normalized_environments=False,
            length_arguments=("epochs",),
        ),
        Algorithm(
            name="trpo_mpi",
            summary="trust region policy optimisation (Schulman et al. 2015), baselines' form",
            actions=EVERY_KIND,
            packed_observations=True,
            recurrent=False,
            length_arguments=("max_episodes", "max_iters"),
        ),
    )
}


def get(name: str) -> Algorithm:
    """The algorithm of some name; ValueError naming the nearest when there is none."""
    return named(ALGORITHMS, name)
