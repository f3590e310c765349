"""The page as a whole: what a directory of runs becomes."""

import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest

from tfbaselines.report import build, videos
from tfbaselines.report.__main__ import main

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


def write_run(directory, alg, env, seed, level, rows=30, **learn):
    """Write a run's files as this package does, with returns that grow to about `level`."""
    directory.mkdir(parents=True)
    config = {"alg": alg, "env": {"env": env, "seed": seed}, "learn": learn, "host": "machine", "started": "2026-01-02"}
    (directory / "config.json").write_text(json.dumps(config | {"git_commit": {"tfbaselines": "0123456789abcdef"}}))
    steps = np.arange(1, rows + 1) * 1000
    returns = level * steps / steps[-1] + 0.02 * level * np.random.default_rng(seed).normal(size=rows)
    table = np.stack([steps, returns, steps / 500], axis=1)
    header = "misc/total_timesteps,eprewmean,misc/time_elapsed"
    np.savetxt(directory / "progress.csv", table, delimiter=",", header=header, comments="", fmt="%.6g")
    return directory


@pytest.fixture
def logs(tmp_path):
    """Two algorithms on two environments, three seeds each."""
    for env, scale in (("CartPole-v1", 1.0), ("HalfCheetah-v5", 10.0)):
        for seed in range(3):
            write_run(tmp_path / f"logs/a2c-{env}-{seed}", "a2c", env, seed, 300 * scale, lr=0.1)
            write_run(tmp_path / f"logs/ppo2-{env}-{seed}", "ppo2", env, seed, 450 * scale, lr=0.2)
    return tmp_path / "logs"


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.+?)</script>', page, re.DOTALL)[1])


def row(page, name, section):
    """Texts of the first row of a section's tables that begins with a name."""
    part = page.split(f'<section id="{section}">')[1].split("</section>")[0]
    for line in re.findall(r"<tr>(.+?)</tr>", part, re.DOTALL):
        cells = [re.sub(r"<[^>]+>", " ", cell).split() for cell in re.split(r"</t[hd]>", line)]
        if cells[0] == name.split():
            return [" ".join(cell) for cell in cells]
    raise AssertionError(f"no row {name} in {section}")


def test_the_page_has_curves_scores_comparisons_and_facts(logs, capsys):
    (logs / "ppo2-HalfCheetah-v5-0/result.json").write_text('{"score": 4711.0}')
    assert main([str(logs)]) == 0
    out = logs / "report.html"
    assert capsys.readouterr().out == f"Wrote {out}\n"
    page = out.read_text()
    data = data_of(page)
    assert [method["name"] for method in data["methods"]] == ["a2c", "ppo2"] and data["hidden"] == []
    titles = [panel["title"] for panel in data["panels"]]
    assert titles[:2] == ["CartPole-v1", "HalfCheetah-v5"] and len(titles) == 5
    for panel in data["panels"][:2]:
        assert list(panel["axes"]) == ["steps", "time"]
        assert len(panel["axes"]["steps"]["runs"]) == 6 and panel["axes"]["time"]["lines"][0]["x"][-1] == 1.0
    for profile in data["panels"][2:]:
        assert profile["axes"].popitem()[1]["lines"][0]["y"][0] == 1 and profile["steps"]
    assert "These 3 seeds cannot tell ppo2 from a2c; about 6 would" in page
    # Over both environments the six runs do.
    assert re.search(r"ppo2 is better than a2c \(ppo2 was better in 100% of the pairs of runs, p = 0.0\d+\)", page)
    cartpole = row(page, "ppo2", "scores")
    assert cartpole[1] == "3" and 420 < float(cartpole[2]) < 450 and 25 < float(cartpole[5]) < 55
    assert "500.0 ppo of rl-baselines3-zoo, 100k steps" in cartpole
    cheetah = page.split("<h3>HalfCheetah-v5</h3>")[2].split("</table>")[0]
    assert "4,711" in cheetah and "5,819 <small>ppo of rl-baselines3-zoo, HalfCheetah-v3, 1M steps" in cheetah
    assert "1,669 <small>OpenAI baselines, 1M steps" in cheetah
    assert row(page, "lr", "arguments")[1:3] == ["0.2", "0.1"]
    facts = row(page, "a2c", "runs")
    assert {"0", "30,000", "500", "machine", "0123456789", "2026-01-02"} <= {*facts}, facts


class Elements(HTMLParser):
    """Elements of a page and their attributes."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


def test_names_from_strangers_are_text(tmp_path):
    directory = write_run(tmp_path / "a<script>alert(1)<", HOSTILE, f"CartPole-v1{HOSTILE}", 0, 9.0, lr=HOSTILE)
    write_run(tmp_path / "b", "ppo2", f"CartPole-v1{HOSTILE}", 1, 5.0, lr=0.1)
    (directory / "videos").mkdir()
    (directory / "videos" / "javascript:'\"><script>.mp4").write_bytes(b"film")
    (tmp_path / "<img onerror=1>").mkdir()
    (tmp_path / "<img onerror=1>/progress.csv").write_text("misc/total_timesteps,eprewmean\n1,<script>\n")
    page = build([tmp_path], tmp_path / "page.html", title=HOSTILE).read_text()
    elements = Elements(page).found
    assert [attrs.get("id") for tag, attrs in elements if tag == "script"] == ["data", None]
    assert not [tag for tag, _ in elements if tag in ("img", "iframe", "object", "link", "base", "form")]
    assert not [name for _, attrs in elements for name in attrs if name.startswith("on")]
    assert HOSTILE in {method["name"] for method in data_of(page)["methods"]} and "<script>alert" not in page
    # Its policy lets neither other scripts run nor anything be loaded.
    (policy,) = [attrs["content"] for _, attrs in elements if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy


def test_the_page_loads_nothing(logs):
    page = build([logs]).read_text()
    namespace = "http://www.w3.org/2000/svg"
    assert not re.search(r"https?://", page.replace(namespace, ""))
    assert not re.search(r"\burl\((?!#)|@import|\bfetch\(|XMLHttpRequest|WebSocket|sendBeacon|import\(", page)
    for tag, attrs in Elements(page).found:
        assert not {"src", "srcset", "poster", "data"} & attrs.keys(), tag
        assert attrs.get("href", "#").startswith("#")


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_a_browser_draws_all_plots_of_the_page(logs, tmp_path):
    page = build([logs], tmp_path / "page.html")
    options = [
        "--headless=new",
        "--no-sandbox",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--virtual-time-budget=2000",
    ]
    options += ["--host-resolver-rules=MAP * 127.0.0.1:9", "--enable-logging=stderr", "--dump-dom"]
    done = subprocess.run([CHROMIUM, *options, page.as_uri()], capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout.count('data-drawn="2"') == len(data_of(page.read_text())["panels"])
    assert "CONSOLE" not in done.stderr


def test_videos_are_in_the_page_or_links_by_their_size(logs, tmp_path, monkeypatch):
    monkeypatch.setattr(videos, "LARGEST", 10)
    for number, (name, size) in enumerate((("small.mp4", 5), ("large film.webm", 50))):
        folder = logs / f"a2c-CartPole-v1-{number}/videos"
        folder.mkdir()
        (folder / name).write_bytes(b"x" * size)
    (logs / "ppo2-CartPole-v1-0/film.mp4").symlink_to("/etc/hostname")
    elements = Elements(build([logs], tmp_path / "pages/page.html").read_text()).found
    assert [attrs["src"] for tag, attrs in elements if tag == "video"] == ["data:video/mp4;base64,eHh4eHg="]
    links = [attrs["href"] for tag, attrs in elements if tag == "a" and not attrs["href"].startswith("#")]
    assert links == ["./../logs/a2c-CartPole-v1-1/videos/large%20film.webm"]


def test_a_page_of_runs_that_go_on_needs_none_yet(tmp_path):
    page = build([tmp_path], tmp_path / "live.html", title="Live", refresh=5).read_text()
    assert "There are no runs yet." in page and data_of(page)["refresh"] == 5 and "<title>Live</title>" in page
    # A second page in one process, and one without refresh.
    write_run(tmp_path / "a", "a2c", "CartPole-v1", 0, 1.0)
    assert data_of(build([tmp_path], tmp_path / "live.html").read_text())["refresh"] is None


def test_mistakes_are_one_line_and_status_2(logs, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn/progress.csv").write_bytes(b"\xff\xfe\x00,\n1")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/progress.csv").write_text("steps,loss\n1,2\n")
    mistakes = {
        ("nowhere",): "no directory begins with it",
        (str(tmp_path / "empty"),): "no progress.csv",
        (str(tmp_path / "torn"),): "cannot be read",
        (str(tmp_path / "other"),): f"no returns in {tmp_path / 'other'}",
        (str(logs), "--out", "report.png"): "ends in .html",
        (str(logs), "--out", str(logs / "a2c-CartPole-v1-0/config.json/x.html")): "can be written",
    }
    for words, reason in mistakes.items():
        assert main(words) == 2, words
        err = capsys.readouterr().err
        assert err.count("\n") == 1 and reason in err, err
    # Beside runs that can be read, a damaged file is a line, on the page too.
    shutil.move(tmp_path / "torn", logs / "torn")
    assert main([str(logs)]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and "torn" in captured.err
    assert f"{os.sep}torn" in (logs / "report.html").read_text().split('<section id="problems">')[1]


def test_of_many_methods_the_best_are_shown_at_first(tmp_path):
    for number in range(12):
        write_run(tmp_path / f"method{number:02d}x", "a2c", "CartPole-v1", 0, 10.0 * number, lr=number)
    page = build([tmp_path], title="Many").read_text()
    assert set(data_of(page)["hidden"]) == {f"method{number:02d}x" for number in range(4)}
    assert [attrs["data-all"] for _, attrs in Elements(page).found if "data-all" in attrs] == ["all", "none"]


def test_large_names_and_numbers_make_no_large_page(tmp_path):
    long = "x" * 100_000
    arguments = {f"argument{number}": number for number in range(3000)}
    write_run(tmp_path / "a", long, f"{long}-v1", 0, 1e90, **arguments)
    write_run(tmp_path / "b", "a2c", f"{long}-v1", 0, -1e-90)
    config = json.loads((tmp_path / "a/config.json").read_text())
    (tmp_path / "a/config.json").write_text(json.dumps(config | {"exp_name": long, "host": long, "started": long}))
    page = build([tmp_path]).read_text()
    assert len(page) < 200_000 and len(data_of(page)["methods"]) == 2
