"""Serve a saved run on the loopback address: ``python -m tfbaselines.serve RUN --port 8000``."""

import gc
import importlib.util
import socket
from argparse import Namespace

import numpy as np

from tfbaselines.cli import Parser, exit_status, leave
from tfbaselines.cli.stored import check_is_run
from tfbaselines.errors import UsageError, bad_argument

HOST = "127.0.0.1"
PACKAGES = ("starlette", "uvicorn")


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = Parser(
        prog="tfbaselines serve", description="Serve a saved run's actions over HTTP, on this machine alone."
    )
    parser.add_argument("directory", help="log directory of the run (--log_path), or a saved model")
    parser.add_argument("--port", type=int, default=8000, help="port; 0 for any free one (default %(default)s)")
    parser.add_argument("--seed", type=int, help="seed of sampled actions")
    parser.add_argument("--checkpoint", default="last", help="last, best, or a number (default %(default)s)")
    parser.add_argument("--trust", action="store_true", help="import the modules named in config.json")
    args = parser.parse_args(argv)
    return exit_status(parser.prog, lambda: _serve(args))


def _serve(args: Namespace) -> int:
    check_is_run(args.directory)
    for package in PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise UsageError(f"serve needs the package {package}: pip install 'tfbaselines[serve]'")
    listener = _listen(args.port)
    with listener:
        from tfbaselines.evaluate import load

        model = load(args.directory, checkpoint=args.checkpoint, trust=args.trust)
        import uvicorn

        from tfbaselines.parallel.mpi import one_blas_thread
        from tfbaselines.serve.app import Server

        # A full collection would visit TensorFlow's objects and stop the server for a tenth of a second.
        gc.collect()
        gc.freeze()
        with model.acting_alone(np.random.default_rng(args.seed)), one_blas_thread():
            config = uvicorn.Config(Server(model).app(), log_level="error", access_log=False)
            what = f"{model.config['alg']} of {(model.config.get('env') or {}).get('env')}"
            print(f"Serving {what} at http://{HOST}:{listener.getsockname()[1]} (POST /act)", flush=True)
            uvicorn.Server(config).run(sockets=[listener])
    return 0


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        # Requests that come before the model is loaded wait.
        listener.listen(128)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise bad_argument("port", port, f"it cannot be opened ({reason.lower()})") from None
    return listener


if __name__ == "__main__":
    leave(main())
