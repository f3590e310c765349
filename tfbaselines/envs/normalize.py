"""Normalization that `--normalize` puts around environments."""

from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.observations import is_image
from tfbaselines.envs.wrappers import VecNormalize
from tfbaselines.errors import bad_argument

# Arguments of VecNormalize by the value of the flag; no normalization is an empty tuple.
NORMALIZE = {"both": ("ob", "ret"), "observations": ("ob",), "rewards": ("ret",), "none": ()}


def normalized(env: VecEnv, normalize: bool | str, env_type: str, training: bool = True) -> VecEnv:
    """Wrap environments in VecNormalize.

    Args:
        env: environments.
        normalize: a key of NORMALIZE; True stands for 'both' around MuJoCo environments, False for 'none'.
        env_type: type of the environments.
        training: False freezes the statistics.
    """
    if isinstance(normalize, bool):
        normalize = "both" if normalize and env_type == "mujoco" else "none"
    kinds = NORMALIZE[normalize]
    if "ob" in kinds and is_image(env.observation_space):
        raise bad_argument("normalize", normalize, "'rewards' or 'none' with images, which networks scale themselves")
    if not kinds:
        return env
    return VecNormalize(env, ob="ob" in kinds, ret="ret" in kinds, training=training)
