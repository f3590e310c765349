"""Two hosts, which are network namespaces with addresses, names and shared memory of their own (Linux, as root)."""

import csv
import os
import shutil
import signal
import subprocess
import time

import pytest
from commands import SMALL, TWO_RANKS, finish, start, wait_for

ADDRESSES = ("10.77.0.1", "10.77.0.2")
# Stands for ssh, of which mpirun asks to run a command on a host.
REMOTE_SHELL = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
exec ip netns exec PREFIX${host##*.} unshare --uts --ipc --mount \\
    sh -c "mount -t tmpfs tmpfs /dev/shm; hostname node${host##*.}; $*"
"""
# Of a row of the logs: the same for all runs of a seed.
TIMES = {"fps", "misc/time_elapsed"}


def ip(*words):
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def launcher(tmp_path):
    """mpirun over both hosts."""
    prefix = f"tf{os.getpid()}-"
    first, second = (f"{prefix}{number}" for number in (1, 2))
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("needs ip and unshare")
    try:
        ip("netns", "add", first)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"needs the right to make network namespaces: {error.stderr.strip()}")
    try:
        ip("netns", "add", second)
        ip("-n", first, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", second)
        for name, address in zip((first, second), ADDRESSES, strict=True):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "cable")
            for device in ("cable", "lo"):
                ip("-n", name, "link", "set", device, "up")
        end = time.monotonic() + 20
        while not all("state UP" in ip("-n", name, "link", "show", "cable") for name in (first, second)):
            assert time.monotonic() < end, "the cable stays down"
            time.sleep(0.05)
        shell, hosts = tmp_path / "shell", tmp_path / "hosts"
        shell.write_text(REMOTE_SHELL.replace("PREFIX", prefix))
        shell.chmod(0o755)
        hosts.write_text("".join(f"{address}:1\n" for address in ADDRESSES))
        over_both = ("mpirun", "-f", hosts, "-launcher", "ssh", "-launcher-exec", shell, "-np", "2")
        yield ("ip", "netns", "exec", first, *map(str, over_both))
    finally:
        for name in (first, second):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def rows(log):
    with open(log / "progress.csv", newline="") as file:
        return [{name: value for name, value in row.items() if name not in TIMES} for row in csv.DictReader(file)]


def train(log, launcher, *flags):
    return start("tfbaselines.run", *SMALL, f"--log_path={log}", *flags, cwd=log.parent, launcher=launcher)


@pytest.mark.slow
def test_two_hosts_learn_what_two_ranks_of_one_host_learn_though_a_signal_stops_them(launcher, tmp_path):
    """The signal to mpirun saves the run of both hosts, which goes on from there."""
    log, flags = tmp_path / "two", ["--alg=ppo2", "--mpi_exchange=gradients", "--log_interval=1"]
    process = train(log, launcher, "--num_timesteps=1e6", *flags)
    try:
        wait_for(lambda: (log / "progress.csv").exists() and len(rows(log)) > 3, process)
        process.send_signal(signal.SIGINT)
        status, out, err = finish(process, timeout=20)
    finally:
        process.kill()
    assert status == 130, out + err
    assert "hosts: 2," in out
    learnt = len(rows(log))
    total = f"--num_timesteps={64 * (learnt + 5)}"
    resumed = start("tfbaselines.run", f"--resume={log}", total, cwd=tmp_path, launcher=launcher)
    for process in (resumed, train(tmp_path / "one", TWO_RANKS, total, *flags)):
        status, out, err = finish(process)
        assert status == 0, out + err
    assert "hosts: 1," in out
    assert len(rows(log)) == learnt + 5
    assert rows(log) == rows(tmp_path / "one")
