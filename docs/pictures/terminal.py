#!/usr/bin/env python3
"""Draw what a command printed as a picture of a terminal: text in, SVG out, and the same text gives the same bytes.

The picture shows the lines as they were printed. Only these things differ, and they can be seen:

- what --cut takes out is marked by "[…]";
- a line that is longer than the picture is wide ends in "…", or goes on in the next line if --wrap names its beginning;
- spaces at the ends of lines are gone, and colours are added.

What differs from run to run (cargo's own lines, the order of calls that go out side by side) has to be cut: a mark says
nothing of how much it stands for.
"""

import argparse
import re
import sys
from xml.sax.saxutils import escape

WIDTH = 860
MARGIN = 20
BAR = 30
LINE = 15
# Fonts of a fixed width are at most 0.61 of their height wide: 112 columns take 820 of 860 pixels.
COLUMNS = 112
FONT_SIZE = 12

CUT = "[…]"

# What a line looks like, or its part in the pattern's one group; the first pattern that matches the whole line counts.
COLOURS = [
    (re.compile(r"== .*"), "heading"),
    (re.compile(r"\s*\[…\]"), "cut"),
    (re.compile(r"(WARN) .*"), "warning"),
    (re.compile(r"  [A-Z].*:(?: \d+)?"), "label"),
    (re.compile(r"  (\+) .*"), "good"),
    (re.compile(r"  (-) .*"), "gone"),
    (re.compile(r"  A further loop: .*|All of it as it should be\."), "good"),
]

STYLE = f"""\
text {{ font: {FONT_SIZE}px ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", "DejaVu Sans Mono", monospace; \
fill: #d1d7e0; white-space: pre }}
.window {{ fill: #151b23; stroke: #656c76 }}
.bar {{ fill: #2a313c }}
.button {{ fill: #656c76 }}
.command {{ fill: #ffffff; font-weight: bold }}
.prompt, .good {{ fill: #56d364 }}
.heading {{ fill: #79c0ff; font-weight: bold }}
.label {{ fill: #9198a1 }}
.gone {{ fill: #ff7b72 }}
.warning {{ fill: #e3b341; font-weight: bold }}
.cut {{ fill: #9198a1 }}
"""


class Missing(Exception):
    """A line that was to begin or end a cut is not there."""


def cut(lines, cuts):
    """The lines without those that the pairs of `cuts` name, each pair looked for behind the one before."""
    kept = []
    at = 0
    for start, end in cuts:
        begin = find(lines, at, lambda line: line.startswith(start), start)
        kept += lines[at:begin]
        at = find(lines, begin + 1, lambda line: line.startswith(end) if end else not line, end)
        # As it is asked for and not as it was printed: cargo indents its lines by what they say.
        indentation = len(start) - len(start.lstrip())
        kept.append(" " * indentation + CUT)
    return kept + lines[at:]


def find(lines, at, is_it, beginning):
    for index in range(at, len(lines)):
        if is_it(lines[index]):
            return index
    raise Missing(f"a cut needs a line that begins with {beginning!r}, and there is none from line {at + 1} on")


def fit(lines, wrapped):
    """The lines, none longer than the picture is wide."""
    for line in lines:
        if len(line) > COLUMNS and line.startswith(wrapped):
            yield from (line[at : at + COLUMNS] for at in range(0, len(line), COLUMNS))
        elif len(line) > COLUMNS:
            yield line[: COLUMNS - 1] + "…"
        else:
            yield line


def coloured(line):
    for pattern, name in COLOURS:
        if match := pattern.fullmatch(line):
            start, end = match.span(pattern.groups)
            part = f'<tspan class="{name}">{escape(line[start:end])}</tspan>'
            return escape(line[:start]) + part + escape(line[end:])
    return escape(line)


def picture(command, lines, title, description):
    """The whole SVG file."""
    drawn = [f'<tspan class="prompt">$</tspan> <tspan class="command">{escape(command)}</tspan>', *map(coloured, lines)]
    height = BAR + MARGIN + LINE * len(drawn) + MARGIN // 2
    texts = "\n".join(
        f'<text x="{MARGIN}" y="{BAR + MARGIN + LINE * row}">{text}</text>' for row, text in enumerate(drawn) if text
    )
    buttons = "".join(f'<circle class="button" cx="{x}" cy="{BAR // 2}" r="5"/>' for x in (20, 38, 56))
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" \
role="img" aria-labelledby="title description">
<title id="title">{escape(title)}</title>
<desc id="description">{escape(description)}</desc>
<style>
{STYLE}</style>
<rect class="window" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>
<path class="bar" d="M1 {BAR}V8a7 7 0 0 1 7-7h{WIDTH - 16}a7 7 0 0 1 7 7v{BAR - 8}z"/>
{buttons}
<g xml:space="preserve">
{texts}
</g>
</svg>
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", required=True, help="what stands behind the prompt")
    parser.add_argument("--title", required=True, help="the picture's name, for who cannot see it")
    parser.add_argument("--description", required=True, help="what it shows, likewise")
    parser.add_argument(
        "--cut",
        nargs=2,
        action="append",
        default=[],
        metavar=("START", "END"),
        help="leave out the lines from the first that begins with START (empty: whatever it is) up to the next that begins "
        "with END (empty: the next empty line), which stays; the cuts are looked for one behind the other, and one that is "
        "not found is an error",
    )
    parser.add_argument(
        "--wrap", action="append", default=[], metavar="BEGINNING", help="lines with this beginning go on in the next line"
    )
    parser.add_argument("--output", required=True, help="the file to write")
    arguments = parser.parse_args()

    sys.stdin.reconfigure(encoding="utf-8")
    lines = [line.rstrip() for line in sys.stdin.read().splitlines()]
    try:
        lines = list(fit(cut(lines, arguments.cut), tuple(arguments.wrap)))
    except Missing as missing:
        sys.exit(f"error: {missing}")
    svg = picture(arguments.command, lines, arguments.title, arguments.description)
    with open(arguments.output, "w", encoding="utf-8", newline="\n") as file:
        file.write(svg)


if __name__ == "__main__":
    main()
