"""The reward signals that an algorithm can learn from, and their arguments: JSON text, or a dict of dicts.

Behaviour cloning beside reinforcement learning, and its arguments: JSON text, or a dict.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfbaselines.config.config import Declared, arg, declared_of, mapping_of
from tfbaselines.errors import bad_argument, unknown
from tfbaselines.limits import COUNT, ROWS, UNITS


@dataclass(kw_only=True)
class Signal(Declared):
    """Arguments of every signal."""

    strength: float = arg(1.0, "factor of its advantages or values in what the policy ascends", at_least=0)
    gamma: float = arg(0.99, "discount per step of its returns", at_least=0, at_most=1)


@dataclass(kw_only=True)
class Extrinsic(Signal):
    """The environment's rewards."""


@dataclass(kw_only=True)
class LearntSignal(Signal):
    """Arguments of every signal with networks."""

    encoding_size: int = arg(64, "units of its layers", at_least=1, limit=UNITS)
    learning_rate: float = arg(3e-4, "of its networks", at_least=0)


@dataclass(kw_only=True)
class Rnd(LearntSignal):
    """Random network distillation: the error of a network that learns the outputs of a random one."""


@dataclass(kw_only=True)
class Curiosity(LearntSignal):
    """The error of a model that predicts the encoding of what follows an action."""


@dataclass(kw_only=True)
class Gail(LearntSignal):
    """How much a discriminator takes what the agent does for demonstrations."""

    demo_path: str | None = arg(None, "demonstrations, as gail's --demo_path")
    use_actions: bool = arg(False, "the discriminator sees actions beside observations")

    def check(self) -> None:
        """See Declared."""
        if not self.demo_path:
            raise bad_argument("demo_path", self.demo_path, "a file of demonstrations, or minari:ID")


SIGNALS: dict[str, type[Signal]] = {"extrinsic": Extrinsic, "curiosity": Curiosity, "gail": Gail, "rnd": Rnd}

EXAMPLE = '{"extrinsic": {"strength": 1.0, "gamma": 0.99}, "rnd": {"strength": 0.1}}'


@dataclass(kw_only=True)
class SignalsConfig(Declared):
    """Of algorithms that learn from reward signals."""

    reward_signals: str | dict[str, Any] | None = arg(
        None,
        f"rewards by name ({', '.join(SIGNALS)}), each with its arguments, as a dict or as JSON, such as {EXAMPLE}; "
        "None for the environment's alone",
    )
    reward_signal_num_update: int | None = arg(
        None,
        "gradient steps of each signal in an update; None for as many as the policy takes",
        at_least=1,
        limit=COUNT,
    )

    def check(self) -> None:
        """See Config."""
        super().check()
        if self.signals is None and self.reward_signal_num_update is not None:
            raise bad_argument("reward_signal_num_update", self.reward_signal_num_update, "needs reward_signals")

    @property
    def signals(self) -> dict[str, Signal] | None:
        """The signals by name; None for the environment's rewards alone, with one value."""
        return None if self.reward_signals is None else parse_signals(self.reward_signals)


def parse_signals(given: Any) -> dict[str, Signal]:
    """The signals by name, checked; ValueError in one line names the mistake.

    Args:
        given: a dict of each signal's arguments by the signal's name, or that as JSON.
    """
    signals = mapping_of("reward_signals", given, EXAMPLE)
    return {name: _parse_signal(name, arguments) for name, arguments in signals.items()}


def reads_demonstrations(given: Any) -> bool:
    """Whether reward signals, as given, name a file of demonstrations."""
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
    """Arguments of behaviour cloning beside reinforcement learning."""

    demo_path: str | None = arg(None, "demonstrations, as bc's --demo_path")
    strength: float = arg(1.0, "learning rate of cloning, as a share of the policy's", at_least=0)
    steps: int = arg(0, "environment steps in which the strength goes down to 0, linearly; 0 to keep it", at_least=0)
    batch_size: int = arg(128, "demonstrated steps in a gradient step", at_least=1, limit=ROWS)
    sequence_length: int = arg(
        64, "steps of the sequences that a policy with memory learns from", at_least=1, limit=COUNT
    )

    def check(self) -> None:
        """See Declared."""
        if not self.demo_path:
            raise bad_argument("demo_path", self.demo_path, "a file of demonstrations, or minari:ID")


@dataclass(kw_only=True)
class PretrainingConfig(Declared):
    """Of algorithms that can learn from demonstrations beside rewards."""

    pretraining: str | dict[str, Any] | None = arg(
        None,
        f"behaviour cloning beside the algorithm's own steps, as a dict or as JSON, such as "
        f"{CLONING_EXAMPLE}; None for none",
    )

    def check(self) -> None:
        """See Config."""
        super().check()
        _ = self.cloning

    @property
    def cloning(self) -> Pretraining | None:
        """The group's arguments; None for no cloning."""
        if self.pretraining is None:
            return None
        return declared_of(Pretraining, "pretraining", mapping_of("pretraining", self.pretraining, CLONING_EXAMPLE), "")
