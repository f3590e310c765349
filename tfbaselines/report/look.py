"""Colors, dashes and markers of methods, which the page's parts share.

The colors of each set differ in lightness as well as in hue, so that color-blind readers tell them apart, and have a
contrast of at least 3 to the background. A method has a marker, too, and from the eighth on a dash pattern.
"""

LIGHT = ("#0051a3", "#b14211", "#00a35f", "#a2387d", "#ce8100", "#417efc", "#5c2c0e")
DARK = ("#4d81e3", "#f57441", "#1fc193", "#e180ce", "#f2c63a", "#a9f4ff", "#c6d084")
BACKGROUND = {"light": "#ffffff", "dark": "#15181d"}
# Shades of a probability, from 0 to 1.
SHADES = 11
DASHES = ("", "7 4", "2 3", "9 3 2 3")


def palette(colors: tuple[str, ...]) -> str:
    """Return the declarations of the colors as properties of a style sheet."""
    return "".join(f"--k{place}:{color};" for place, color in enumerate(colors))


def style_sheet() -> str:
    """Return the rules of colors: one for each method's color in both themes, and one for each shade."""
    rules = [f":root{{{palette(LIGHT)}}}@media (prefers-color-scheme:dark){{:root{{{palette(DARK)}}}}}"]
    rules += [f".k{place}{{color:var(--k{place})}}" for place in range(len(LIGHT))]
    middle = SHADES // 2
    for shade in range(SHADES):
        color = "--k0" if shade > middle else "--k1"
        strength = round(50 * abs(shade - middle) / middle)
        rules.append(f".p{shade}{{background:color-mix(in srgb,var({color}) {strength}%,transparent)}}")
    return "\n".join(rules)


def color_class(number: int) -> str:
    """Return the class of an element with the color of a method."""
    return f"k{number % len(LIGHT)}"


def dash(number: int) -> str:
    """Return the dash pattern of a method's line."""
    return DASHES[number // len(LIGHT) % len(DASHES)]


def marker(number: int, x: float, y: float, size: float = 4.5) -> str:
    """Return a method's marker as a path of SVG around a point."""
    corners = (
        # A circle of two arcs, a square, triangles, a diamond, a cross, a bar.
        f"M{x - size},{y}a{size},{size} 0 1,0 {2 * size},0a{size},{size} 0 1,0 {-2 * size},0z",
        f"M{x - size},{y - size}h{2 * size}v{2 * size}h{-2 * size}z",
        f"M{x},{y - 1.2 * size}l{1.2 * size},{2.1 * size}h{-2.4 * size}z",
        f"M{x},{y - 1.4 * size}l{1.4 * size},{1.4 * size}l{-1.4 * size},{1.4 * size}l{-1.4 * size},{-1.4 * size}z",
        f"M{x},{y + 1.2 * size}l{1.2 * size},{-2.1 * size}h{-2.4 * size}z",
        f"M{x - size},{y - 0.4 * size}h{2 * size}v{0.8 * size}h{-2 * size}z",
        f"M{x - 0.4 * size},{y - size}h{0.8 * size}v{2 * size}h{-0.8 * size}z",
    )
    return corners[number % len(corners)]


def swatch(number: int) -> str:
    """Return a sample of a method's line and marker."""
    dashed = f' stroke-dasharray="{dash(number)}"' if dash(number) else ""
    line = f'<path d="M0,6h30" stroke="currentColor" stroke-width="2.5" fill="none"{dashed}/>'
    return (
        f'<svg class="swatch {color_class(number)}" width="30" height="12" aria-hidden="true">{line}'
        f'<path d="{marker(number, 15, 6)}" fill="currentColor"/></svg>'
    )
