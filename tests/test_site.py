"""The site of the documentation: it builds without a warning, its links lead somewhere, and it needs no network."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest
from pages import DOCS, FENCE, README, ROOT, pages

# Lines of a paragraph, and characters of a line.
MOST_LINES = 6
WIDTH = 140


class Page(HTMLParser):
    """The links, the loaded files and the anchors of a page of the site."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors.add(attrs.get("id"))
        if tag == "a" and "href" in attrs:
            self.links.append(attrs["href"])
        if tag in ("img", "script", "iframe", "source", "video", "audio", "embed") and "src" in attrs:
            self.loaded.append(attrs["src"])
        if tag == "link" and "href" in attrs:
            self.loaded.append(attrs["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; a warning is an error."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", str(DOCS), str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-5000:]
    return out


@pytest.mark.slow
def test_links_lead_somewhere_and_nothing_comes_from_the_network(site):
    found = {path: Page(path) for path in site.rglob("*.html")}
    assert len(found) > 40
    wrong = []
    for path, page in found.items():
        for link in page.loaded:
            if re.match(r"(https?:)?//", link):
                wrong.append(f"{path.name} loads {link}")
        for link in page.links:
            if re.match(r"(https?|mailto):", link) or link == "#":
                continue
            file, _, anchor = link.partition("#")
            target = (path.parent / unquote(file)).resolve() if file else path
            if not target.exists() or (anchor and target in found and unquote(anchor) not in found[target].anchors):
                wrong.append(f"{path.name} links to {link}")
    for path in site.rglob("*.css"):
        if re.search(r"(@import|url\()\s*['\"]?(https?:)?//", path.read_text(encoding="utf-8")):
            wrong.append(f"{path.name} loads from the network")
    assert not wrong
    # Formulas are part of the pages, and the search has its index beside them.
    assert "<math" in (site / "algorithms/sac.html").read_text(encoding="utf-8")
    assert "explained_variance" in (site / "searchindex.js").read_text(encoding="utf-8")


def paragraphs(text):
    """Paragraphs and items of lists, as lists of lines, without code, tables, formulas and headings."""
    text = re.sub(r"(?ms)^(`{3,}|:{3,}).*?^\1$|^\$\$.*?\$\$", "", text)
    lines = []
    for line in [*text.splitlines(), ""]:
        item = re.match(r"\s*([-*]|\d+\.|\(\d+\)) ", line)
        if not line.strip() or item or line.startswith(("#", "|", "<!--")):
            if lines:
                yield lines
            lines = [line] if item else []
        else:
            lines.append(line)


def test_paragraphs_are_short():
    wrong = []
    for page in [*pages(), ROOT / "CONTRIBUTING.md"]:
        for lines in paragraphs(page.read_text(encoding="utf-8")):
            if len(lines) > MOST_LINES or max(map(len, lines)) > WIDTH:
                wrong.append(f"{page.relative_to(ROOT)}: {lines[0][:60]} ({len(lines)} lines)")
    assert not wrong, "\n".join(wrong)


def test_readme_is_one_page():
    text = README.read_text(encoding="utf-8")
    assert text.count("\n") <= 200
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", text) + re.findall(r'src="(?!https?:)([^"]+)"', text):
        assert (ROOT / link).exists(), link


def test_tests_that_pages_name_exist():
    for page in pages():
        for name in re.findall(r"`(tests/[\w/]+\.py)", page.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{page.relative_to(ROOT)}: {name}"


def test_every_block_runs_or_has_a_reason():
    """A fence with a language that runs is a block; others are text, output or directives of the site."""
    known = r"bash|python|yaml|text|csv|json|\{[\w:-]+\}"
    for page in [*pages(), ROOT / "CONTRIBUTING.md"]:
        text = page.read_text(encoding="utf-8")
        for language in re.findall(r"(?m)^```([^`\n]+?)(?: .*)?$", text):
            assert re.fullmatch(known, language), f"{page.relative_to(ROOT)}: ```{language}"
        starts = len(re.findall(r"(?m)^```(?:bash|python|yaml)$", text))
        assert starts == len(list(FENCE.finditer(text))), page


def test_modules_that_pages_name_exist():
    """Paths of our own code in backticks, but on the pages of algorithms, which name the originals' files too."""
    for page in pages():
        names = re.findall(r"`((?:\w+/)+\w+\.py)`", page.read_text(encoding="utf-8"))
        for name in names if page.parent.name != "algorithms" else ():
            name = name.replace("NAME", "td3")
            assert (ROOT / name).exists() or (ROOT / "tfbaselines" / name).exists(), f"{page.name}: {name}"


def test_tables_of_migration_name_arguments_that_exist():
    """The column 'here' of the pages that are written by hand, for the algorithm in its title."""
    from tfbaselines.algs import get
    from tfbaselines.cli.command_line import FLAGS
    from tfbaselines.config.groups import NETWORKS

    others = set(FLAGS) | {name for network in NETWORKS.values() for name in network.arguments} | {"cpu"}
    for page in ("mlagents", "rlib", "acer-torch", "spinningup"):
        text = (DOCS / "migration" / f"{page}.md").read_text(encoding="utf-8")
        for algorithm, rows in re.findall(
            r"^\|[^|\n]+\| `(\w+)` here \|[^\n]*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE
        ):
            known = set(get(algorithm).config.arguments()) | others
            for row in rows.splitlines():
                for name in re.findall(r"`(?:--)?([a-z]\w*)(?:=[^`]*)?`", row.split("|")[2]):
                    assert name in known, f"{page}: {algorithm} has no argument {name}"
