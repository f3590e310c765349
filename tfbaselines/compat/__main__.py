"""``python -m tfbaselines.compat`` writes MIGRATION.md to standard output."""

import sys

from tfbaselines.compat import ANY, CALL, SCRIPT, WHOLE, Row, rows
from tfbaselines.config.stable_baselines3 import OF_ALL, OTHERS, TWINS

EXAMPLE = """from tfbaselines.algs import ppo2
from tfbaselines.envs.make import make_vec_env

# env = make_vec_env("CartPole-v1", n_envs=4)
# model = PPO("MlpPolicy", env, n_steps=128, batch_size=128, n_epochs=4, clip_range=0.2)
# model.learn(total_timesteps=2048)
env = make_vec_env("CartPole-v1", num_env=4)
model = ppo2.learn("mlp", env, total_timesteps=2048, nsteps=128, nminibatches=4, noptepochs=4, cliprange=0.2)

action, state = model.predict(env.reset(), deterministic=True)
"""


def section() -> list[str]:
    """Write the section on Stable-Baselines3."""
    lines = [
        "## Stable-Baselines3\n",
        "Its scripts have to be rewritten: an algorithm is a function that trains and returns the model.\n",
        f"```python\n{EXAMPLE}```\n",
        "Arguments with another name here, with the name there in brackets; other common arguments have one name:\n",
        "| there | here | arguments | differs |",
        "|---|---|---|---|",
    ]
    for there, twin in TWINS.items():
        arguments = "; ".join(_renamed(old, new) for old, new in twin.arguments.items())
        lines.append(f"| `{there}` | `{twin.here}` | {arguments} | {twin.differs} |")
    lines += ["", "| there | here |", "|---|---|", *(f"| {old} | {new} |" for old, new in OTHERS.items())]
    for there, (in_python, typed) in OF_ALL.items():
        lines.append(f"| `{there}` | in Python {in_python}; on the command line {typed} |")
    return lines


def _renamed(old: str, new: str) -> str:
    names, _, note = new.partition(", ")
    here = " and ".join(f"`{name}`" for name in names.split())
    return f"{here} (`{old}`)" + (f", {note}" if note else "")


HEAD = """# From baselines, Spinning Up and Stable-Baselines3

Written by `python -m tfbaselines.compat > MIGRATION.md` from the table behind the imports.

Replace `baselines` or `spinup` by `tfbaselines` in an import, and `import gym` by `import gymnasium as gym`. The names
below are imported from the same path; the last column is their place in this package. A name without a counterpart
can be imported too; the error on calling it or deriving a class from it names an alternative. README, "Differences
from the originals", lists differences in behavior. The [last section](#stable-baselines3) is on Stable-Baselines3.
"""

KINDS = {ANY: "all others", WHOLE: "all", CALL: "the module, called as a function", SCRIPT: "`python -m`"}


def migration_page() -> str:
    """Write the page."""
    parts = [HEAD]
    for package in ("baselines", "spinup"):
        parts += [f"## `{package}`\n", "| import from | names | here |", "|---|---|---|"]
        parts += [_line(row) for row in rows() if row.paths[0].startswith(f"{package}.")]
        parts.append("")
    return "\n".join([*parts, *section(), ""])


def _line(row: Row) -> str:
    old, new = zip(*(name.partition("=")[::2] for name in row.names), strict=True)
    names = "`learn`, ..." if old == (ANY,) and row.here else KINDS.get(row.names[0]) or _code(old)
    renamed = f", there {_code(filter(None, new))}" if any(new) else ""
    remark = f"; {row.remark}" if row.remark else ""
    here = f"`{row.here}`{renamed}{remark}" if row.here else f"no counterpart: {row.remark}"
    if old == (SCRIPT,):
        here = f"`{row.remark}`"
    return f"| {_code(row.paths)} | {names} | {here} |"


def _code(names: object) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.stdout.write(migration_page())
