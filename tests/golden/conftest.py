import pytest


@pytest.fixture(autouse=True)
def _compiled_or_one_by_one(request):
    """A module may name the cases that are COMPILED; in its others operations are taken one by one: quicker."""
    compiled = getattr(request.module, "COMPILED", None)
    case = getattr(request.node, "callspec", None) and request.node.callspec.params.get("case")
    if compiled is not None and case is not None and case not in compiled:
        request.getfixturevalue("eager")
