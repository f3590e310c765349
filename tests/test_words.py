"""Values and calls as words."""

import pytest
from loops import for_each

from tfbaselines.errors import UsageError
from tfbaselines.words import call_of, pieces, value_of


@for_each(
    ("text", "value"),
    [("3", 3), ("[1, 2]", [1, 2]), ("'a,b'", "a,b"), ("none of it", "none of it"), ("TRUE", True), ("None", None)],
)
def test_values(text, value):
    assert value_of(text) == value and type(value_of(text)) is type(value)


@for_each(
    ("text", "found"),
    [
        ("", []),
        ("a:B, c:D,", ["a:B", "c:D"]),
        ("a:B(1, 2),c:D([3, 4], {'x': (5, 6)})", ["a:B(1, 2)", "c:D([3, 4], {'x': (5, 6)})"]),
        (r"a:B(',)', 'it\'s, so'),c:D", [r"a:B(',)', 'it\'s, so')", "c:D"]),
    ],
)
def test_pieces(text, found):
    assert pieces(text) == found


@for_each(
    ("text", "call"),
    [
        ("m:W", ("m:W", (), {})),
        ("m:W()", ("m:W", (), {})),
        ("m:W(-1, high=[1.5, 2])", ("m:W", (-1,), {"high": [1.5, 2]})),
        ("m:W('a=b', how=fast, when=True)", ("m:W", ("a=b",), {"how": "fast", "when": True})),
        ("m:W(__import__('os').system('x'))", ("m:W", ("__import__('os').system('x')",), {})),
    ],
)
def test_calls(text, call):
    assert tuple(call_of(text)) == call


@for_each("text", ["m:W(1", "m:W(1))", "m:W(a=1, a=2)", "m:W(a=1, 2)", "m:W(['x)", "m:W(1) and more"])
def test_what_is_no_call_is_refused(text):
    with pytest.raises(UsageError):
        call_of(text)
