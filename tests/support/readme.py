"""README's examples, and what its commands take so that a test of them ends soon."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

# What one machine does without: an installation, a scheduler, ranks. tests/contract starts mpirun.
LAUNCHERS = r'^pip install -e "\.\[all\]" && |^mpirun (-(hosts|f) \S+ )?-np \d+ |^srun (--mpi=\S+ -n \d+ )?'
# The package's own tests, and a data set that is not part of an installation.
NOT_RUN = ("ruff check", "minari:")

# Games end soon, so that there is something to plot.
SHORT_GAMES = "--env_kwargs.max_num_frames_per_episode=60"

# Of one update, by the algorithm; the last of a repeated flag counts.
OFF_POLICY = "--num_timesteps=60 --max_ep_len=20 --batch_size=8 --start_steps=20 --update_after=20 --update_every=20"
EPOCHS = "--num_update=1 --steps_per_epoch=60 --num_test_episodes=1 --hidden_sizes=[8]"
SHORT = {
    "ppo2": "--num_timesteps=128 --nsteps=16 --num_env=2 --noptepochs=1 --nminibatches=1",
    "acer": "--num_timesteps=64 --nsteps=8 --num_env=2 --replay_start=8 --buffer_size=64 --replay_ratio=1",
    "sac": f"{OFF_POLICY} {EPOCHS}",
    "td3": f"{OFF_POLICY} {EPOCHS}",
    "ddpg": "--num_timesteps=60 --max_ep_len=20 --nb_rollout_steps=20 --nb_train_steps=1 --nb_epoch_cycles=1",
    "deepq": "--num_timesteps=64 --learning_starts=32 --train_freq=16 --batch_size=8 --buffer_size=100 --max_ep_len=30",
    "her": "--num_timesteps=40 --max_ep_len=20 --n_cycles=1 --n_batches=1 --n_test_rollouts=1 --num_demo=2 --num_env=1"
    " --batch_size=8 --demo_batch_size=4",
    "es": "--num_iterations=1 --num_agents=4 --max_ep_len=20 --num_test_episodes=1",
    "qlearning": "--num_iterations=4 --num_test_episodes=1 --max_ep_len=20 --test_every=4",
    "bc": "--num_iterations=1",
    "gail": "--num_timesteps=100 --timesteps_per_batch=100 --g_step=1 --BC_max_iter=1 --cg_iters=2 --vf_iters=1",
}


def blocks():
    """Pairs of language and text of every block of README, in their order."""
    return re.findall(r"```(bash|python|yaml)\n(.*?)```", README, re.DOTALL)


def commands_of(block):
    """Module and words of the commands of a block for a shell, without comments and launchers."""
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(re.sub(LAUNCHERS, "", line), comments=True)
        if words and not any(part in line for part in NOT_RUN):
            assert words[:2] == ["python", "-m"], line
            yield words[2], words[3:]


def shortened(module, words):
    """The words with those that end it soon behind them."""
    if module != "tfbaselines.run":
        return words
    given = dict(word.removeprefix("--").partition("=")[::2] for word in words)
    if "resume" in given and "alg" not in given:
        return [*words, "--num_timesteps=160"]
    if given.get("num_timesteps") == "0":
        return words
    games = [SHORT_GAMES] if given["env"].startswith("Pong") else []
    return [*words, *SHORT[given["alg"]].split(), *games]


def section(title):
    """A section's text."""
    return README[README.index(f"### {title}\n") :].split("\n### ", 2)[0]


def example(title):
    """The first block of Python in a section."""
    return re.search(r"```python\n(.*?)```", section(title), re.DOTALL).group(1)
