"""Packaging: `pip install -e ".[all]"` brings everything, a working mpirun included."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent

extras = {
    "atari": ["ale-py>=0.12,<0.13", "opencv-python-headless>=4.9"],
    "mujoco": ["gymnasium[mujoco]>=1.4,<2", "mujoco>=3.1.5"],
    # The check of joint types in gymnasium-robotics 1.4 fails with later versions of mujoco.
    "robotics": ["gymnasium-robotics>=1.4,<2", "mujoco>=3.1.5,<3.12"],
    "box2d": ["gymnasium[box2d]>=1.4,<2"],
    # Minari datasets as demonstrations.
    "demos": ["minari[hdf5]>=0.5,<0.6"],
    # Environments of several agents; their own packages come with "pettingzoo[classic]" and the like.
    "multiagent": ["pettingzoo>=1.25,<2"],
    # mpirun and libmpi for a machine that has none.
    "mpi": ["mpich>=4.2"],
    # Curves, videos and windows.
    "plot": ["matplotlib>=3.8", "imageio[ffmpeg]>=2.34", "gymnasium[classic-control]>=1.4,<2"],
    # Exports to other runtimes: python -m tfbaselines.export.
    "litert": ["ai-edge-litert>=2.0.2,<3"],
    "onnx": ["onnx>=1.17,<2", "onnxruntime>=1.20,<2", "tf2onnx>=1.17,<1.18"],
    # python -m tfbaselines.serve.
    "serve": ["starlette>=0.40,<2", "uvicorn>=0.30,<1", "httptools>=0.6.1", "uvloop>=0.19; sys_platform != 'win32'"],
    # python -m tfbaselines.search.
    "search": ["optuna>=5,<6", "matplotlib>=3.8"],
    # The site: python -m sphinx -W docs docs/_build/html.
    "docs": ["sphinx>=8.1,<10", "myst-parser>=4,<6", "furo>=2024.8.6", "latex2mathml>=3.77,<4"],
    "test": ["pytest>=8", "pytest-xdist>=3.6", "hypothesis>=6.100", "ruff>=0.17,<0.18", "mypy>=1.15"],
}
# Logs go there where they are asked for (--log_format=wandb); not in [all].
services = {"wandb": ["wandb>=0.17"], "mlflow": ["mlflow-skinny>=2.14"]}
# 740 MB with its tasks' files, and for Python 3.11 and later: --worker=envpool; not in [all].
pools = {"envpool": ["envpool>=1.2.5,<1.3"]}
# Engines that start the workers of a study; each has its own cluster, so they are not in [all].
engines = {"slurm": ["submitit>=1.5,<2"], "ray": ["ray[tune]>=2.40,<3"], "dask": ["distributed>=2024.8"]}
extras["all"] = sorted({requirement for group in extras.values() for requirement in group})

setup(
    name="tfbaselines",
    version=re.search(r'__version__ = "(.+)"', (HERE / "tfbaselines" / "__init__.py").read_text()).group(1),
    description="The algorithms of OpenAI baselines and Spinning Up on TensorFlow 2, Keras and Gymnasium",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    packages=find_packages(include=["tfbaselines", "tfbaselines.*"]),
    package_data={
        "tfbaselines": [
            "tuned/*.yaml",
            "search/spaces/*.yaml",
            "bench/*.csv",
            "compat/*.csv",
            "config/*.csv",
            "report/*.css",
            "report/*.js",
            "doctor/*.csv",
            "doctor/rules/*.csv",
            "export/files/*",
            "py.typed",
            "*.pyi",
            "algs/*/*.pyi",
        ]
    },
    python_requires=">=3.10,<3.14",
    install_requires=[
        "tensorflow>=2.18,<2.22",
        # TensorFlow Probability needs tf-keras of TensorFlow's own version, which its extra asks for.
        "tensorflow-probability[tf]>=0.25,<0.26",
        "gymnasium>=1.4,<2",
        "numpy>=1.26",
        "mpi4py>=4.1,<5",
        "cloudpickle>=3",
        "pandas>=2",
        "tqdm>=4.66",
        # Numpy's matrix products in one thread.
        "threadpoolctl>=3.1,<4",
        # --config, --tuned.
        "pyyaml>=6",
    ],
    extras_require=extras | services | pools | engines,
    entry_points={"console_scripts": ["tfbaselines = tfbaselines.__main__:start"]},
)
