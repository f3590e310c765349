"""What a replay gives back is what was acted on and done, bit for bit, whatever wrappers stand around."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from helpers import vec
from small_environments import Goals
from small_runs import ACTIONS, first_kind, learn

from tfbaselines.algs import ALGORITHMS, get
from tfbaselines.algs.acer.acer import Model
from tfbaselines.config.bases import ReplayConfig
from tfbaselines.envs.vec import VecEnvObservationWrapper, VecEnvWrapper, VecFrameStack, VecNormalize
from tfbaselines.envs.vec.base import last_observation
from tfbaselines.training.off_policy import OffPolicyModel

REPLAYING = [name for name in ALGORITHMS if name == "acer" or issubclass(get(name).config, ReplayConfig)]


class Noise(gymnasium.Env):
    """Shows other numbers in every step, spoils the action that it gets, and ends after seven steps in both ways."""

    def __init__(self, actions, channels):
        self.action_space = actions
        self.observation_space = spaces.Box(-1.0, 1.0, (channels,), np.float32)
        self._numbers = np.random.default_rng(channels)
        self._episodes = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._episodes += 1
        self._time = 0
        return self._show(), {}

    def step(self, action):
        self._time += 1
        if isinstance(action, np.ndarray) and action.flags.writeable:
            action[...] = 0
        over, cut = self._time == 7, self._episodes % 2 == 0
        return self._show(), 1.0, over and not cut, over and cut, {}

    def _show(self):
        return self._numbers.uniform(-1.0, 1.0, self.observation_space.shape).astype(np.float32)


class Seen(VecEnvWrapper):
    """Remembers what is acted on, what is done and what follows."""

    keeps_observations = True

    def reset(self):
        self._obs, self.steps = self.venv.reset(), set()
        return self._obs

    def step_async(self, actions):
        self._actions = np.array(actions)
        super().step_async(actions)

    def step_wait(self):
        obs, rewards, dones, infos = self.venv.step_wait()
        for i, done in enumerate(dones):
            cut = infos[i].get("TimeLimit.truncated")
            # After a termination nothing counts.
            after = [] if done and not cut else [last_observation(infos[i]) if done else part(obs, i)]
            self.steps.add(key(self._actions[i], part(self._obs, i), *after))
        self._obs = {name: array.copy() for name, array in obs.items()} if isinstance(obs, dict) else obs.copy()
        return obs, rewards, dones, infos


class Negative(VecEnvObservationWrapper):
    """A wrapper of somebody's own."""

    def process(self, obs):
        return -obs


def part(obs, i):
    return {name: array[i] for name, array in obs.items()} if isinstance(obs, dict) else obs[i]


def key(action, *shown):
    """A step in bytes; the goals of hindsight are others later."""
    shown = [one["observation"] if isinstance(one, dict) else one for one in shown]
    return b" ".join([np.float64(action).tobytes(), *(np.asarray(one, np.float32).tobytes() for one in shown)])


WRAPPED = {
    "plain": lambda env: env,
    "stack of one channel": lambda env: VecFrameStack(env, 3),
    "stack of vectors": lambda env: VecFrameStack(env, 2),
    "normalized stack": lambda env: VecNormalize(VecFrameStack(env, 3)),
    "own wrapper": lambda env: Negative(VecFrameStack(env, 3)),
    "stack of normalized": lambda env: VecFrameStack(VecNormalize(env), 3),
}
# All of sac, which is quickest; of the others two that go wrong where frames are taken apart.
CASES = [("sac", wrapped) for wrapped in WRAPPED] + [(alg, "plain") for alg in REPLAYING if get(alg).goals]
FRAMES = ("stack of vectors", "normalized stack")
CASES += [(alg, wrapped) for alg in REPLAYING if alg != "sac" and not get(alg).goals for wrapped in FRAMES]


@pytest.mark.parametrize(("alg", "wrapped"), CASES)
def test_what_is_learnt_from_is_what_was_acted_on(alg, wrapped, eager, monkeypatch):
    # sac takes simultaneous choices, which an environment gets as an array.
    actions = spaces.MultiDiscrete([3, 3]) if alg == "sac" else ACTIONS[first_kind(alg)]
    inner = Noise(actions, 3 if wrapped == "stack of vectors" else 1)
    env = Seen(WRAPPED[wrapped](vec(lambda: Goals(inner) if get(alg).goals else inner)))
    learnt = watch(monkeypatch)
    learn(alg, env, 6)
    assert len(learnt) >= 10 and learnt <= env.steps


def watch(monkeypatch):
    """The steps that models learn from, as they come."""
    learnt = set()
    off_policy, on_sequences = OffPolicyModel.train, Model.train

    def train(model, block, **coefficients):
        for row in np.ndindex(block["rewards"].shape):
            after = [part(block["next_obs"], row)] if block["discount"][row] else []
            learnt.add(key(block["actions"][row], part(block["obs"], row), *after))
        return off_policy(model, block, **coefficients)

    def train_sequences(model, **arguments):
        batch = arguments["batch"]
        for n, t in np.ndindex(batch["rewards"].shape):
            # After an end the next observation is another episode's.
            if arguments.get("replayed") and not batch["episode_start"][n, t + 1]:
                learnt.add(key(batch["actions"][n, t], batch["obs"][n, t], batch["obs"][n, t + 1]))
        return on_sequences(model, **arguments)

    monkeypatch.setattr(OffPolicyModel, "train", train)
    monkeypatch.setattr(Model, "train", train_sequences)
    return learnt
