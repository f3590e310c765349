"""Behaviour cloning beside reinforcement learning, and its arguments: JSON text, or a dict."""

from dataclasses import dataclass
from typing import Any

from tfbaselines.errors import bad_argument
from tfbaselines.settings.config import Config, Declared, arg
from tfbaselines.settings.groups import declared_of, mapping_of

EXAMPLE = '{"demo_path": "demo.npz", "strength": 1.0, "steps": 20000}'


@dataclass(frozen=True, kw_only=True)
class Pretraining(Declared):
    """Arguments of behaviour cloning beside reinforcement learning."""

    demo_path: str | None = arg(None, "demonstrations, as bc's --demo_path")
    strength: float = arg(1.0, "learning rate of cloning, as a share of the policy's", at_least=0)
    steps: int = arg(0, "environment steps in which the strength goes down to 0, linearly; 0 to keep it", at_least=0)
    batch_size: int = arg(128, "demonstrated steps in a gradient step", at_least=1)
    sequence_length: int = arg(64, "steps of the sequences that a policy with memory learns from", at_least=1)

    def check(self) -> None:
        """See Declared."""
        if not self.demo_path:
            raise bad_argument("demo_path", self.demo_path, "a file of demonstrations, or minari:ID")


@dataclass(frozen=True, kw_only=True)
class PretrainingConfig(Config):
    """Of algorithms that can learn from demonstrations beside rewards."""

    pretraining: str | dict[str, Any] | None = arg(
        None,
        f"behaviour cloning beside the algorithm's own steps, as a dict or as JSON, such as {EXAMPLE}; None for none",
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
        return declared_of(Pretraining, "pretraining", mapping_of("pretraining", self.pretraining, EXAMPLE), "")
