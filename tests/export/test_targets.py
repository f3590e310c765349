"""Every algorithm's policy, exported to every target of a graph, answers the test vectors as the model does."""

import importlib.util
import json
import re

import gymnasium
import keras
import numpy as np
import pytest
from gymnasium import spaces
from helpers import vec
from small_environments import Masked, Seeing
from small_runs import learn, own_identity

from tests.export.worlds import Parts
from tfbaselines import export
from tfbaselines.algs import ALGORITHMS, ppo2
from tfbaselines.envs import tiny
from tfbaselines.errors import UsageError
from tfbaselines.export import check, describe, onnx_target
from tfbaselines.export.__main__ import main
from tfbaselines.export.vectors import compare, read_vectors

SMALL = {"nsteps": 16, "nminibatches": 1, "noptepochs": 1, "seed": 0}
BOX, IMAGE = spaces.Box(-3.0, 3.0, (3,), np.float32), spaces.Box(0, 255, (24, 24, 2), np.uint8)
PAIR = spaces.Tuple([spaces.Discrete(3, start=2), spaces.MultiDiscrete([2, 4])])
PACKAGES = {"litert": "ai_edge_litert", "onnx": "tf2onnx"}


# Targets whose packages are installed.
GRAPHS = ["savedmodel", *(to for to, package in PACKAGES.items() if importlib.util.find_spec(package))]


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Test vectors are few."""
    monkeypatch.setattr(describe, "VECTORS", 40)


def moved(model):
    """The model with weights far from those of its beginning, whose actions hardly differ."""
    rng = np.random.default_rng(0)
    for variable in model.policy.trainable_variables:
        array = variable.numpy()
        variable.assign(array + rng.normal(scale=0.3, size=array.shape).astype(array.dtype))
    model.actor.refresh()
    return model


def test_every_algorithm(tmp_path):
    """SavedModels are compared in contract/test_one_road.py."""
    varied = 0
    for alg in ALGORITHMS:
        model = moved(learn(alg, own_identity(alg), 0))
        for to in GRAPHS[1:]:
            model.export(tmp_path / to, to, episodes=0)
            difference, tolerance = check(tmp_path / to)
            assert difference <= tolerance, (alg, to)
        varied += np.ptp(describe.options_of(model, "", False, "float32", 0).outputs["actions"]) > 0
    assert varied > 10


def special():
    """Models of images, parts, masks, memory and every kind of actions."""
    actions = spaces.Discrete(4), spaces.MultiDiscrete([3, 2], start=[1, -4]), spaces.MultiBinary(3)
    for space in actions:
        yield f"{space}", ppo2.learn("mlp", vec(lambda s=space: Seeing(BOX, s)), 0, num_hidden=8, **SMALL)
    yield "whole numbers", ppo2.learn("mlp", vec(lambda: Seeing(BOX, spaces.Box(-2, 5, (2,), np.int32))), 0, **SMALL)
    yield "images", ppo2.learn("cnn_small", vec(lambda: Seeing(IMAGE, actions[0])), 0, **SMALL)
    yield "masks", ppo2.learn("mlp", vec(lambda: Masked(BOX, actions[1])), 0, num_hidden=8, **SMALL)
    yield "parts", ppo2.learn("cnn_small", vec(lambda: Parts(actions[0], image=True)), 0, **SMALL)
    yield "several parts", learn("sac", vec(lambda: Parts(spaces.Box(-2.0, 2.0, (2,), np.float32))), 0)
    yield "joined parts", ppo2.learn("mlp", Parts(actions[0]), 0, normalize_observations=True, **SMALL)
    yield "joined values", ppo2.learn("mlp", Seeing(PAIR, actions[0]), 0, **SMALL)
    sequence = vec(lambda: tiny.FixedSequenceEnv(4, episode_len=8))
    yield "memory", ppo2.learn("lstm", sequence, 0, nlstm=4, **SMALL)
    yield "normalized", ppo2.learn("mlp", vec(lambda: Seeing(BOX, BOX)), 0, normalize_observations=True, **SMALL)


def test_every_kind_of_space(tmp_path):
    """LiteRT takes the most likely actions, the others sample."""
    for name, model in special():
        moved(model)
        for to in [*GRAPHS, "numpy"] if name.startswith("joined") else GRAPHS:
            sampled = to != "litert"
            model.export(tmp_path / "out", to, episodes=0, sampled=sampled)
            assert check(tmp_path / "out")[0] <= 1e-5, (name, to)
            inputs, expected = read_vectors(tmp_path / "out")
            ports = [port["name"] for port in json.loads((tmp_path / "out/export.json").read_text())["inputs"]]
            assert ports == list(inputs) and ("states" in inputs) == (name == "memory") == ("new_states" in expected)
            if name in ("several parts", "joined parts"):
                assert ports == ["observations_kind", "observations_place", *["noise"] * sampled]
            if sampled:
                parts = {part.removeprefix("observations_"): inputs[part] for part in ports if part.startswith("obs")}
                likely = model.act(parts.get("observations", parts), deterministic=True)[0]
                assert not np.array_equal(expected["actions"], likely), name


def test_the_same_run_gives_the_same_bytes(tmp_path):
    """Two models of one seed have the same weights in other places of memory."""
    env = vec(lambda: tiny.FixedSequenceEnv(4, episode_len=8))
    models = []
    for _ in "ab":
        # Keras numbers the layers of a process.
        keras.utils.clear_session()
        models.append(moved(ppo2.learn("lstm", env, 0, nlstm=4, **SMALL)))
    for to in GRAPHS:
        found = []
        for name, model in zip("ab", models, strict=True):
            model.export(tmp_path / to / name, to, episodes=0)
            place = tmp_path / to / name
            files = sorted(path for path in place.rglob("*") if path.is_file())
            found.append({path.relative_to(place): path.read_bytes() for path in files})
        assert found[0] == found[1], to


def test_constants_in_another_order_give_the_same_bytes(tmp_path):
    """The converter keeps them in sets, whose order changes from one conversion to the next, one time in ten."""
    onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
    model = ppo2.learn("mlp", vec(lambda: Seeing(BOX, spaces.Discrete(4))), 0, num_hidden=8, **SMALL)
    model.export(tmp_path / "out", "onnx", episodes=0)
    options = describe.options_of(model, "", False, "float32", 0)
    proto = onnx.load(tmp_path / "out" / onnx_target.FILE)
    constants = list(proto.graph.initializer)
    assert len(constants) > 2
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(reversed(constants))
    onnx_target.rename(proto, options.interface)
    assert proto.SerializeToString(deterministic=True) == (tmp_path / "out" / onnx_target.FILE).read_bytes()


def test_fewer_bits_have_their_own_score(tmp_path, monkeypatch, capsys):
    pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
    monkeypatch.setattr(describe, "VECTORS", 520)
    env = vec(lambda: gymnasium.make("CartPole-v1"))
    model = moved(ppo2.learn("mlp", env, 0, num_hidden=128, **SMALL))
    model.config = {"alg": "ppo2", "env": {"env": "CartPole-v1"}}
    sizes = {}
    for precision in ("float32", "float16", "int8"):
        model.export(tmp_path / precision, "litert", precision=precision, episodes=3)
        sizes[precision] = (tmp_path / precision / "policy.tflite").stat().st_size
        card = json.loads((tmp_path / precision / "export.json").read_text())
        assert card["score"]["episodes"] == 3 and card["score"]["mean"] > 5
        assert card["vectors"]["source"] == "the environment, seed 0"
        assert ("score_of_export" in card) == (precision != "float32")
        if precision != "float32":
            assert card["tolerance"] is None and card["score_of_export"]["mean"] > 5
    monkeypatch.setattr(export, "ACCEPTED_LOSS", -9.0)
    model.export(tmp_path / "int8", "litert", precision="int8", episodes=1)
    assert re.search(r"warning: the mean return of the int8 policy is [\d.]+, and [\d.]+ with", capsys.readouterr().err)
    assert sizes["int8"] < sizes["float16"] < sizes["float32"]
    assert main(["--check", str(tmp_path / "int8")]) == 0


def test_changed_files_wrong_answers_and_refusals(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(describe, "VECTORS", 20)
    model = moved(ppo2.learn("mlp", vec(lambda: Seeing(BOX, BOX)), 0, num_hidden=8, **SMALL))
    model.export(tmp_path / "out", episodes=0)
    assert main(["--check", str(tmp_path / "out")]) == 0
    assert "at most 1e-05" in capsys.readouterr().out
    inputs, expected = read_vectors(tmp_path / "out")
    np.savez(tmp_path / "out/vectors.npz", **inputs, expected_actions=expected["actions"] + 1e-3)
    assert main(["--check", str(tmp_path / "out")]) == 1
    assert "ABOVE" in capsys.readouterr().out
    (tmp_path / "out/saved_model.pb").write_bytes(b"")
    assert main(["--check", str(tmp_path / "out")]) == 2
    assert "saved_model.pb differ from the checksums" in capsys.readouterr().err
    refusals = [
        ({"to": "tflite"}, "unknown target 'tflite': did you mean 'litert'"),
        ({"precision": "int8"}, "precision='int8' is not valid: to='savedmodel' has float32"),
        ({"episodes": -1}, "episodes=-1"),
    ]
    for options, says in refusals:
        with pytest.raises(UsageError, match=says):
            model.export(tmp_path / "out", **options)
    certain = learn("td3", own_identity("td3"), 0)
    with pytest.raises(UsageError, match="this policy is deterministic"):
        certain.export(tmp_path / "certain", sampled=True)
    assert not (tmp_path / "certain").exists()


def test_a_missing_package_is_one_line(monkeypatch, tmp_path, capsys):
    (tmp_path / "model").touch()
    real = importlib.util.find_spec
    for to, package in (("litert", "ai_edge_litert"), ("onnx", "onnx")):
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, gone=package: None if name == gone else real(name)
        )
        assert main([str(tmp_path / "model"), "--to", to, "--out", str(tmp_path / "out")]) == 2
        assert f"needs the package {package}: pip install 'tfbaselines[{to}]'" in capsys.readouterr().err


def test_differences_have_the_size_of_the_numbers():
    expected = {"actions": np.array([[1.0], [2000.0]])}
    assert compare({"actions": np.array([[1.5], [2000.0]])}, expected) == 0.5
    assert compare({"actions": np.array([[1.0], [2002.0]])}, expected) == pytest.approx(1e-3)
    assert compare({"actions": np.array([1.0, 2000.0])}, expected) == np.inf
    assert compare({"actions": np.array([[np.nan], [2000.0]])}, expected) == np.inf
