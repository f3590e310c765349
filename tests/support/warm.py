"""Processes that begin with TensorFlow imported: ``python -m module`` without the seconds that the import takes.

A server imports TensorFlow and nothing else of a run, and forks for each process; importing starts no threads. A
process is real: its own id, directory, environment, output, signals and exit, and the package is imported anew.
"""

import contextlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile


class Warm:
    """A process like subprocess.Popen's, which the server has started.

    Args:
        words: the module and its arguments.
        cwd, env: its directory and its environment.
        output: a file for all of its output; None keeps it for communicate().
    """

    def __init__(self, words, cwd, env, output=None):
        self.returncode = None
        self._kept = [] if output else [tempfile.NamedTemporaryFile("w+") for _ in range(2)]  # noqa: SIM115
        stdout, stderr = self._kept or (output, output)
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection.connect("\0" + address())
        request = json.dumps({"words": [str(word) for word in words], "cwd": str(cwd), "env": env}).encode()
        socket.send_fds(self._connection, [len(request).to_bytes(8, "big")], [stdout.fileno(), stderr.fileno()])
        self._connection.sendall(request)
        self.pid = int.from_bytes(_read(self._connection, 8), "big")

    def poll(self):
        return self._ended(0)

    def wait(self, timeout=None):
        if self._ended(timeout) is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return self.returncode

    def communicate(self, timeout=None):
        self.wait(timeout)
        return tuple(_text(file) for file in self._kept)

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.wait()

    def _ended(self, timeout):
        if self.returncode is None and select.select([self._connection], [], [], timeout)[0]:
            self.returncode = int.from_bytes(_read(self._connection, 8), "big", signed=True)
            self._connection.close()
        return self.returncode


def _text(file):
    file.seek(0)
    return file.read()


def _read(connection, size):
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the server of processes has ended")
        data += more
    return data


_server = None


def address():
    """The server's socket without its first byte, zero; the first call starts it, and it ends with this process."""
    global _server
    if _server is None or _server.poll() is not None:
        _server = subprocess.Popen([sys.executable, __file__, str(os.getpid())], stdout=subprocess.PIPE)
        _server.stdout.read(1)
    return f"warm-{os.getpid()}-{_server.pid}"


def serve(parent):
    """Fork for each request until the parent has ended; return the request in the new process."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"\0warm-{parent}-{os.getpid()}")
    listener.listen(64)
    os.write(1, b"1")
    running = {}
    while os.getppid() == parent:
        if select.select([listener], [], [], 0.02)[0]:
            connection, _ = listener.accept()
            size, files, _, _ = socket.recv_fds(connection, 8, 3)
            request = json.loads(_read(connection, int.from_bytes(size, "big")))
            pid = os.fork()
            if pid == 0:
                for one in (listener, connection, *running.values()):
                    one.close()
                return request, files
            for file in files:
                os.close(file)
            connection.sendall(pid.to_bytes(8, "big"))
            running[pid] = connection
        _report(running)
    sys.exit()


def _report(running):
    """Kill processes that nobody waits for any longer; send the exit statuses of those that have ended."""
    closed = select.select(list(running.values()), [], [], 0)[0]
    for pid in list(running):
        if running[pid] in closed:
            os.kill(pid, signal.SIGKILL)
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with contextlib.suppress(OSError), running.pop(pid) as connection:
                connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(8, "big", signed=True))


def become(request, files):
    """Take the directory, environment and output of the request, and run its module as `python -m` does."""
    os.setsid()
    for descriptor, file in enumerate(files[:2], 1):
        os.dup2(file, descriptor)
        os.close(file)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    for channel in files[2:]:
        # tests/support/rank.py: the way to mpirun has another number here.
        os.environ["PMI_FD"] = str(channel)
    given = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [os.getcwd(), *given, *sys.path[1:]]
    sys.orig_argv[:] = [sys.executable, "-m", *request["words"]]
    sys.argv[:] = ["-m", *request["words"][1:]]
    runpy.run_module(request["words"][0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    # Before the first request: what takes seconds, and nothing that a run may set.
    sys.modules.update(dict.fromkeys(("pandas", "matplotlib")))
    import tensorflow_probability  # noqa: F401, I001
    import tensorflow  # noqa: F401

    for hidden in ("pandas", "matplotlib"):
        del sys.modules[hidden]
    become(*serve(int(sys.argv[1])))
