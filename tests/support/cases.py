"""Golden cases are discovered by file name in the directory that TFBASELINES_GOLDEN names (default: data/golden)."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec import VecEnv

GOLDEN = Path(os.environ.get("TFBASELINES_GOLDEN") or Path(__file__).parents[2] / "data" / "golden")


def cases(pattern: str) -> list[str]:
    """Names (without .npz) of the golden files that match a glob such as 'ppo2_*'; at least one must."""
    found = sorted(path.stem for path in GOLDEN.glob(f"{pattern}.npz"))
    if not found:
        raise FileNotFoundError(f"no golden file matches {pattern}.npz in {GOLDEN}")
    return found


def load(name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of one golden file and its hyper-parameters."""
    with np.load(GOLDEN / f"{name}.npz", allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    hyper = json.loads(str(arrays.pop("hyper_json"))) if "hyper_json" in arrays else {}
    return arrays, hyper


def group(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays under `prefix/` in creation order, keyed by variable name without its number."""
    keys = sorted(key for key in arrays if key.startswith(f"{prefix}/"))
    return {key.split("/", 2)[2]: arrays[key] for key in keys}


class Spaces(VecEnv):
    """Environments of a golden batch: their spaces alone."""

    def __init__(self, num_envs, arrays):
        obs, actions = arrays["obs"], arrays["actions"]
        choices = next(bias.size for name, bias in group(arrays, "w0").items() if name.endswith("pi.b"))
        discrete = actions.dtype.kind == "i"
        action_space = spaces.Discrete(choices) if discrete else spaces.Box(-1.0, 1.0, actions.shape[1:], np.float32)
        super().__init__(num_envs, spaces.Box(-np.inf, np.inf, obs.shape[1:], np.float32), action_space)

    def reset(self):
        return np.zeros((self.num_envs, *self.observation_space.shape), np.float32)

    # Nothing steps them.
    step_async = step_wait = None
