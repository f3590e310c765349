"""The peer's side of `bench minutes`: ``peer_minutes.py DIRECTORY CELL``, run by the peer's own Python.

CELL is JSON: the library, the algorithm, the task, the seed, and the episodes and the seed of the evaluation. The
environments and the algorithm come from rl_zoo3 with its settings. SIGTERM ends training at the next environment step;
then TRAINED is written, the policy is evaluated, and SCORED is written. This file imports nothing of tfbaselines.
"""

import argparse
import json
import os
import re
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

TRAINED, SCORED = "trained.json", "scored.json"
# Arguments that follow the share of the steps that are done: such a run ends at the number of steps in its settings.
FOLLOWING = ("exploration_fraction",)
ENDLESS = 10**9
LIBRARIES = ("stable_baselines3", "sb3_contrib", "sbx")


class Stop:
    """Remembers a signal.

    Attributes:
        came: True once the signal has come.
    """

    def __init__(self) -> None:
        self.came = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.came = True


def settings_of(sections: dict[str, dict[str, Any]], task: str) -> dict[str, Any]:
    """Return the settings of a task, or of the latest other version that the file has.

    Raises:
        LookupError: the file has no version of the task.
    """
    names = [name for name in sections if unversioned(name) == unversioned(task)]
    if not names:
        raise LookupError(f"rl_zoo3 has no settings for {task}")
    return sections[task if task in sections else max(names, key=version)]


def unversioned(name: str) -> str:
    """Return an environment's id without its version."""
    return re.sub(r"-v\d+$", "", name)


def version(name: str) -> int:
    """Return the version in an environment's id."""
    return int(name.rpartition("-v")[2])


def steps_of(settings: dict[str, Any]) -> int:
    """Return the steps of a run: without an end but the time, unless something in the settings follows their number."""
    follows = any(str(value).startswith("lin_") for value in settings.values())
    follows = follows or any(name in settings for name in FOLLOWING)
    return int(float(settings["n_timesteps"])) if follows else ENDLESS


def register_sbx(name: str) -> None:
    """Let rl_zoo3 make the algorithm of SBX in place of the one of that name, as SBX's documentation shows.

    Activations of PyTorch become those of Flax; `ortho_init` is dropped, which SBX does not have.
    """
    import flax
    import sbx
    from rl_zoo3 import exp_manager
    from torch import nn

    classes = {one.lower(): getattr(sbx, one) for one in sbx.__all__}
    activations = {nn.ReLU: flax.linen.relu, nn.Tanh: flax.linen.tanh}

    def make(policy_kwargs: dict[str, Any] | None = None, **settings: Any) -> Any:
        given = {key: value for key, value in (policy_kwargs or {}).items() if key != "ortho_init"}
        if "activation_fn" in given:
            given["activation_fn"] = activations[given["activation_fn"]]
        return classes[name](policy_kwargs=given, **settings)

    exp_manager.ALGOS[name] = make


def make_manager(directory: Path, cell: dict[str, Any]) -> Any:
    """Make rl_zoo3's manager of one run."""
    import rl_zoo3
    import yaml
    from rl_zoo3.exp_manager import ExperimentManager

    published = Path(rl_zoo3.__file__).parent / "hyperparams" / f"{cell['algorithm']}.yml"
    settings = settings_of(yaml.safe_load(published.read_text(encoding="utf-8")), cell["task"])
    own = directory / "settings.yml"
    own.write_text(yaml.safe_dump({cell["task"]: settings}), encoding="utf-8")
    if cell["library"] == "sbx":
        register_sbx(cell["algorithm"])
    return ExperimentManager(
        argparse.Namespace(),
        cell["algorithm"],
        cell["task"],
        str(directory),
        n_timesteps=steps_of(settings),
        eval_freq=-1,
        seed=cell["seed"],
        verbose=0,
        device="cpu",
        config=str(own),
    )


def train(manager: Any, stop: Stop) -> Any:
    """Train until the signal, or to the end of the settings' steps, and return the model."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Until(BaseCallback):
        """Ends training after the signal."""

        def _on_step(self) -> bool:
            return not stop.came

    model, _ = manager.setup_experiment()
    model.learn(manager.n_timesteps, callback=Until())
    return model


def evaluate(manager: Any, model: Any, episodes: int, seed: int) -> list[float]:
    """Return the returns of episodes of the deterministic policy."""
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecNormalize, sync_envs_normalization

    manager.seed = seed
    env = manager.create_envs(1, eval_env=True)
    if isinstance(env, VecNormalize):
        sync_envs_normalization(model.get_env(), env)
    returns, _ = evaluate_policy(model, env, episodes, deterministic=True, return_episode_rewards=True)
    return [float(one) for one in returns]


def versions(library: str) -> str:
    """Return the versions of the library and of rl_zoo3."""
    import importlib.metadata as metadata

    name = {"sbx": "sbx-rl"}.get(library, library)
    return f"{metadata.version(name)}, rl_zoo3 {metadata.version('rl_zoo3')}"


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file, whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content), encoding="utf-8")
    os.replace(part, path)


def main(directory: Path, cell: dict[str, Any]) -> None:
    """Train and evaluate one cell."""
    stop = Stop()
    signal.signal(signal.SIGTERM, stop)
    manager = make_manager(directory, cell)
    model = train(manager, stop)
    write(directory / TRAINED, {"steps": int(model.num_timesteps)})
    returns = evaluate(manager, model, cell["episodes"], cell["evaluation_seed"])
    write(directory / SCORED, {"returns": returns, "version": versions(cell["library"])})


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
