"""A rank of mpirun that begins with TensorFlow imported: ``mpirun python rank.py ADDRESS module ...``.

mpirun starts and watches this small process. It hands its output and its channel to mpirun over to the server of
tests/support/warm.py, which forks the rank, and it ends as the rank does. When mpirun kills it, the rank ends too.
"""

import contextlib
import json
import os
import socket
import sys

address, *words = sys.argv[1:]
environment = dict(os.environ)
# A descriptor of mpirun's own, which ranks do not use.
environment.pop("HYDI_CONTROL_FD", None)
channel = int(environment["PMI_FD"])
with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
    connection.connect("\0" + address)
    request = json.dumps({"words": words, "cwd": os.getcwd(), "env": environment}).encode()
    socket.send_fds(connection, [len(request).to_bytes(8, "big")], [1, 2, channel])
    connection.sendall(request)
    connection.recv(8, socket.MSG_WAITALL)
    status = int.from_bytes(connection.recv(8, socket.MSG_WAITALL), "big", signed=True)
if status < 0:
    os.kill(os.getpid(), -status)
if status == 0:
    # A rank that leaves by os._exit does not take leave of mpirun, which would kill the other ranks' processes like
    # this one when it finds the channel closed, before they have learnt how their ranks ended.
    with contextlib.suppress(OSError):
        os.write(channel, b"cmd=finalize\n")
        os.read(channel, 100)
sys.exit(status)
