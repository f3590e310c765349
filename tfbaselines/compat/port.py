"""Rows of the table of import paths."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Port:
    """A module of the originals.

    Attributes:
        names: names, separated by spaces, by the module here that has them; 'old=new' if the name here is another.
        rest: module here with all other public names.
        instead: alternatives by name, for names without a counterpart.
        nothing: alternative for any other name.
        same: module here that takes the place of the whole module.
        call: 'module:function' to run when the module is called.
        note: remark on `rest` for MIGRATION.md.
    """

    names: dict[str, str] = field(default_factory=dict)
    rest: str | None = None
    instead: dict[str, str] = field(default_factory=dict)
    nothing: str | None = None
    same: str | None = None
    call: str | None = None
    note: str = ""

    def places(self) -> dict[str, str]:
        """Return 'module:name' here by the original's name; '.' as the name stands for the module."""
        places = {}
        for module, names in self.names.items():
            for one in names.split():
                old, _, new = one.partition("=")
                places[old] = module if new == "." else f"{module}:{new or old}"
        return places

    def everything(self) -> list[str]:
        """List all names of the row."""
        return [*self.places(), *self.instead]


def instead(names: str, what: str) -> dict[str, str]:
    """Give several names the same alternative."""
    return dict.fromkeys(names.split(), what)
