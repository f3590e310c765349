"""The replay memory of whole episodes (buffer_len): batches of traces, large batches in parts."""

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfbaselines.algs.acer.replay import (
    FENCES,
    FramePacker,
    Trajectory,
    check_layout,
    counter,
    counts_of,
    flatten,
    make_packer,
    pack,
    part_of,
    size_of,
    stack,
    unflatten,
    unpack,
    valid_steps,
)
from tfbaselines.envs.vec import VecEnv
from tfbaselines.files import in_units, require_memory
from tfbaselines.logs import logger
from tfbaselines.parallel import mpi
from tfbaselines.policy.encoding import observation_dtype

EPISODES = "whole episodes"

# A batch of traces with more bytes of observations is learned from in parts. Each observation counts at least LEAST_ROW
# bytes, because networks compute larger arrays from a small one.
PART_BYTES = 2**26
LEAST_ROW = 2**10
# Memory while a part is learned from, in units of its observations.
LEARNING_FACTOR = 8


class Trace(NamedTuple):
    """Steps start to start + length - 1 of an episode that is kept in pieces."""

    episode: list[Trajectory]
    start: int
    length: int


def _flattened(episodes: Sequence[list[Trajectory]]) -> dict[str, Any]:
    """Concatenate the arrays of all pieces of episodes, and count the pieces of each."""
    counts = np.array([len(episode) for episode in episodes], np.int64)
    return flatten([piece for episode in episodes for piece in episode]) | {"counts": counts}


class Parts:
    """A batch of traces in parts; every pass over it unpacks the traces again."""

    def __init__(self, parts: list[list[Trace]], stacked: Callable[[list[Trace]], Trajectory]) -> None:
        self._parts = parts
        self._stacked = stacked

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[Trajectory]:
        return map(self._stacked, self._parts)

    def weighted(self, prepare: Callable[[Trajectory], Trajectory]) -> Iterator[tuple[Trajectory, float]]:
        """Yield each prepared part with the number of its valid steps."""
        return ((prepare(part), valid_steps(part)) for part in self)


class TraceReplay:
    """The latest whole episodes; a batch has some of them, drawn independently.

    Episodes are kept in the pieces that rollouts cut them into, and a batch unpacks only the pieces that it needs.

    Args:
        env: the environments.
        capacity: episodes to keep.
        batch_size: traces in a batch.
        length: steps to which each trace is cut; None takes whole episodes.
        comm: ranks that sample together; None for all.
        random_start: cut from a random step of the episode, otherwise from its first.
    """

    def __init__(
        self,
        env: VecEnv,
        capacity: int,
        batch_size: int,
        length: int | None = None,
        comm: mpi.Communicator | None = None,
        random_start: bool = True,
    ) -> None:
        space = env.observation_space
        self._packer = make_packer(env)
        self._spaces = space, env.action_space
        self._count = env.num_envs
        self._row = max(LEAST_ROW, math.prod(space.shape) * np.dtype(observation_dtype(space)).itemsize)
        self._batch_size = batch_size
        self._length = length
        self._random_start = random_start
        self._comm = mpi.wrap(comm)
        self._episodes: deque[list[Trajectory]] = deque(maxlen=capacity)
        # Pieces of the unfinished episodes, by environment.
        self._open: list[list[Trajectory]] = [[] for _ in range(self._count)]
        self._seen = 0
        # Finished episodes so far.
        self._stored = 0
        self.item_nbytes = 0

    def put(self, batch: Trajectory) -> None:
        """Store a rollout of all environments, and log the memory of the full replay after the first episode."""
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
                    self._stored += 1
        if self._episodes and not self.item_nbytes:
            self.item_nbytes = sum(map(size_of, self._episodes[0]))
            logger.info(self._announcement(self._episodes[0]))

    def _announcement(self, episode: list[Trajectory]) -> str:
        """Describe the memory of the replay and of a batch; UsageError when there is not enough."""
        kept = self.item_nbytes * self._episodes.maxlen
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
        """Return whether this many steps of every environment were stored and an episode has ended."""
        return bool(self._episodes) and self._seen >= steps * self._count

    def sample(self, rng: np.random.Generator) -> Trajectory | Parts:
        """Draw a batch [batch_size, ...], padded at the end to one length by steps that are truncated.

        Returns:
            The batch, in parts of different lengths if it has more than PART_BYTES of observations. Every rank has
            the same shape, or parts (perhaps a single one), because otherwise the ranks' messages would differ.
        """
        numbers = rng.integers(len(self._episodes), size=self._batch_size)
        traces = [self._drawn(self._episodes[number], rng) for number in numbers]
        length = int(self._comm.max([self._padded_length(max(trace.length for trace in traces))])[0])
        if self._nbytes(length) * len(traces) > PART_BYTES:
            return Parts(self._cut(traces), self._stacked)
        return self._stacked(traces, length)

    def _cut(self, traces: list[Trace]) -> list[list[Trace]]:
        """Split the traces into parts of similar length."""
        parts = []
        rest = sorted(traces, key=lambda trace: -trace.length)
        while rest:
            count = max(1, PART_BYTES // self._nbytes(self._padded_length(rest[0].length)))
            parts.append(rest[:count])
            rest = rest[count:]
        return parts

    def _padded_length(self, steps: int) -> int:
        """Round up to a power of two, because the update is compiled once for each length."""
        return self._length or 1 << (steps - 1).bit_length()

    def _nbytes(self, steps: int) -> int:
        """Return the bytes of the unpacked observations of this many steps."""
        return (steps + 1) * self._row

    def _stacked(self, traces: list[Trace], length: int | None = None) -> Trajectory:
        length = length or self._padded_length(max(trace.length for trace in traces))
        return stack([padded(self._unpacked(trace), length) for trace in traces])

    # A replay that is kept: see training/kept_replay.py.

    def span(self) -> tuple[int, int]:
        return self._stored - len(self._episodes), self._stored

    def items(self, first: int, last: int) -> dict[str, Any]:
        begin, _ = self.span()
        return _flattened(list(itertools.islice(self._episodes, first - begin, last - begin)))

    def state(self) -> dict[str, Any]:
        return {"layout": EPISODES, "stored": self._stored, "seen": self._seen, "open": _flattened(self._open)}

    def rebuild(
        self, state: dict[str, Any], pieces: Iterable[tuple[int, dict[str, Any]]], episodes_continue: bool
    ) -> None:
        check_layout(state, EPISODES)
        stored, seen = counter(state, "stored"), counter(state, "seen")
        unfinished = self._episodes_of(state.get("open"), 0)
        episodes = [episode for _, piece in pieces for episode in self._episodes_of(piece, 1)]
        self._stored, self._seen = stored, seen
        self._episodes.clear()
        self._episodes.extend(episodes)
        # Environments that begin anew do not finish them.
        continues = episodes_continue and len(unfinished) == self._count
        self._open = unfinished if continues else [[] for _ in range(self._count)]

    def _episodes_of(self, state: dict[str, Any], least: int) -> list[list[Trajectory]]:
        """Split the arrays of `_flattened` into episodes again; each must have at least `least` pieces."""
        sequences = unflatten(state, *self._spaces, packed=isinstance(self._packer, FramePacker))
        rest = iter(sequences)
        return [[next(rest) for _ in range(count)] for count in counts_of(state, len(sequences), least)]

    def _drawn(self, episode: list[Trajectory], rng: np.random.Generator) -> Trace:
        total = sum(len(piece["rewards"]) for piece in episode)
        length = min(total, self._length or total)
        start = int(rng.integers(total - length + 1)) if self._random_start else 0
        return Trace(episode, start, length)

    def _unpacked(self, trace: Trace) -> Trajectory:
        """Unpack the pieces that the trace needs."""
        borders = np.cumsum([0, *(len(piece["rewards"]) for piece in trace.episode)])
        end = trace.start + trace.length
        first = int(np.searchsorted(borders, trace.start, side="right")) - 1
        last = int(np.searchsorted(borders, end, side="left"))
        pieces = [unpack(piece, self._packer) for piece in trace.episode[first:last]]
        return between(joined(pieces), trace.start - int(borders[first]), end - int(borders[first]))


def between(sequence: Trajectory, start: int, end: int) -> Trajectory:
    """Cut out the steps start to end - 1."""
    return {name: array[start : end + (name in FENCES)] for name, array in sequence.items()}


def joined(pieces: list[Trajectory]) -> Trajectory:
    """Join successive pieces of one episode."""
    without_last = [
        {name: array[:-1] if name in FENCES else array for name, array in piece.items()} for piece in pieces[:-1]
    ]
    return {name: np.concatenate([piece[name] for piece in [*without_last, pieces[-1]]]) for name in pieces[0]}


def padded(sequence: Trajectory, length: int) -> Trajectory:
    """Lengthen a sequence by repetitions of its last step, marked as truncated so that losses skip them."""
    missing = length - len(sequence["rewards"])
    if missing == 0:
        return sequence
    longer = {name: np.concatenate([array, np.repeat(array[-1:], missing, 0)]) for name, array in sequence.items()}
    longer["truncated"][-missing:] = 1.0
    return longer
