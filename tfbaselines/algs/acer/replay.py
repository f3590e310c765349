"""Replays of sequences, for off-policy actor-critics: a runner that collects them, and batches of them.

A sequence is a dictionary of arrays: obs [L + 1, ...] and episode_start [L + 1] (1 where an observation is the first of
its episode), actions, rewards, terminated and truncated [L] (see algs/acer/loss.py) and mus [L, P], the parameters of
the distributions that actions were drawn from; for recurrent policies states [L, S] before each step, of which a replay
keeps the first. A batch has a leading axis.
"""

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from tfbaselines.algs.acer.storage import (
    FENCES,
    FramePacker,
    PlainPacker,
    Sequence,
    check_layout,
    counts_of,
    flatten,
    unflatten,
)
from tfbaselines.arrays import in_units, require_memory
from tfbaselines.envs.vec import VecEnv, VecFrameStack, find_wrapper
from tfbaselines.envs.vec.observations import is_image
from tfbaselines.errors import UsageError
from tfbaselines.parallel import mpi
from tfbaselines.policy.encoding import observation_dtype
from tfbaselines.rollout.rollout import Runner

EPISODES = "whole episodes"

# A batch of traces with more bytes of observations than these is learnt from in parts. Each observation counts for at
# least LEAST_ROW: what networks compute from a small one is larger.
PART_BYTES = 2**26
LEAST_ROW = 2**10
# A part's memory while it is learnt from, in units of its observations.
LEARNING_FACTOR = 8


class TraceRunner(Runner):
    """Collects sequences of nsteps, with the parameters that actions were drawn from; values are not computed.

    Attributes:
        episodes: the infos' 'episode' entries of the episodes that ended in the latest run.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        shape = (self.nsteps, self._env.num_envs)
        self._mus = np.zeros((*shape, self._head.param_size), np.float32)
        self._states_before = None if self._states is None else np.zeros((*shape, self._states.shape[1]), np.float32)
        self.episodes: list[dict[str, Any]] = []

    def run(self) -> Sequence:
        """Step every environment nsteps times; the batch [N, ...]."""
        rollout, noise = self._begin()
        for t in range(self.nsteps):
            if self._states is not None:
                self._states_before[t] = self._states
            actions, self._mus[t], self._states = self._actor.behave(
                self._obs, self._states, self._episode_start, noise[t]
            )
            # Truncated steps need no value: Retrace bootstraps at the step before them.
            self._record(rollout, t, actions)
        self.episodes, rollout.last_episode_start = rollout.episodes, self._episode_start
        batch = {
            "obs": np.concatenate([rollout.obs, self._obs[None]]),
            "episode_start": np.concatenate([rollout.episode_start, self._episode_start[None]]).astype(np.float32),
            "actions": rollout.actions,
            "rewards": rollout.rewards,
            "terminated": (rollout.ended & ~rollout.truncated).astype(np.float32),
            "truncated": rollout.truncated.astype(np.float32),
            "mus": self._mus,
        }
        if self._states is not None:
            batch["states"] = self._states_before
        return {name: array.swapaxes(0, 1).copy() for name, array in batch.items()}


class RolloutReplay:
    """The latest rollouts of every environment; a batch has one of each environment, drawn independently.

    Args:
        env: the environments.
        size: steps of each environment to keep.
        nsteps: steps of a rollout.
    """

    def __init__(self, env: VecEnv, size: int, nsteps: int) -> None:
        self._count, self._nsteps = env.num_envs, nsteps
        self._slots = max(1, size // nsteps)
        self._packer, self._spaces = make_packer(env), (env.observation_space, env.action_space)
        self._rollouts: deque[list[Sequence]] = deque(maxlen=self._slots)
        self._layout = f"rollouts of {nsteps} steps of {env.num_envs} environments"
        self._announced = False

    def put(self, batch: Sequence) -> str | None:
        """Store a rollout of all environments; after the first one, a line for the log on memory."""
        if "states" in batch:
            batch = batch | {"states": batch["states"][:, :1]}
        self._rollouts.append([pack(part_of(batch, i), self._packer) for i in range(self._count)])
        if self._announced:
            return None
        self._announced = True
        nbytes = sum(map(size_of, self._rollouts[-1])) * self._slots
        require_memory(nbytes, "buffer_size")
        return f"replay: about {in_units(nbytes)} when full, {self._slots * self._nsteps} steps of each environment"

    def has_atleast(self, steps: int) -> bool:
        """Whether so many steps of every environment are kept, in whole rollouts."""
        return len(self._rollouts) >= max(1, steps // self._nsteps)

    def sample(self, rng: np.random.Generator) -> Sequence:
        """A batch [N, ...]."""
        slots = rng.integers(len(self._rollouts), size=self._count)
        return stack([unpack(self._rollouts[slot][i], self._packer) for i, slot in enumerate(slots)])

    def state(self) -> dict[str, Any]:
        """All sequences."""
        return flatten([sequence for rollout in self._rollouts for sequence in rollout]) | {"layout": self._layout}

    def restore(self, state: dict[str, Any]) -> None:
        """Load what `state` returned; ValueError when it has other rollouts."""
        check_layout(state, self._layout)
        sequences, count = unflatten(state, *self._spaces, packed=isinstance(self._packer, FramePacker)), self._count
        if len(sequences) % count or any(len(one["rewards"]) != self._nsteps for one in sequences):
            raise UsageError(f"the saved replay is damaged: not {self._layout}")
        self._rollouts.clear()
        self._rollouts.extend(sequences[start : start + count] for start in range(0, len(sequences), count))

    def forget_unfinished(self) -> None:
        """See TraceReplay; rollouts are kept whole."""


class Trace(NamedTuple):
    """Steps start to start + length - 1 of an episode, which is in pieces."""

    episode: list[Sequence]
    start: int
    length: int


class Parts:
    """A batch of traces in parts; every pass over them unpacks the traces anew.

    Args:
        parts: the traces of each part.
        stacked: makes a batch of them.
    """

    def __init__(self, parts: list[list[Trace]], stacked: Callable[[list[Trace]], Sequence]) -> None:
        self._parts, self._stacked = parts, stacked

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[Sequence]:
        return map(self._stacked, self._parts)


class TraceReplay:
    """The latest whole episodes; a batch has some of them, drawn independently.

    Episodes are kept in the pieces that rollouts cut them into; only the pieces that a batch needs are unpacked.

    Args:
        env: the environments.
        capacity: how many episodes to keep.
        batch_size: how many traces make a batch.
        length: steps to which each trace is cut, from a random start; None takes whole episodes.
        comm: ranks that sample together; None for all.
    """

    def __init__(
        self,
        env: VecEnv,
        capacity: int,
        batch_size: int,
        length: int | None = None,
        comm: mpi.Communicator | None = None,
    ) -> None:
        self._packer, self._spaces = make_packer(env), (env.observation_space, env.action_space)
        self._count = env.num_envs
        space = env.observation_space
        self._row = max(LEAST_ROW, math.prod(space.shape) * np.dtype(observation_dtype(space)).itemsize)
        self._batch_size, self._length, self._comm = batch_size, length, mpi.wrap(comm)
        self._episodes: deque[list[Sequence]] = deque(maxlen=capacity)
        # Pieces of the episodes that have not ended, by environment.
        self._open: list[list[Sequence]] = [[] for _ in range(self._count)]
        self._seen = 0
        self._announced = False

    def put(self, batch: Sequence) -> str | None:
        """Store a rollout of all environments; after the first episode, a line for the log on memory."""
        self._seen += batch["rewards"].size
        for i in range(self._count):
            sequence = part_of(batch, i)
            ends = np.flatnonzero(sequence["terminated"] + sequence["truncated"]) + 1
            borders = [0, *ends, len(sequence["rewards"])]
            for number, (start, end) in enumerate(itertools.pairwise(borders)):
                if start < end:
                    self._open[i].append(pack(between(sequence, start, end), self._packer))
                if number < len(ends):
                    self._episodes.append(self._open[i])
                    self._open[i] = []
        if self._announced or not self._episodes:
            return None
        self._announced = True
        return self._announcement(self._episodes[0])

    def _announcement(self, episode: list[Sequence]) -> str:
        """A line for the log: memory of the replay, and of a batch; ValueError when these exceed what is free."""
        kept = sum(map(size_of, episode)) * self._episodes.maxlen
        steps = sum(len(piece["rewards"]) for piece in episode)
        trace = self._nbytes(self._padded_length(min(steps, self._length or steps)))
        batch = trace * self._batch_size
        require_memory(kept, "buffer_len")
        require_memory(trace * LEARNING_FACTOR, "trace_length", f"learning from a trace of {steps} steps")
        parts = f", in parts of at most {in_units(max(trace, PART_BYTES))}" if batch > PART_BYTES else ""
        return (
            f"replay: about {in_units(kept)} when full of episodes like the first, {self._episodes.maxlen}; "
            f"a batch of {self._batch_size} is {in_units(batch)}{parts}"
        )

    def has_atleast(self, steps: int) -> bool:
        """Whether so many steps of every environment were stored, and an episode has ended."""
        return bool(self._episodes) and self._seen >= steps * self._count

    def sample(self, rng: np.random.Generator) -> Sequence | Parts:
        """A batch [batch_size, ...], padded at the end to one length by steps that are truncated.

        Returns:
            The batch; one with more than PART_BYTES of observations in parts, of which each has its own length. On
            every rank it is of one shape, or in parts, which may be one alone: otherwise their messages would differ.
        """
        numbers = rng.integers(len(self._episodes), size=self._batch_size)
        traces = [self._drawn(self._episodes[number], rng) for number in numbers]
        length = int(self._comm.max([self._padded_length(max(trace.length for trace in traces))])[0])
        if self._nbytes(length) * len(traces) > PART_BYTES:
            return Parts(self._cut(traces), self._stacked)
        return self._stacked(traces, length)

    def _cut(self, traces: list[Trace]) -> list[list[Trace]]:
        """The traces in parts, those of similar length together."""
        rest, parts = sorted(traces, key=lambda trace: -trace.length), []
        while rest:
            count = max(1, PART_BYTES // self._nbytes(self._padded_length(rest[0].length)))
            parts.append(rest[:count])
            rest = rest[count:]
        return parts

    def _padded_length(self, steps: int) -> int:
        """Powers of two: the update is compiled once for each length."""
        return self._length or 1 << (steps - 1).bit_length()

    def _nbytes(self, steps: int) -> int:
        """Of the observations of so many steps, unpacked."""
        return (steps + 1) * self._row

    def _stacked(self, traces: list[Trace], length: int | None = None) -> Sequence:
        length = length or self._padded_length(max(trace.length for trace in traces))
        return stack([padded(self._unpacked(trace), length) for trace in traces])

    def state(self) -> dict[str, Any]:
        """All episodes, those that have not ended last."""
        pieces = [piece for episode in (*self._episodes, *self._open) for piece in episode]
        counts, going_on = (
            np.array([len(episode) for episode in episodes], np.int64) for episodes in (self._episodes, self._open)
        )
        return flatten(pieces) | {"pieces": counts, "open": going_on, "seen": self._seen, "layout": EPISODES}

    def restore(self, state: dict[str, Any]) -> None:
        """Load what `state` returned; ValueError when it does not hold episodes."""
        check_layout(state, EPISODES)
        pieces = unflatten(state, *self._spaces, packed=isinstance(self._packer, FramePacker))
        (counts, going_on), seen = counts_of(state, len(pieces)), state.get("seen")
        if type(seen) is not int or seen < 0:
            raise UsageError("the saved replay is damaged: it does not have the number of steps")
        rest = iter(pieces)
        self._episodes.clear()
        self._episodes.extend([next(rest) for _ in range(count)] for count in counts)
        self.forget_unfinished()
        if len(going_on) == self._count:
            self._open = [[next(rest) for _ in range(count)] for count in going_on]
        self._seen = seen

    def forget_unfinished(self) -> None:
        """Drop the episodes that have not ended, where the environments do not go on with them."""
        self._open = [[] for _ in range(self._count)]

    def _drawn(self, episode: list[Sequence], rng: np.random.Generator) -> Trace:
        total = sum(len(piece["rewards"]) for piece in episode)
        length = min(total, self._length or total)
        return Trace(episode, int(rng.integers(total - length + 1)), length)

    def _unpacked(self, trace: Trace) -> Sequence:
        """Only the pieces that the trace needs are unpacked."""
        borders = np.cumsum([0, *(len(piece["rewards"]) for piece in trace.episode)])
        end = trace.start + trace.length
        first = int(np.searchsorted(borders, trace.start, side="right")) - 1
        last = int(np.searchsorted(borders, end, side="left"))
        pieces = [unpack(piece, self._packer) for piece in trace.episode[first:last]]
        return between(joined(pieces), trace.start - int(borders[first]), end - int(borders[first]))


def part_of(batch: Sequence, number: int) -> Sequence:
    """One sequence of a batch."""
    return {name: array[number] for name, array in batch.items()}


def between(sequence: Sequence, start: int, end: int) -> Sequence:
    """Steps start to end - 1."""
    return {name: array[start : end + (name in FENCES)] for name, array in sequence.items()}


def joined(pieces: list[Sequence]) -> Sequence:
    """Successive pieces of one episode as one sequence."""
    without_last = [
        {name: array[:-1] if name in FENCES else array for name, array in piece.items()} for piece in pieces[:-1]
    ]
    return {name: np.concatenate([piece[name] for piece in [*without_last, pieces[-1]]]) for name in pieces[0]}


def padded(sequence: Sequence, length: int) -> Sequence:
    """A sequence, lengthened by repetitions of its last step that are marked as truncated, so that losses skip them."""
    missing = length - len(sequence["rewards"])
    if missing == 0:
        return sequence
    longer = {name: np.concatenate([array, np.repeat(array[-1:], missing, 0)]) for name, array in sequence.items()}
    longer["truncated"][-missing:] = 1.0
    return longer


def valid_steps(batch: Sequence) -> float:
    """The steps of a batch that losses are means over; see algs/acer/loss.py."""
    return max(1.0, float(np.sum(1.0 - batch["truncated"])))


def pack(sequence: Sequence, packer: FramePacker | PlainPacker) -> Sequence:
    """A copy of a sequence with packed observations."""
    return {name: packer.pack(array) if name == "obs" else array.copy() for name, array in sequence.items()}


def unpack(packed: Sequence, packer: FramePacker | PlainPacker) -> Sequence:
    """The sequence that `pack` was given."""
    return packed | {"obs": packer.unpack(packed["obs"], packed["episode_start"])}


def size_of(sequence: Sequence) -> int:
    """Bytes of a sequence's arrays."""
    return sum(array.nbytes for array in sequence.values())


def make_packer(env: VecEnv) -> FramePacker | PlainPacker:
    """The packer for an environment's observations."""
    space = env.observation_space
    if not is_image(space) or not isinstance(space, spaces.Box):
        return PlainPacker()
    stacked = find_wrapper(env, VecFrameStack)
    return FramePacker(space.shape, stacked.nstack if stacked else 1)


def stack(sequences: list[Sequence]) -> Sequence:
    """Sequences of one length as a batch."""
    return {name: np.stack([sequence[name] for sequence in sequences]) for name in sequences[0]}
