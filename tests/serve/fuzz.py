"""Malformed requests to the server: none may be answered by a 5xx, and the process must not grow.

python -m tests.serve.fuzz RUN [--requests 10000]
"""

import argparse
import http.client
import json
import random
import re
import socket
import subprocess
import sys
from collections import Counter

MIB = 2**20


def numbers(rng, depth=0):
    """A random tree of JSON: numbers that overflow, texts, lists of any shape and objects."""
    kinds = ["number", "text", "none", "huge"] + (["list", "object"] * 2 if depth < 4 else [])
    kind = rng.choice(kinds)
    if kind == "list":
        return [numbers(rng, depth + 1) for _ in range(rng.randrange(5))]
    if kind == "object":
        return {rng.choice(["observations", "states", "masks", "x", ""]): numbers(rng, depth + 1) for _ in range(3)}
    options = {"number": rng.uniform(-9, 9), "text": "é\0" * rng.randrange(4), "none": None}
    return options.get(kind, rng.choice([10**40, -(10**400), 1e300, float("nan"), float("-inf"), True, 2**63]))


def body(rng, valid):
    """The bytes of a request, most of them wrong."""
    good = json.dumps({"observations": valid}).encode()
    kind = rng.randrange(9)
    if kind == 0:
        return good
    if kind == 1:
        return good[: rng.randrange(len(good))]
    if kind == 2:
        return rng.randbytes(rng.randrange(200))
    if kind == 3:
        return json.dumps(numbers(rng)).encode()
    if kind == 4:
        depth = rng.choice([10, 1000, 200_000])
        return b'{"observations":' + b"[" * depth + b"]" * depth + b"}"
    if kind == 5:
        changed = bytearray(good)
        changed[rng.randrange(len(changed))] = rng.randrange(256)
        return bytes(changed)
    if kind == 6:
        return json.dumps({"observations": [valid] * rng.choice([0, 3, 2000])}).encode()
    document = {"observations": rng.choice([valid, numbers(rng)]), rng.choice(["states", "masks"]): numbers(rng)}
    return json.dumps(document | {"deterministic": rng.choice([True, numbers(rng)])}).encode()


def raw(port, rng):
    """Send something that is hardly HTTP; return the status of the answer, 0 if there is none."""
    lengths = [b"-1", b"99999999999999", b"x", b"5"]
    head = b"POST /act HTTP/1.1\r\nHost: x\r\nContent-Length: " + rng.choice(lengths) + b"\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(rng.choice([head, head + b"{", rng.randbytes(100), b"GET\r\n\r\n"]))
        connection.shutdown(socket.SHUT_WR)
        try:
            found = re.match(rb"HTTP/1.1 (\d+)", connection.recv(100))
        except OSError:
            return 0
    return int(found.group(1)) if found else 0


def fuzz(port, valid, count, seed=0):
    """Send `count` requests; return the number of answers by status."""
    rng, statuses = random.Random(seed), Counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for number in range(count):
        if number % 20 == 19:
            statuses[raw(port, rng)] += 1
            continue
        method = rng.choice(["POST"] * 18 + ["GET", "PUT"])
        path = rng.choice(["/act"] * 18 + ["/act/", "/%00"])
        # One body in a thousand is too large.
        content = b" " * (17 * MIB) if number % 1000 == 500 else body(rng, valid)
        try:
            connection.request(method, path, content)
            answer = connection.getresponse()
            answer.read()
            statuses[answer.status] += 1
        except (OSError, http.client.HTTPException):
            # The server may hang up before a body that is too large was sent.
            statuses[0] += 1
            connection.close()
    connection.close()
    return statuses


def metric(port, name):
    """A number of /metrics."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return float(re.search(rf"^tfbaselines_{name} (\S+)$", text, re.MULTILINE).group(1))


def valid_observation(port):
    """An observation of zeros in the shape that the server describes."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/")
    (shape,) = [one["shape"] for one in json.loads(connection.getresponse().read())["inputs"] if one["part"] == "all"]
    connection.close()
    zeros = 0.0
    for size in reversed(shape):
        zeros = [zeros] * size
    return zeros


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="log directory of a run with one array as its observation")
    parser.add_argument("--requests", type=int, default=10_000)
    args = parser.parse_args()
    words = [sys.executable, "-m", "tfbaselines.serve", args.run, "--port=0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            port = int(re.search(r":(\d+) ", server.stdout.readline()).group(1))
            valid = valid_observation(port)
            # The first requests load what later ones use.
            fuzz(port, valid, args.requests // 5, seed=1)
            before = metric(port, "resident_memory_bytes")
            statuses = fuzz(port, valid, args.requests)
            grown = (metric(port, "resident_memory_bytes") - before) / MIB
        finally:
            server.terminate()
    print(f"statuses {dict(sorted(statuses.items()))} (0: hung up), the process has grown by {grown:.1f} MiB")
    return int(any(status >= 500 for status in statuses) or grown > 32)


if __name__ == "__main__":
    sys.exit(main())
