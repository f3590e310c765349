"""baselines' expert data set for GAIL."""

import os

import numpy as np

from tfbaselines.arrays import check_array, read_archive
from tfbaselines.errors import bad_argument

# Arrays of an expert file: E episodes of L steps.
SHAPES = {"acs": ("E", "L", ...), "ep_rets": ("E",), "rews": ("E", "L"), "obs": ("E", "L", ...)}


class Mujoco_Dset:
    """Episodes of an expert file (arrays obs, acs, rews [E, L, ...], ep_rets [E]), row by row.

    It stands for its file: ``gail.learn("mlp", env, demo_path=Mujoco_Dset("expert.npz"))``.

    Attributes:
        obs: [E * L, ...] observations.
        acs: [E * L, ...] actions.
        rets: [E] returns; `avg_ret` and `std_ret` are their mean and deviation.
        num_traj: E.
        num_transition: E * L.

    Args:
        expert_path: the file.
        train_fraction: the share that get_next_batch(split='train') draws from; 'val' has the rest.
        traj_limitation: the first episodes alone; -1 for all.
        randomize: shuffle the rows.
    """

    def __init__(
        self, expert_path: str, train_fraction: float = 0.7, traj_limitation: int = -1, randomize: bool = True
    ) -> None:
        self.path = os.fspath(expert_path)
        try:
            arrays = read_archive(self.path)
        except OSError as error:
            raise bad_argument("expert_path", self.path, f"a file ({(error.strerror or str(error)).lower()})") from None
        try:
            for name, shape in SHAPES.items():
                check_array(name, arrays.get(name), shape)
        except ValueError as error:
            raise bad_argument("expert_path", self.path, f"an expert file: {error}") from None
        count = len(arrays["obs"]) if traj_limitation < 0 else traj_limitation
        self.rets = arrays["rews"][:count].sum(axis=1)
        self.avg_ret, self.std_ret = float(self.rets.mean()), float(self.rets.std())
        self.obs, self.acs = (arrays[name][:count].reshape(-1, *arrays[name].shape[2:]) for name in ("obs", "acs"))
        self.acs = np.squeeze(self.acs)
        self.num_traj, self.num_transition = min(count, len(arrays["obs"])), len(self.obs)
        self.randomize = randomize
        cut = int(self.num_transition * train_fraction)
        self._rows = {None: np.arange(self.num_transition)}
        self._rows |= {"train": self._rows[None][:cut], "val": self._rows[None][cut:]}
        self._next = dict.fromkeys(self._rows, 0)
        for split in self._rows:
            self._shuffle(split)

    def __fspath__(self) -> str:
        return self.path

    def get_next_batch(self, batch_size: int, split: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Observations and actions of the next rows; a negative size gives all of them.

        Args:
            batch_size: how many.
            split: 'train', 'val', or None for everything.
        """
        if split not in self._rows:
            raise bad_argument("split", split, "'train', 'val' or None")
        rows = self._rows[split]
        if batch_size < 0:
            return self.obs[rows], self.acs[rows]
        if self._next[split] + batch_size >= len(rows):
            self._next[split] = 0
            self._shuffle(split)
        begin = self._next[split]
        self._next[split] = begin + batch_size
        chosen = self._rows[split][begin : begin + batch_size]
        return self.obs[chosen], self.acs[chosen]

    def _shuffle(self, split: str | None) -> None:
        if self.randomize:
            # baselines draws from NumPy's global generator, which set_global_seeds seeds.
            self._rows[split] = self._rows[split][np.random.permutation(len(self._rows[split]))]
