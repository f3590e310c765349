"""Pages of algorithms name what exists, and exercises are solved by their solutions and by nothing less."""

import importlib.util
import sys

import pytest
from algorithm_pages import SECTIONS, explained, files, is_defined, page_of, places, text_of
from loops import for_each
from pages import DOCS, ROOT

from tfbaselines.algs import NAMES, get


def module_in(directory, name):
    """A module of docs/ that is no part of the package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / directory / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@for_each("alg", NAMES)
def test_a_page_has_every_section_and_names_what_exists(alg):
    text = text_of(alg)
    # Sections of an algorithm's own may stand between these.
    titles = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert [title for title in titles if title in SECTIONS] == list(SECTIONS)
    for directive in ("can-i-use", "arguments", "scores"):
        assert f"```{{{directive}}} {alg}\n```" in text or (directive == "scores" and alg in ("bc", "gail"))
    assert len(places(text)) >= 3
    missing = [f"{path}:{name}" for path, name in places(text) if not is_defined(path, name)]
    missing += [path for path in files(text) if not (ROOT / path).exists()]
    assert not missing
    facts_to_know = text.split("## You should know\n")[1].split("\n- ")
    assert len(facts_to_know) > 5


def test_no_page_without_an_algorithm():
    assert {path.stem for path in page_of("x").parent.glob("*.md")} == {"index", *NAMES}


def test_tables_have_every_argument_and_say_what_the_registry_says():
    facts = module_in("_ext", "facts")
    for alg in NAMES:
        arguments = get(alg).config.arguments()
        groups = facts.argument_groups(alg)
        positions = sorted((place, one.name) for rows in groups.values() for place, one, _ in rows)
        assert [name for _, name in positions] == list(arguments)
        assert [place for place, _ in positions] == list(range(3, 3 + len(arguments)))
        lines = facts.argument_tables(alg)
        assert all(any(f"| `{name}` |" in line for line in lines) for name in arguments)
        assert "Others" not in groups
    uses = facts.uses(get("sac"))
    assert (uses["Box actions"], uses["MultiBinary actions"], uses["Action masks"]) == ("yes, with bounds", "no", "yes")
    assert facts.uses(get("ppo2"))["MultiBinary actions"] == "yes" and facts.uses(get("trpo"))["Memory"] == "no"
    assert facts.uses(get("her"))["Goals (hindsight)"] == "needs them"
    row = next(line for line in facts.score_table("a2c") if "CartPole-v1" in line)
    assert "| 300,000 | 5 | 500.0 (500.0; 500.0) | `--tuned --env=CartPole-v1" in row


def test_explained_columns_are_found_in_included_tables_too():
    assert {"loss/approxkl", "eprewmean", "misc/explained_variance"} <= explained("ppo2")
    assert "StdTestEpRet" in explained("sac") and "LossQ" not in explained("sac")


@pytest.mark.parametrize("number", range(1, 9))
def test_a_solution_passes_and_the_start_does_not(number, capsys, tmp_path):
    check = module_in("exercises", "check")
    exercises = DOCS / "exercises"
    assert check.main([str(number), str(exercises / "solutions" / f"solution_{number}.py")]) == 0
    assert "right" in capsys.readouterr().out
    assert check.main([str(number), str(exercises / f"exercise_{number}.py")]) == 1
    assert "not yet" in capsys.readouterr().out
    empty = tmp_path / "empty.py"
    empty.write_text("")
    assert check.main([str(number), str(empty)]) == 1
    assert "the file has no" in capsys.readouterr().out


def test_half_of_an_answer_is_refused(tmp_path, capsys):
    """Only one of the two mistakes is mended; and a wrapper that steps on after the end."""
    check = module_in("exercises", "check")
    solutions = DOCS / "exercises" / "solutions"
    halves = {
        "2": ("tf.maximum(", "tf.minimum("),
        "3": ("(1.0 - terminated)", "1.0"),
        "4": ("                break\n", "                pass\n"),
        "5": ("2.0 * (math.log(2.0) - u - tf.nn.softplus(-2.0 * u))", "tf.math.log(1.0 - tf.tanh(u) ** 2)"),
        "6": ("np.where(allowed, online, -np.inf)", "online"),
        "7": ("np.minimum(1.0, ratios[:, t])", "ratios[:, t]"),
    }
    for number, (right, wrong) in halves.items():
        code = (solutions / f"solution_{number}.py").read_text(encoding="utf-8")
        assert right in code
        (tmp_path / "half.py").write_text(code.replace(right, wrong))
        assert check.main([number, str(tmp_path / "half.py")]) == 1, number
        assert "not yet" in capsys.readouterr().out


def test_mistakes_of_the_command_are_one_line(tmp_path, capsys):
    check = module_in("exercises", "check")
    assert check.main(["9", "x.py"]) == 2 and "NUMBER is one of" in capsys.readouterr().err
    assert check.main(["1", str(tmp_path / "none.py")]) == 1
    assert "there is no file" in capsys.readouterr().out
    (tmp_path / "raises.py").write_text("1 / 0")
    assert check.main(["1", str(tmp_path / "raises.py")]) == 1
    assert "raised ZeroDivisionError" in capsys.readouterr().out
    assert "solution" not in sys.modules
