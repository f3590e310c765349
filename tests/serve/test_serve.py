"""The server answers as the model acts, alone and in batches, and refuses what is malformed."""

import contextlib
import http.client
import json
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import gymnasium
import numpy as np
import pytest
from helpers import vec
from small_environments import Masked

from tfbaselines.algs import ppo2
from tfbaselines.envs import tiny
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.serve.__main__ import main

uvicorn = pytest.importorskip("uvicorn", reason="the extra serve is not installed")
pytest.importorskip("starlette", reason="the extra serve is not installed")

from tests.export.worlds import Parts  # noqa: E402
from tests.serve.fuzz import fuzz, metric  # noqa: E402
from tfbaselines.serve.app import Server  # noqa: E402

SMALL = {"nsteps": 16, "nminibatches": 1, "noptepochs": 1, "seed": 0}


@contextlib.contextmanager
def serving(model):
    """The port of a server in a thread of this process."""
    with socket.socket() as listener, model.acting_alone(np.random.default_rng(0)):
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(Server(model).app(), log_level="critical"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def asked(port, document=None, path="/act", method="POST"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, None if document is None else json.dumps(document))
    answer = connection.getresponse()
    status, text = answer.status, answer.read().decode()
    connection.close()
    return status, json.loads(text) if text.startswith(("{", "[")) else text


def test_actions_are_the_models_alone_and_in_batches():
    env = VecNormalize(vec(lambda: tiny.BoxIdentityEnv((3,), episode_len=10)))
    model = ppo2.learn("mlp", env, 0, num_hidden=8, **SMALL)
    env.reset()
    for _ in range(20):
        env.step(np.ones((1, 3), np.float32))
    raw = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    scaled = np.clip((raw - env.ob_rms.mean) / np.sqrt(env.ob_rms.var + env.epsilon), -10, 10)
    expected = model.act(scaled, deterministic=True)[0]
    with serving(model) as port:
        status, answer = asked(port, {"observations": raw.tolist()})
        assert status == 200
        np.testing.assert_allclose(answer["actions"], expected, atol=1e-5)
        before = metric(port, "batches_total")
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda row: asked(port, {"observations": row.tolist()}), raw))
        np.testing.assert_allclose([answer["actions"] for _, answer in answers], expected, atol=1e-5)
        assert metric(port, "observations_total") == 80 and metric(port, "batches_total") - before <= 40
        drawn = [asked(port, {"observations": raw[0].tolist(), "deterministic": False})[1]["actions"] for _ in "ab"]
        assert drawn[0] != drawn[1]
        assert asked(port, path="/health", method="GET") == (200, {"status": "ok"})
        about = asked(port, path="/", method="GET")[1]
        assert about["algorithm"] == "ppo2" and about["inputs"][0]["shape"] == [3]
        # None of them is answered by a 5xx.
        statuses = fuzz(port, raw[0].tolist(), 400)
        assert max(statuses) < 500 and {200, 400, 404, 405, 422} <= statuses.keys(), statuses
        assert asked(port, {"observations": raw[0].tolist()})[0] == 200


@pytest.mark.parametrize(
    ("document", "status", "says"),
    [
        ([], 400, "the body is not a JSON object"),
        ({"obs": 1}, 400, "unknown 'obs'"),
        ({}, 422, "'observations' is missing: give one observation of shape [4] or a list of them"),
        ({"observations": [1, 2]}, 422, "'observations' has the shape [2]: give one observation of shape [4]"),
        ({"observations": [[1, 2, 3, 4], [1]]}, 422, "its rows differ"),
        ({"observations": [float("nan")] * 4}, 422, "a number that is not finite"),
        ({"observations": ["1"] * 4}, 422, "something that is not a number"),
        ({"observations": [1e200] * 4}, 422, "too large for float32"),
        ({"observations": [[0.0] * 4] * 1025}, 422, "1025 observations: 1 to 1024"),
        ({"observations": [0.0] * 4, "states": [1]}, 422, "the policy has no memory"),
        ({"observations": [0.0] * 4, "deterministic": 1}, 422, "'deterministic' is true or false"),
    ],
)
def test_malformed_requests_are_errors_of_the_client(document, status, says, plain):
    found, answer = asked(plain, document)
    assert found == status and says in answer["error"]


@pytest.fixture(scope="module")
def plain():
    model = ppo2.learn("mlp", vec(lambda: gymnasium.make("CartPole-v1")), 0, num_hidden=8, **SMALL)
    with serving(model) as port:
        yield port


def test_large_bodies_are_refused_unread(plain):
    with socket.create_connection(("127.0.0.1", plain), timeout=30) as connection:
        connection.sendall(b"POST /act HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n")
        assert b" 413 " in connection.recv(100)


def test_memory_goes_out_and_comes_back():
    env = vec(lambda: tiny.FixedSequenceEnv(4, episode_len=8))
    model = ppo2.learn("lstm", env, 0, nlstm=4, **SMALL)
    obs, masks = np.asarray([env.reset()[0]] * 3), np.array([0, 1, 0], np.float32)
    states = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    actions, new_states = model.act(obs, states, True, masks)
    with serving(model) as port:
        document = {"observations": obs.tolist(), "states": states.tolist(), "masks": masks.tolist()}
        _, answer = asked(port, document)
        assert answer["actions"] == actions.tolist()
        np.testing.assert_allclose(answer["states"], new_states, atol=1e-6)
        # Without states an episode begins; one observation has one state.
        _, answer = asked(port, {"observations": obs[0].tolist()})
        np.testing.assert_allclose(answer["states"], model.act(obs[0], None, True)[1][0], atol=1e-6)
        assert asked(port, {"observations": obs[0].tolist(), "states": answer["states"]})[0] == 200
        status, answer = asked(port, document | {"states": [[0.0] * 7] * 3})
        assert status == 422 and "'states' has the shape [3, 7]: give [3, 8]" in answer["error"]


def test_parts_have_names_and_masks_forbid():
    joined = ppo2.learn("mlp", Parts(gymnasium.spaces.Discrete(4)), 0, num_hidden=8, **SMALL)
    parts = {"place": [[0.5, -0.5, 9.0], [1.0, 2.0, 3.0]], "kind": [2, 0]}
    with serving(joined) as port:
        rows = [{name: np.array(part[row]) for name, part in parts.items()} for row in range(2)]
        expected = [int(joined.act(row, deterministic=True)[0]) for row in rows]
        assert asked(port, {"observations": parts}) == (200, {"actions": expected})
        status, answer = asked(port, {"observations": parts | {"kind": [2, 3]}})
        assert status == 422 and "'observations.kind' has a number outside of 0 to 2" in answer["error"]
    space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    env = vec(lambda: Masked(space, gymnasium.spaces.Discrete(3)))
    model = ppo2.learn("mlp", env, 0, num_hidden=8, **SMALL)
    with serving(model) as port:
        for allowed in range(3):
            mask = [int(choice == allowed) for choice in range(3)]
            parts = {"all": [0.5, -0.5], "action_mask": mask}
            assert asked(port, {"observations": parts}) == (200, {"actions": allowed})
        status, answer = asked(port, {"observations": {"all": [0.5, -0.5]}})
        assert status == 422 and "an object with the parts action_mask [3], all [2]" in answer["error"]
        status, answer = asked(port, {"observations": {"all": [0.5, -0.5], "action_mask": [0, 0, 0]}})
        assert status == 422 and "allows nothing" in answer["error"]


def test_a_port_in_use_and_a_missing_run_are_one_line(tmp_path, capsys):
    (tmp_path / "model").touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main([str(tmp_path / "model"), f"--port={taken.getsockname()[1]}"]) == 2
    assert re.search(r"port=\d+ is not valid: it cannot be opened \(.*in use\)", capsys.readouterr().err)
    assert main([str(tmp_path / "nowhere")]) == 2
    assert "directory='" in capsys.readouterr().err
