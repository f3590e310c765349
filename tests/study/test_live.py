"""The report of a study on the loopback address."""

import json
import threading
import urllib.error
import urllib.request

import pytest

from tfbaselines.study import live
from tfbaselines.study.__main__ import main
from tfbaselines.study.cells import combinations
from tfbaselines.study.live import server
from tfbaselines.study.store import Member, Study


@pytest.fixture
def study(tmp_path):
    """A study without runs yet."""
    return Study.create(tmp_path / "s", combinations(["ppo2"], ["CartPole-v1"], 2))


def finish_one(study):
    with Member(study) as member:
        claim = member.claim()
        place = study.place(claim.cell)
        place.mkdir(parents=True)
        rows = [f"{10 * i},100,{100 * i}" for i in range(1, 11)]
        (place / "progress.csv").write_text("\n".join(["eprewmean,fps,total_timesteps", *rows]) + "\n")
        env = {"env": "CartPole-v1", "seed": 0}
        config = {"alg": "ppo2", "network": "mlp", "env": env, "learn": {}, "given": {"alg": "ppo2"}}
        (place / "config.json").write_text(json.dumps(config))
        assert member.finish(claim)


def test_the_page_grows_with_the_study(study, tmp_path, monkeypatch):
    monkeypatch.setattr(live, "SHARE", 0)
    with server(study, str(tmp_path)) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        host, port = served.server_address

        def get(path, **headers):
            return urllib.request.urlopen(urllib.request.Request(f"http://{host}:{port}{path}", headers=headers))

        assert host == "127.0.0.1" and "There are no runs yet" in get("/").read().decode()
        finish_one(study)
        assert "CartPole-v1" in get("/").read().decode()
        assert get("/status").read().decode().count("2 cells, 1 done") == 1
        for path, headers, code in (("/etc/passwd", {}, 404), ("/", {"Host": "evil.example:80"}, 403)):
            with pytest.raises(urllib.error.HTTPError) as error:
                get(path, **headers)
            assert error.value.code == code
        with pytest.raises(ValueError, match=f"--port={port} cannot be used: address already in use"):
            server(study, str(tmp_path), port)
        served.shutdown()


def test_the_command_writes_the_page_beside_the_tables(study, capsys):
    finish_one(study)
    assert main(["report", str(study.directory)]) == 0
    assert all((study.directory / f"report.{kind}").exists() for kind in ("csv", "md", "html"))
    assert "CartPole-v1" in (study.directory / "report.html").read_text()
    assert main(["watch", str(study.directory), "--port", "-1"]) == 2
    assert "port=-1 is not valid" in capsys.readouterr().err
