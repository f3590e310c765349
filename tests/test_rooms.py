"""Imports between rooms go one way, those inside of functions too; algorithms do not import one another."""

import ast
from pathlib import Path

import tfbaselines

PACKAGE = Path(tfbaselines.__file__).parent

# Each may import those before it.
ROOMS = (
    *("errors", "files", "yaml_files", "limits", "words", "loading", "compiling", "parallel", "envs", "policy"),
    *("learn", "replay"),
    *(
        "rollout",
        "config",
        "cli",
        "logs",
        "doctor",
        "demos",
        "training",
        "rewards",
        "algs",
        "plot",
        "evaluate",
        "multi",
        "record",
    ),
    *("check_env", "probes", "export", "serve", "report", "study", "search", "integrations"),
    *("compat", "bench", "run", "__main__"),
)


def imports(path):
    """Dotted names of the package's own modules that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("tfbaselines."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tfbaselines"):
            if node.module != "tfbaselines":
                yield node.module
            else:
                yield from (f"tfbaselines.{alias.name}" for alias in node.names if alias.name in ROOMS)


def room_of(path):
    """A room's __main__.py is a command: it stands above all rooms, as the package's own does."""
    return "__main__" if path.name == "__main__.py" else path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_no_arrow_points_back_up():
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in PACKAGE.rglob("*.py")
        if room_of(path) != "__init__"
        for name in imports(path)
        if ROOMS.index(name.split(".")[1]) > ROOMS.index(room_of(path))
    ]
    assert not wrong


def top_imports(path):
    """Modules of the package that are imported before a file's own lines run: those that it names, and theirs."""
    own = module_of(path).split(".")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tfbaselines"):
            parts = node.module.split(".")
            names = [parts[:end] for end in range(1, len(parts) + 1)]
            names += [[*parts, alias.name] for alias in node.names]
            # Packages that the file is in are under way already.
            yield from (".".join(name) for name in names if name != own[: len(name)])


def module_of(path):
    return ".".join(["tfbaselines", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")


def test_every_module_can_be_imported_first():
    """No module waits for one that waits for it."""
    waits = {module_of(path): set(top_imports(path)) for path in PACKAGE.rglob("*.py")}
    while free := {name for name, others in waits.items() if not others & waits.keys()}:
        waits = {name: others for name, others in waits.items() if name not in free}
    assert not waits


def algorithm_of(module):
    """The algorithm that a module belongs to, or None."""
    parts = module.split(".")
    return parts[2] if len(parts) > 2 and parts[1] == "algs" else None


def arrows():
    """Pairs of a module and one that it imports, by their dotted names, imports inside of functions too."""
    modules = {module_of(path): path for path in PACKAGE.rglob("*.py")}
    for module, path in modules.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tfbaselines"):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                yield from ((module, name if name in modules else node.module) for name in names)


# GAIL is TRPO on learned rewards: its policy takes the same step (Ho and Ermon 2016, algorithm 1).
BUILT_ON = {("gail", "trpo_mpi")}


def test_algorithms_do_not_import_one_another():
    pairs = {(algorithm_of(module), algorithm_of(imported)) for module, imported in arrows()}
    assert {(one, other) for one, other in pairs if one and other and one != other} == BUILT_ON


def test_what_one_algorithm_alone_needs_lies_in_its_folder():
    users = {}
    for module, imported in arrows():
        users.setdefault(imported, set()).add(algorithm_of(module))
    wrong = [
        f"{imported} is imported by algs/{next(iter(owners))} alone"
        for imported, owners in users.items()
        if algorithm_of(imported) is None and imported.count(".") > 1 and len(owners) == 1 and None not in owners
    ]
    assert not wrong


def test_losses_and_steps_stand_side_by_side():
    for path in (PACKAGE / "learn").glob("*.py"):
        assert not any(name.startswith("tfbaselines.losses") for name in imports(path))


def test_configs_load_no_tensorflow():
    for path in (PACKAGE / "config").glob("*.py"):
        top = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.Import)]
        assert not any(alias.name in ("tensorflow", "keras") for node in top for alias in node.names)
