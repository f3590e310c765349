"""Groups of arguments: reward signals (a dict of dicts) and pretraining (a dict), both also as JSON text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfbaselines.config.config import Declared, arg, declared_of, mapping_of
from tfbaselines.errors import bad_argument, unknown
from tfbaselines.limits import COUNT, ROWS, UNITS


@dataclass(kw_only=True)
class Signal(Declared):
    """Arguments of every signal."""

    strength: float = arg(1.0, "weight of the signal's advantages or values in the policy's objective", at_least=0)
    gamma: float = arg(0.99, "discount factor of the signal's returns", at_least=0, at_most=1)


@dataclass(kw_only=True)
class Extrinsic(Signal):
    """The environment's rewards."""


@dataclass(kw_only=True)
class LearntSignal(Signal):
    """Arguments of every signal with networks."""

    encoding_size: int = arg(64, "units of each layer of the signal's networks", at_least=1, limit=UNITS)
    learning_rate: float = arg(3e-4, "learning rate of the signal's networks", at_least=0)


@dataclass(kw_only=True)
class Rnd(LearntSignal):
    """Random network distillation: the error of a network that predicts the output of a random network."""


@dataclass(kw_only=True)
class Curiosity(LearntSignal):
    """Curiosity: the error of a model that predicts the encoding of the next observation."""


@dataclass(kw_only=True)
class Gail(LearntSignal):
    """Imitation: the logits of a discriminator between the agent's steps and demonstrations."""

    demo_path: str | None = arg(None, "demonstrations, as gail's --demo_path")
    use_actions: bool = arg(False, "the discriminator gets actions as well as observations")

    def check(self) -> None:
        if not self.demo_path:
            raise bad_argument("demo_path", self.demo_path, "a file of demonstrations, or minari:ID")


SIGNALS: dict[str, type[Signal]] = {"extrinsic": Extrinsic, "curiosity": Curiosity, "gail": Gail, "rnd": Rnd}

EXAMPLE = '{"extrinsic": {"strength": 1.0, "gamma": 0.99}, "rnd": {"strength": 0.1}}'


@dataclass(kw_only=True)
class SignalsConfig(Declared):
    """Arguments of algorithms that learn from reward signals."""

    reward_signals: str | dict[str, Any] | None = arg(
        None,
        f"reward signals by name ({', '.join(SIGNALS)}) with their arguments, as a dict or as JSON, such as {EXAMPLE}; "
        "None for the environment's rewards alone",
    )
    reward_signal_num_update: int | None = arg(
        None,
        "gradient steps of each signal in an update; None for as many as the policy's",
        at_least=1,
        limit=COUNT,
    )

    def check(self) -> None:
        super().check()
        if self.signals is None and self.reward_signal_num_update is not None:
            raise bad_argument("reward_signal_num_update", self.reward_signal_num_update, "needs reward_signals")

    @property
    def signals(self) -> dict[str, Signal] | None:
        """The signals by name; None for the environment's rewards alone, with one value function."""
        return None if self.reward_signals is None else parse_signals(self.reward_signals)


def parse_signals(given: Any) -> dict[str, Signal]:
    """Parse and check reward signals.

    Args:
        given: dict of the signals' arguments by the signals' names, or the same as JSON.
    """
    signals = mapping_of("reward_signals", given, EXAMPLE)
    return {name: _parse_signal(name, arguments) for name, arguments in signals.items()}


def reads_demonstrations(given: Any) -> bool:
    """Return True if reward signals name a file of demonstrations."""
    try:
        return given is not None and any(hasattr(signal, "demo_path") for signal in parse_signals(given).values())
    except ValueError:
        return False


def _parse_signal(name: Any, arguments: Any) -> Signal:
    if name not in SIGNALS:
        raise unknown("reward signal", str(name), SIGNALS)
    if not isinstance(arguments, Mapping):
        raise bad_argument(f"reward_signals: {name}", arguments, 'a dict of its arguments, such as {"strength": 1.0}')
    return declared_of(SIGNALS[name], name, arguments, "reward_signals: ")


CLONING_EXAMPLE = '{"demo_path": "demo.npz", "strength": 1.0, "steps": 20000}'


@dataclass(kw_only=True)
class Pretraining(Declared):
    """Arguments of behavior cloning in addition to reinforcement learning."""

    demo_path: str | None = arg(None, "demonstrations, as bc's --demo_path")
    strength: float = arg(1.0, "learning rate of cloning as a fraction of the policy's learning rate", at_least=0)
    steps: int = arg(
        0, "environment steps over which the strength decays linearly to 0; 0 for a constant strength", at_least=0
    )
    batch_size: int = arg(128, "demonstrated steps in a minibatch", at_least=1, limit=ROWS)
    sequence_length: int = arg(64, "length of the training sequences of a recurrent policy", at_least=1, limit=COUNT)

    def check(self) -> None:
        if not self.demo_path:
            raise bad_argument("demo_path", self.demo_path, "a file of demonstrations, or minari:ID")


@dataclass(kw_only=True)
class PretrainingConfig(Declared):
    """Arguments of algorithms that can learn from demonstrations and rewards."""

    pretraining: str | dict[str, Any] | None = arg(
        None,
        f"behavior cloning in addition to the algorithm's own updates, as a dict or as JSON, such as "
        f"{CLONING_EXAMPLE}; None for none",
    )

    def check(self) -> None:
        super().check()
        _ = self.cloning

    @property
    def cloning(self) -> Pretraining | None:
        """Arguments of the group; None without cloning."""
        if self.pretraining is None:
            return None
        return declared_of(Pretraining, "pretraining", mapping_of("pretraining", self.pretraining, CLONING_EXAMPLE), "")
