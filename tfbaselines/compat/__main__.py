"""``python -m tfbaselines.compat`` writes MIGRATION.md to standard output."""

import sys

from tfbaselines.compat.table import BASELINES, SPINUP, Port
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

ABSENT = "no counterpart: "


def migration_page() -> str:
    """Write the page."""
    parts = [HEAD]
    for package, table in (("baselines", BASELINES), ("spinup", SPINUP)):
        parts += [f"## `{package}`\n", "| import from | names | here |", "|---|---|---|"]
        parts += [row for path, port in table.items() for row in _rows(f"{package}.{path}", port)]
        parts.append("")
    return "\n".join([*parts, *section(), ""])


def _rows(path: str, port: Port) -> list[str]:
    rows = []
    if port.same is not None:
        rows.append(_row(path, "all", f"`tfbaselines.{port.same}`"))
    for module, names in port.names.items():
        here = [one.partition("=")[2] for one in names.split() if "=" in one]
        renamed = f", there {_code(here)}" if here else ""
        rows.append(
            _row(path, _code(one.partition("=")[0] for one in names.split()), f"`tfbaselines.{module}`{renamed}")
        )
    if port.rest is not None:
        call = f"; itself a function, `tfbaselines.{port.call}`" if port.call else ""
        note = f"; {port.note}" if port.note else ""
        rows.append(_row(path, "`learn`, ...", f"`tfbaselines.{port.rest}`{call}{note}"))
    by_advice: dict[str, list[str]] = {}
    for name, what in port.instead.items():
        by_advice.setdefault(what, []).append(name)
    rows += [_row(path, _code(names), ABSENT + what) for what, names in by_advice.items()]
    if port.nothing is not None:
        rows.append(_row(path, "others" if port.names else "all", ABSENT + port.nothing))
    return rows


def _row(*cells: str) -> str:
    return f"| `{cells[0]}` | {cells[1]} | {cells[2]} |"


def _code(names: object) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.stdout.write(migration_page())
