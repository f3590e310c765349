"""Blocks of README and of the pages in docs/, and what their commands take so that a test of them ends soon.

A block of bash, python or yaml runs. A comment above it says otherwise, and is not on the page that people see:

    <!-- not run: REASON -->        nothing of the block runs
    <!-- before: COMMAND -->        a command that runs before the block, since its files are needed
"""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"

FENCE = re.compile(
    r"(?P<comments>(?:^<!-- [^\n]* -->\n)*)^```(?P<language>bash|sh|python|yaml)\n(?P<text>.*?)^```$", re.M | re.S
)

# What one machine does without: an installation, a scheduler, ranks. tests/contract starts mpirun.
LAUNCHERS = r'^pip install -e "\.\[all\]" && |^mpirun (-(hosts|f) \S+ )?-np \d+ |^srun (--mpi=\S+ -n \d+ )?'

# Games end soon, so that there is something to plot.
SHORT_GAMES = "--env_kwargs.max_num_frames_per_episode=60"

# Of one update, by the algorithm; the last of a repeated flag counts.
OFF_POLICY = "--num_timesteps=60 --max_ep_len=20 --batch_size=8 --start_steps=20 --update_after=20 --update_every=20"
EPOCHS = "--num_update=1 --steps_per_epoch=60 --num_test_episodes=1 --hidden_sizes=[8]"
ROLLOUTS = "--steps_per_epoch=60 --num_timesteps=60 --num_test_episodes=1 --max_ep_len=20 --train_v_iters=2"
BATCH = "--num_timesteps=64 --timesteps_per_batch=64 --cg_iters=2 --vf_iters=2"
SHORT = {
    "ppo2": "--num_timesteps=128 --nsteps=16 --num_env=2 --noptepochs=1 --nminibatches=1",
    "a2c": "--num_timesteps=64 --nsteps=8 --num_env=2",
    "acktr": "--num_timesteps=64 --nsteps=8 --num_env=2",
    "ppo1": "--num_timesteps=64 --timesteps_per_actorbatch=64 --optim_epochs=1",
    "trpo_mpi": BATCH,
    "vpg": ROLLOUTS,
    "ppo": f"{ROLLOUTS} --train_pi_iters=2",
    "trpo": f"{ROLLOUTS} --cg_iters=2",
    "acer": "--num_timesteps=64 --nsteps=8 --num_env=2 --replay_start=8 --buffer_size=64 --replay_ratio=1",
    "sac": f"{OFF_POLICY} {EPOCHS}",
    "td3": f"{OFF_POLICY} {EPOCHS}",
    "ddpg": "--num_timesteps=60 --max_ep_len=20 --nb_rollout_steps=20 --nb_train_steps=1 --nb_epoch_cycles=1",
    "deepq": "--num_timesteps=64 --learning_starts=32 --train_freq=16 --batch_size=8 --buffer_size=100 --max_ep_len=30",
    "her": "--num_timesteps=40 --max_ep_len=20 --n_cycles=1 --n_batches=1 --n_test_rollouts=1 --num_demo=2 --num_env=1"
    " --batch_size=8 --demo_batch_size=4",
    "es": "--num_timesteps=40 --num_iterations=1 --num_agents=4 --max_ep_len=20 --num_test_episodes=1",
    "qlearning": "--num_timesteps=80 --num_iterations=4 --num_test_episodes=1 --max_ep_len=20 --test_every=4",
    "bc": "--num_iterations=1",
    "gail": "--num_timesteps=100 --timesteps_per_batch=100 --g_step=1 --BC_max_iter=1 --cg_iters=2 --vf_iters=1",
}


class Block(NamedTuple):
    """A block of code of a page.

    Attributes:
        language: bash, sh, python or yaml.
        text: the code.
        reason: why it does not run, None if it does.
        before: commands that run before it.
    """

    language: str
    text: str
    reason: str | None
    before: list[str]


def pages():
    """Paths of README and of every page that is not made by a build."""
    made = (DOCS / "_build", DOCS / "_generated")
    found = [path for path in sorted(DOCS.rglob("*.md")) if not any(path.is_relative_to(one) for one in made)]
    return [README, *found]


def blocks(page):
    """Blocks of a page in their order."""
    for found in FENCE.finditer(page.read_text(encoding="utf-8")):
        comments = re.findall(r"<!-- (not run|before): (.+?) -->", found["comments"])
        reasons = [text for kind, text in comments if kind == "not run"]
        before = [text for kind, text in comments if kind == "before"]
        yield Block(found["language"], found["text"], reasons[0] if reasons else None, before)


def commands_of(text):
    """Module and words of the commands in a text for a shell, without comments and launchers."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(re.sub(LAUNCHERS, "", line), comments=True)
        if words:
            assert words[:2] == ["python", "-m"], f"{line}: not run, and no comment says why"
            yield words[2], words[3:]


def shortened(module, words):
    """The words with those that end it soon behind them."""
    if module == "tfbaselines.multi":
        return [
            *words,
            "--evaluate=2" if any(word.startswith("--evaluate") for word in words) else "--num_timesteps=512",
        ]
    if module == "tfbaselines.study" and words[0] == "new" and "--from" not in words:
        return [*words, "--alg=a2c", "--env=CartPole-v1", "--seeds=1", "--num_timesteps=100"]
    if module != "tfbaselines.run" or {"--help", "--print_config"} & set(words):
        return words
    given = dict(word.removeprefix("--").partition("=")[::2] for word in words)
    if "resume" in given and "alg" not in given:
        return [*words, "--num_timesteps=160"]
    if given.get("num_timesteps") == "0":
        return words
    games = [SHORT_GAMES] if given.get("env", "").startswith(("Pong", "Breakout")) else []
    return [*words, *SHORT[given["alg"]].split(), *games]


def section(page, title):
    """A section's text."""
    text = page.read_text(encoding="utf-8")
    start = re.search(rf"^##+ {re.escape(title)}\n", text, re.M).start()
    return re.split(r"\n##+ ", text[start:])[0]


def example(page, title):
    """The first block of Python in a section."""
    return re.search(r"```python\n(.*?)```", section(page, title), re.DOTALL).group(1)
