"""What a row of the table of import paths says."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Port:
    """A module of the originals.

    Attributes:
        names: names in it, separated by spaces, by the module here that has them; 'old=new' for another name here.
        rest: the module here whose other public names it has too.
        instead: names without a counterpart, and what to use instead.
        nothing: what to use instead of any other name.
        same: the module here that it is.
        call: 'module:function' that calling the module calls.
        note: what is to be known of `rest`, for MIGRATION.md.
    """

    names: dict[str, str] = field(default_factory=dict)
    rest: str | None = None
    instead: dict[str, str] = field(default_factory=dict)
    nothing: str | None = None
    same: str | None = None
    call: str | None = None
    note: str = ""

    def places(self) -> dict[str, str]:
        """'module:name' here by the original's name; a '.' for the name stands for the module itself."""
        places = {}
        for module, names in self.names.items():
            for one in names.split():
                old, _, new = one.partition("=")
                places[old] = module if new == "." else f"{module}:{new or old}"
        return places

    def everything(self) -> list[str]:
        """Its listed names."""
        return [*self.places(), *self.instead]


def instead(names: str, what: str) -> dict[str, str]:
    """The same advice for several names."""
    return dict.fromkeys(names.split(), what)
