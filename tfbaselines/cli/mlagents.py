"""Trainer files of ML-Agents, read as sections of our arguments: the older form, and the later one with `behaviors`.

A section of a behavior is complete: the file's default settings stand below it. Keys without a counterpart here, and
unknown ones, are named by one warning a section.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfbaselines.config.groups import Pretraining
from tfbaselines.errors import UsageError, nearest, unknown, warn

DEFAULT = "default"

TRAINERS = {"ppo": "ppo2", "sac": "sac"}

# What ML-Agents takes where a file is silent, by trainer.
USUAL = {
    "ppo2": {
        "batch_size": 1024,
        "buffer_size": 10240,
        "beta": 5e-3,
        "epsilon": 0.2,
        "lambd": 0.95,
        "num_epoch": 3,
        "learning_rate": 3e-4,
        "learning_rate_schedule": "linear",
        "summary_freq": 50000,
    },
    "sac": {
        "batch_size": 128,
        "buffer_size": 50000,
        "learning_rate": 3e-4,
        "learning_rate_schedule": "constant",
        "init_entcoef": 1.0,
        "buffer_init_steps": 0,
        "tau": 0.005,
        "summary_freq": 50000,
    },
}
COMMON = {"max_steps": 5e5, "hidden_units": 128, "num_layers": 2}

# Keys with a counterpart, of both trainers and of one.
TRANSLATED = {
    *("trainer", "trainer_type", "max_steps", "batch_size", "buffer_size", "hidden_units", "num_layers"),
    *("learning_rate", "learning_rate_schedule", "summary_freq", "normalize", "keep_checkpoints"),
    *("checkpoint_interval", "memory_size", "use_recurrent", "reward_signals", "pretraining", "behavioral_cloning"),
}
OF_PPO = {"beta", "epsilon", "lambd", "num_epoch", "beta_schedule", "epsilon_schedule"}
OF_SAC = {
    *("buffer_init_steps", "init_entcoef", "num_update", "train_interval", "steps_per_update", "tau"),
    *("save_replay_buffer", "sequence_length", "vis_encode_type", "reward_signal_num_update"),
}
# Keys that stand for nothing here: the other trainer's, or the engine's.
WITHOUT = {
    *("time_horizon", "threaded", "init_path", "self_play", "deterministic", "goal_conditioning_type", "shared_critic"),
    *("even_checkpoints", "use_actions", "memory", "conditioning_type", "reward_signal_steps_per_update", "model_path"),
    *("summary_path", "run_id", "load", "train", "curiosity_strength"),
}
NESTED = ("hyperparameters", "network_settings")


def is_trainer_file(document: Any) -> bool:
    """Return whether a document has the form of a trainer file of ML-Agents."""
    if not isinstance(document, dict):
        return False
    if isinstance(document.get("behaviors"), dict) or isinstance(document.get("default_settings"), dict):
        return True
    sections = [section for section in document.values() if isinstance(section, dict)]
    return any({"trainer", "trainer_type"} & section.keys() for section in sections)


def trainer_sections(
    document: dict[str, Any], path: str, num_env: int = 1, wanted: Callable[[str], bool] = lambda name: True
) -> dict[str, dict[str, str]]:
    """Translate a trainer file to sections of arguments as they would be typed.

    Args:
        document: the file's content.
        path: name of the file, for warnings and errors.
        num_env: environments that a buffer is shared out over.
        wanted: returns whether a section is of interest; others are left out.
    """
    later = "behaviors" in document or "default_settings" in document
    behaviors = dict(document.get("behaviors") or {}) if later else dict(document)
    common = (document.get("default_settings") or {}) if later else behaviors.pop(DEFAULT, {})
    sections = behaviors | ({DEFAULT: {}} if common else {})
    translated = {}
    for name, section in sections.items():
        if not isinstance(section, dict | None):
            raise UsageError(f"'{path}', section {name}: no settings of a behavior")
        if wanted(str(name)):
            place = f"'{path}', section {name}"
            own = _flat(section or {})
            # Default settings of the other trainer are no mistake.
            _name_others(own or _flat(common), {**_flat(common), **own}, place)
            translated[str(name)] = _translated(_flat(common) | own, place, num_env)
    return translated


def section_of(document: dict[str, Any], path: str, own: Sequence[str], num_env: int) -> tuple[str, dict[str, str]]:
    """Translate the section of one environment: of its id, else the default one, else the only behavior of the file.

    Args:
        document, path, num_env: see `trainer_sections`.
        own: names under which the environment may have a section.

    Returns:
        The section's name, and its arguments as they would be typed.
    """
    sections = document.get("behaviors") or {} if "behaviors" in document else document
    named = [name for name in own if name in sections]
    behaviors = [str(name) for name, section in sections.items() if name != DEFAULT and isinstance(section, dict)]
    common = document.get("default_settings") or document.get(DEFAULT)
    chosen = named[0] if named else DEFAULT if common or len(behaviors) != 1 else behaviors[0]
    if chosen == DEFAULT and not common:
        raise UsageError(f"'{path}' has no section for {own[-1]}, nor a default one: it has {', '.join(behaviors)}")
    words = trainer_sections(document, path, num_env, lambda name: name == chosen)[chosen]
    # The later form has samplers and curricula in the same file.
    return chosen, words | ({"env_parameters": path} if document.get("environment_parameters") else {})


def _flat(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a section without the groups of the later form."""
    found = {key: value for key, value in section.items() if key not in NESTED}
    for group in NESTED:
        inner = dict(section.get(group) or {})
        if isinstance(inner.get("memory"), dict):
            found |= {"use_recurrent": True} | inner.pop("memory")
        found |= inner
    return found


def _translated(settings: dict[str, Any], place: str, num_env: int) -> dict[str, str]:
    trainer = str(settings.get("trainer_type", settings.get("trainer", "ppo")))
    if trainer not in TRAINERS:
        raise UsageError(f"{place}: {unknown('trainer', trainer, TRAINERS)}")
    alg = TRAINERS[trainer]
    values = COMMON | USUAL[alg] | {key: value for key, value in settings.items() if value is not None}
    try:
        words = {"alg": alg, "num_timesteps": float(values["max_steps"])} | _network(values, alg) | _signals(values)
        words |= (_of_ppo if alg == "ppo2" else _of_sac)(values, num_env)
    except (TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{place}: a setting has no number where it needs one ({error!s:.100})") from None
    if "keep_checkpoints" in settings:
        words["keep_checkpoints"] = settings["keep_checkpoints"]
    if "checkpoint_interval" in settings:
        words["save_every"] = settings["checkpoint_interval"]
    return {name: json.dumps(value) if isinstance(value, dict) else str(value) for name, value in words.items()}


def _name_others(own: Mapping[str, Any], settings: Mapping[str, Any], place: str) -> None:
    """Warn, in one line, of a section's own keys without a counterpart, and of unknown ones among all its settings."""
    sac = settings.get("trainer_type", settings.get("trainer")) == "sac"
    known = TRANSLATED | (OF_SAC if sac else OF_PPO)
    every = TRANSLATED | OF_PPO | OF_SAC | WITHOUT
    without = sorted(key for key in own if key not in known and key in every)
    strange = [str(key) for key in settings if key not in every]
    parts = [f"{', '.join(without)} {'has' if len(without) == 1 else 'have'} no counterpart here"] if without else []
    for key in strange:
        guess = nearest(key, every)
        parts.append(f"'{key:.80}' is unknown" + (f", did you mean '{guess}'?" if guess else ""))
    if parts:
        warn(f"{place}: {'; '.join(parts)}")


def _network(values: Mapping[str, Any], alg: str) -> dict[str, Any]:
    units, layers = int(values["hidden_units"]), int(values["num_layers"])
    words: dict[str, Any] = {"normalize_observations": bool(values.get("normalize", False))}
    memory = int(values.get("memory_size", 128)) if values.get("use_recurrent") else None
    if alg == "sac":
        words |= {"network": "dense", "hidden_sizes": [units] * layers}
        words |= {"memory_size": memory} if memory else {}
        words |= {"sequence_length": values["sequence_length"]} if memory and "sequence_length" in values else {}
        return words | ({"vis_encode_type": values["vis_encode_type"]} if "vis_encode_type" in values else {})
    if memory:
        # The memory is the LSTM's cell and output.
        return words | {"network": "lstm", "nlstm": max(1, memory // 2)}
    return words | {"network": "mlp", "num_layers": layers, "num_hidden": units}


def _signals(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the discount, the reward signals and the pretraining."""
    given = dict(values.get("reward_signals") or {})
    words: dict[str, Any] = {}
    if "reward_signal_num_update" in given:
        words["reward_signal_num_update"] = given.pop("reward_signal_num_update")
    signals = {name: dict(signal or {}) for name, signal in given.items()}
    for signal in signals.values():
        network = signal.pop("network_settings", None) or {}
        if "hidden_units" in network:
            signal.setdefault("encoding_size", network["hidden_units"])
        if signal.get("use_actions"):
            # There a discriminator that sees actions sees the ends of episodes as well.
            signal.setdefault("use_done", True)
    extrinsic = signals.get("extrinsic", {})
    words["gamma"] = extrinsic.get("gamma", 0.99)
    if signals.keys() - {"extrinsic"}:
        words["reward_signals"] = signals
    elif extrinsic.get("strength", 1.0) != 1.0:
        words["reward_scale"] = extrinsic["strength"]
    cloning = values.get("behavioral_cloning") or values.get("pretraining") or {}
    cloning = {key: value for key, value in cloning.items() if key in Pretraining.arguments()}
    return words | ({"pretraining": cloning} if cloning else {})


def _scheduled(value: Any, schedule: Any) -> Any:
    return f"linear_{value}" if schedule == "linear" else value


def _of_ppo(values: Mapping[str, Any], num_env: int) -> dict[str, Any]:
    steps = max(1, round(int(values["buffer_size"]) / num_env))
    minibatches = max(1, round(steps * num_env / int(values["batch_size"])))
    rows = num_env if values.get("use_recurrent") else steps * num_env
    while rows % minibatches:
        minibatches -= 1
    schedule = values["learning_rate_schedule"]
    return {
        "nsteps": steps,
        "nminibatches": minibatches,
        "noptepochs": values["num_epoch"],
        "lam": values["lambd"],
        "lr": _scheduled(values["learning_rate"], schedule),
        "ent_coef": _scheduled(values["beta"], values.get("beta_schedule", schedule)),
        "cliprange": _scheduled(values["epsilon"], values.get("epsilon_schedule", schedule)),
        "log_interval": max(1, round(float(values["summary_freq"]) / (steps * num_env))),
    }


def _of_sac(values: Mapping[str, Any], num_env: int) -> dict[str, Any]:
    words = {
        "batch_size": values["batch_size"],
        "replay_size": values["buffer_size"],
        "lr": _scheduled(values["learning_rate"], values["learning_rate_schedule"]),
        "alpha": f"auto_{values['init_entcoef']}",
        "polyak": 1.0 - float(values["tau"]),
        "steps_per_epoch": int(float(values["summary_freq"])),
    }
    words |= {
        key: values[key]
        for key in ("buffer_init_steps", "num_update", "train_interval", "save_replay_buffer")
        if key in values
    }
    if "steps_per_update" in values and "num_update" not in values:
        every = int(values.get("train_interval", 50))
        words |= {"train_interval": every, "num_update": max(1, round(every / float(values["steps_per_update"])))}
    return words
