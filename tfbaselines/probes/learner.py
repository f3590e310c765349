"""Signs in a learner at work: how its parameters, its target network and its replay behave in a short training."""

from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np

from tfbaselines.doctor.findings import number
from tfbaselines.learn.optimizers import KerasRule, RMSProp
from tfbaselines.probes.signs import Sign, array_of

# Movement of a parameter in a gradient step, as a share of its size.
SMALL, TINY = 1e-5, 2e-6
LARGE, HUGE = 0.05, 0.3
# Least size of an array: biases begin at 0.
SMALLEST = 0.05
# Divergence of the policy from that before an update.
STILL, JUMP, LEAP = 1e-9, 0.3, 1.0
# Gradient steps without a movement of the target network after which it is frozen: trials copy it more often.
LEAST_STEPS = 300
# Rows of the replay that are drawn.
DRAWN = 512


class Record:
    """Numbers of a training, update by update: a callback's judge that never ends it.

    Attributes:
        moved: shares of their size by which parameters moved in a gradient step, for each update.
        divergence: of the policy from that before, for each update.
        lag: distance of the target network from the network, over the distance that the network moved.
        copied: updates after which both were equal.
        still: updates in which the network moved, and the target network did not.
        counted: updates in which the network moved.
        steps: gradient steps.
        by_gradients: an optimizer with a learning rate takes the steps; evolution and natural gradients have none.
        drawn: different transitions in DRAWN draws from the replay, and transitions that it holds; None without one.

    Args:
        obs: observations at which the policy is compared.
        most: updates after which the training ends.
    """

    def __init__(self, obs: np.ndarray | None, most: int) -> None:
        self._obs = obs
        self._most = most
        self._before: list[np.ndarray] | None = None
        # Sizes of the parameters at first: later ones may have grown with steps that are too large.
        self._sizes: list[float] = []
        self._target: list[np.ndarray] | None = None
        self._policy: tuple[np.ndarray, np.ndarray] | None = None
        self._steps = 0
        self.moved: list[np.ndarray] = []
        self.divergence: list[float] = []
        self.lag: list[float] = []
        self.copied = 0
        self.still = 0
        self.counted = 0
        self.steps = 0
        self.by_gradients = False
        self.drawn: tuple[int, int] | None = None

    def __call__(self, run: Any) -> bool | None:
        now = [array_of(variable) for variable in run.model.policy.trainable_variables]
        if self._before is None:
            self._sizes = [max(float(np.sqrt(np.square(array).mean())), SMALLEST) for array in now]
        else:
            self._compare(run, now)
        self._before = now
        if self.counted < self._most:
            return None
        self.drawn = drawn_from(run)
        return True

    def _compare(self, run: Any, now: list[np.ndarray]) -> None:
        distance = joint_norm([a - b for a, b in zip(now, self._before, strict=True)])
        if distance == 0:
            return
        self.counted += 1
        taken = self._taken(run)
        self.steps += taken
        moves = zip(now, self._before, self._sizes, strict=True)
        shares = [np.sqrt(np.square(a - b).mean()) / size for a, b, size in moves]
        self.moved.append(np.array(shares) / max(1, taken))
        self._compare_policy(run)
        self._compare_target(run, now, distance)

    def _taken(self, run: Any) -> int:
        """Count the gradient steps since the last update, by the counters of optimizers and engine; 1 without one."""
        rules = [run.model.optimizer, *run.model.optimizers.values()]
        update = getattr(run.model, "update", None)
        rules += [phase.rule for phase in getattr(update, "phases", ())]
        # Evolution takes large steps along noise.
        self.by_gradients = run.algorithm.values and any(
            isinstance(rule, keras.optimizers.Optimizer | KerasRule | RMSProp) for rule in rules
        )
        counts = [int(rule.iterations) for rule in rules if isinstance(rule, keras.optimizers.Optimizer)]
        counts += [int(update.step)] if hasattr(update, "step") else []
        steps = max(counts, default=self._steps + 1)
        taken = steps - self._steps
        self._steps = steps
        return max(1, taken)

    def _compare_policy(self, run: Any) -> None:
        policy = run.model.policy
        if (
            self._obs is None
            or policy.recurrent
            or getattr(run.model, "averaged", None)
            or not hasattr(policy.head, "neglogp_numpy")
        ):
            return
        flat = np.asarray(policy.forward(self._obs).flat)
        if self._policy is not None:
            actions, before = self._policy
            self.divergence.append(float(np.mean(policy.head.neglogp_numpy(flat, actions) - before)))
        noise = policy.head.draw_noise(np.random.default_rng(0), (len(flat),))
        actions = policy.head.sample_numpy(flat, noise)
        self._policy = actions, policy.head.neglogp_numpy(flat, actions)

    def _compare_target(self, run: Any, now: list[np.ndarray], distance: float) -> None:
        averaged = getattr(run.model, "averaged", None)
        if averaged is None:
            return
        target = [array_of(variable) for variable in averaged.policy.trainable_variables]
        apart = joint_norm([a - b for a, b in zip(now, target, strict=True)])
        self.lag.append(apart / distance)
        self.copied += apart == 0
        if self._target is not None:
            self.still += joint_norm([a - b for a, b in zip(target, self._target, strict=True)]) == 0
        self._target = target


def joint_norm(arrays: list[np.ndarray]) -> float:
    """Return the norm of all arrays as one vector."""
    return float(np.sqrt(sum(float(np.square(array, dtype=np.float64).sum()) for array in arrays)))


def drawn_from(run: Any) -> tuple[int, int] | None:
    """Draw from the replay of a run; return the different transitions and those that it holds."""
    replay = getattr(run.model, "replay", None)
    if replay is None or run.model.policy.recurrent or not hasattr(run, "draw"):
        return None
    blocks = run.draw(max(1, -(-DRAWN // int(run.config.batch_size))))
    rewards = blocks["rewards"].reshape(-1, 1)
    columns = [
        np.reshape(blocks[name], (len(rewards), -1))
        for name in ("obs", "actions")
        if isinstance(blocks[name], np.ndarray)
    ]
    return len(np.unique(np.concatenate([*columns, rewards], axis=1), axis=0)), min(len(rewards), len(replay))


def learner_signs(record: Record) -> Iterator[Sign]:
    """Judge what was recorded."""
    if record.counted < 3:
        if record.counted == 0:
            yield Sign("no_update", "no parameter moved in the trial", 0.9)
        return
    moved = np.nanmedian(np.array(record.moved), axis=0)
    if record.by_gradients:
        yield from _step_signs(float(np.median(moved)))
    frozen = int((np.array(record.moved).max(0) == 0).sum())
    if frozen:
        yield Sign("frozen_weights", f"{frozen} of {len(moved)} arrays never move", 0.5)
    yield from _policy_signs(record)
    yield from _target_signs(record)
    if record.drawn is not None:
        different, drawn = record.drawn
        if different < 0.05 * drawn or drawn < 8:
            yield Sign("replay", f"{different} different transitions in {DRAWN} draws, of {drawn} that it holds", 0.95)


def _step_signs(typical: float) -> Iterator[Sign]:
    value = f"{number(typical)} of their size in a gradient step"
    if typical < SMALL:
        yield Sign("small_steps", value, 0.93 if typical < TINY else 0.75)
    elif typical > LARGE:
        yield Sign("large_steps", value, 0.75 if typical > HUGE else 0.5)


def _policy_signs(record: Record) -> Iterator[Sign]:
    if len(record.divergence) < 3:
        return
    typical, large = float(np.median(np.abs(record.divergence))), float(np.quantile(record.divergence, 0.8))
    # Tables and evolution change the likeliest action now and then.
    if typical < STILL and record.by_gradients:
        yield Sign("policy_still", f"{number(typical)} in an update", 0.6)
    elif large > JUMP:
        value = f"{number(large)} in a fifth of the updates, {number(max(record.divergence))} at most"
        yield Sign("policy_jumps", value, 0.85 if large > LEAP else 0.7)


def _target_signs(record: Record) -> Iterator[Sign]:
    if len(record.lag) < 3:
        return
    in_update = record.steps / record.counted
    if record.still == len(record.lag) - 1 and record.steps >= LEAST_STEPS:
        yield Sign("target_frozen", f"it did not move in {record.steps} gradient steps", 0.93)
    elif record.copied >= 0.9 * record.counted and in_update <= 4:
        yield Sign("target_copied", f"equal after {record.copied} of {record.counted} updates", 0.95)


def one_step_at_a_time(own: Mapping[str, Any]) -> dict[str, int]:
    """Return arguments for one gradient step after each environment step, where an algorithm has them."""
    return {name: 1 for name in ("update_every", "train_freq", "gradient_steps") if name in own}
