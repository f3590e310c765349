"""Atari in C++: ale-py steps the games in its threads, and episodes equal the ones that baselines' wrappers give.

ale-py does the no-ops at a game's start, frame skip, maximum over frames, gray scale and resizing. At the start of an
episode the wrappers take further steps of one game: a no-op after a lost life, FIRE and the action after it in games
that have them. The other games do not take these steps. Every game is therefore an AtariVectorEnv of size one, which is
as fast as a single one for all games.
"""

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from ale_py.vector_env import AtariVectorEnv
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from tfbaselines.envs.vec.base import StepResult, VecEnv

SIZE = 84
NOOP, FIRE, AFTER_FIRE = 0, 1, 2

# Seeding a game loads its ROM, which takes as long as some hundred steps. A resumed run replays the game from its last
# seeding: at most these steps and one game.
STEPS_BETWEEN_SEEDS = 10_000
# An entry of a game's actions: the game restarts.
BEGIN = 255


class NativeAtariVecEnv(VecEnv):
    """Several copies of one game: observations are frames [N, 84, 84, 1] uint8, rewards are clipped to their sign.

    Args:
        game: name of the ROM, such as 'pong'.
        num_envs: number of games.
        seed: seed of the games' random streams; None for any.
        noop_max: most no-op frames at a game's start.
        episode_life: end an episode with each lost life.
        clip_rewards: rewards become -1, 0 or 1; the 'episode' info keeps the game's rewards.
        max_frames: frames after which a game is truncated.
        writers: a monitor's ResultsWriter for each game; None writes no files.
    """

    def __init__(
        self,
        game: str,
        num_envs: int,
        seed: int | None = None,
        *,
        noop_max: int = 30,
        episode_life: bool = True,
        clip_rewards: bool = True,
        max_frames: int = 108_000,
        writers: list[Any] | None = None,
    ) -> None:
        writers = writers or [None] * num_envs
        self._rng = np.random.default_rng(seed)
        self._games = [_Game(game, noop_max, max_frames, writer, self._draw_seed) for writer in writers]
        actions = self._games[0].num_actions
        super().__init__(num_envs, spaces.Box(0, 255, (SIZE, SIZE, 1), np.uint8), spaces.Discrete(actions))
        self._episode_life = episode_life
        self._clip_rewards = clip_rewards
        self._frames = np.zeros((num_envs, SIZE, SIZE, 1), np.uint8)

    def _draw_seed(self) -> int:
        return int(self._rng.integers(2**31))

    def reset(self) -> np.ndarray:
        self.restored = False
        for i, game in enumerate(self._games):
            self._frames[i] = game.begin(seeded=True)
        return self._frames.copy()

    def step_async(self, actions: np.ndarray) -> None:
        self.check_actions(actions)
        for game, action in zip(self._games, np.asarray(actions, np.int64), strict=True):
            game.send(action)

    def step_wait(self) -> StepResult:
        rewards, dones = np.zeros(self.num_envs, np.float32), np.zeros(self.num_envs, bool)
        infos: list[dict[str, Any]] = []
        for i, game in enumerate(self._games):
            frame, rewards[i], lost_life = game.receive()
            info: dict[str, Any] = {}
            dones[i] = game.over or (lost_life and self._episode_life)
            if dones[i]:
                info = {"final_observation": frame.copy(), "TimeLimit.truncated": game.truncated}
                if game.over:
                    info["episode"] = game.episode
                frame = game.begin() if game.over else game.go_on()
            self._frames[i] = frame
            infos.append(info)
        return self._frames.copy(), np.sign(rewards) if self._clip_rewards else rewards, dones, infos

    def limit_episodes(self, steps: int | None = None, reward: float | None = None) -> None:
        for game in self._games:
            game.most_steps = math.inf if steps is None else steps
            game.most_return = math.inf if reward is None else reward

    def close_extras(self) -> None:
        for game in self._games:
            game.close()

    def get_images(self) -> list[np.ndarray]:
        # ale-py returns no other pictures than the frames that the agent receives.
        return [np.repeat(frame, 3, axis=-1) for frame in self._frames]

    def state(self) -> dict[str, Any]:
        return {"random": self._rng.bit_generator.state, "games": [game.state() for game in self._games]}

    def restore(self, state: dict[str, Any]) -> None:
        if "random" in state:
            self._rng.bit_generator.state = state["random"]
        games = state.get("games", [])
        self.restored = len(games) == self.num_envs and all(one["actions"] is not None for one in games)
        if self.restored:
            with ThreadPoolExecutor() as side_by_side:
                list(side_by_side.map(_Game.restore, self._games, games))


class _Game:
    """One game, with the return and length of its episode as a Monitor inside the frame skip counts them.

    ale-py's vector environment cannot save a game's state, but the seed and the actions since then determine it. These
    are saved, and a resumed run replays the game. The game gets a new seed after STEPS_BETWEEN_SEEDS steps.
    """

    def __init__(self, name: str, noop_max: int, max_frames: int, writer: Any, draw_seed: Callable[[], int]) -> None:
        self._env = AtariVectorEnv(
            name,
            1,
            batch_size=1,
            num_threads=1,
            max_num_frames_per_episode=max_frames,
            stack_num=1,
            noop_max=noop_max,
            episodic_life=False,
            reward_clipping=False,
            use_fire_reset=False,
            autoreset_mode=AutoresetMode.NEXT_STEP,
        )
        self._ale = self._env.ale
        actions = [action.name for action in self._ale.get_action_set()]
        self.num_actions = len(actions)
        self._start = [FIRE, AFTER_FIRE] if actions[FIRE] == "FIRE" and len(actions) > AFTER_FIRE else []
        self._action = np.zeros(1, np.int64)
        self._strength = np.ones(1, np.float32)
        self._draw_seed = draw_seed
        self._seed = 0
        # Actions since the last seeding; None before the first.
        self._actions: bytearray | None = None
        self._writer = writer
        self._opened = writer.header.get("t_start", time.time()) if writer else time.time()
        self._lives = 0
        self._return = 0.0
        self._length = 0
        # Limits of an episode's length and return.
        self.most_steps = math.inf
        self.most_return = math.inf
        self.over = True
        self.truncated = False
        self.episode: dict[str, Any] = {}

    def send(self, action: int) -> None:
        self._actions.append(action)
        self._action[0] = action
        self._ale.send(self._action, self._strength)

    def receive(self) -> tuple[np.ndarray, float, bool]:
        """Finish the step; return its frame [84, 84, 1], its reward, and whether it lost a life but not the game."""
        frames, rewards, terminated, truncated, info = self._ale.recv()
        reward, lives = float(rewards[0]), int(info["lives"][0])
        self._return += reward
        self._length += 1
        # A game begins with actions that are not the agent's.
        limited = self._length > len(self._start)
        limited = limited and (self._length >= self.most_steps or self._return >= self.most_return)
        cut = bool(truncated[0]) or limited
        self.truncated = cut and not terminated[0]
        self.over = cut or bool(terminated[0])
        lost_life = 0 < lives < self._lives
        self._lives = lives
        if self.over:
            seconds = round(time.time() - self._opened, 6)
            self.episode = {"r": round(self._return, 6), "l": self._length, "t": seconds}
            if self._writer is not None:
                self._writer.write_row(self.episode)
        return frames[0, 0, :, :, None], reward, lost_life

    def begin(self, seeded: bool = False) -> np.ndarray:
        """Begin a game, with a new seed if `seeded` or due; return the agent's first frame."""
        if seeded or len(self._actions) >= STEPS_BETWEEN_SEEDS:
            self._seed = self._draw_seed()
            self._actions = bytearray()
            frames, info = self._env.reset(seed=np.array([self._seed]))
        else:
            self._actions.append(BEGIN)
            frames, info = self._env.reset()
        self._lives = int(info["lives"][0])
        self._return = 0.0
        self._length = 0
        self.over = False
        return self._play_start(frames[0, 0, :, :, None])

    def state(self) -> dict[str, Any]:
        return {
            "seed": self._seed,
            "actions": None if self._actions is None else np.frombuffer(self._actions, np.uint8).copy(),
            "lives": self._lives,
            "return": self._return,
            "length": self._length,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Replay the game up to its saved step."""
        self._seed = state["seed"]
        self._actions = bytearray(state["actions"])
        self._env.reset(seed=np.array([self._seed]))
        for action in self._actions:
            if action == BEGIN:
                self._env.reset()
                continue
            self._action[0] = action
            self._ale.send(self._action, self._strength)
            self._ale.recv()
        self._lives = state["lives"]
        self._return = state["return"]
        self._length = state["length"]
        self.over = False

    def go_on(self) -> np.ndarray:
        """Continue the game after a lost life; return the first frame of the next episode."""
        self.send(NOOP)
        frame, _, _ = self.receive()
        return self.begin() if self.over else self._play_start(frame)

    def _play_start(self, frame: np.ndarray) -> np.ndarray:
        for action in self._start:
            self.send(action)
            frame, _, _ = self.receive()
            if self.over:
                return self.begin()
        return frame

    def close(self) -> None:
        self._env.close()
        if self._writer is not None:
            self._writer.close()
