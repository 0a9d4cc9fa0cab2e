#!/usr/bin/env python3
"""Check that SVG files stand alone and can be read by everybody: no scripts, no links, no fonts or pictures from elsewhere, a
title and a description, a ground of their own (so that neither a light nor a dark page shines through), and a small size."""

import os
import re
import sys
import xml.etree.ElementTree as ElementTree

WIDTH = "860"
LIMIT_BYTES = 60_000
NAMESPACE = "{http://www.w3.org/2000/svg}"
ELEMENTS = {"svg", "title", "desc", "style", "defs", "marker", "g", "rect", "path", "circle", "text", "tspan"}
# What could fetch something; url(#…) names a part of the file itself.
FETCHES = re.compile(r"@import|@font-face|url\((?!#)", re.IGNORECASE)


def problems(file):
    if (size := os.path.getsize(file)) > LIMIT_BYTES:
        yield f"{size} bytes, {size - LIMIT_BYTES} above the limit"
    try:
        root = ElementTree.parse(file).getroot()
    except ElementTree.ParseError as error:
        yield f"not XML: {error}"
        return

    if root.tag != NAMESPACE + "svg" or root.get("width") != WIDTH:
        yield f"not an SVG picture {WIDTH} pixels wide"
    if root.get("viewBox") != f"0 0 {root.get('width')} {root.get('height')}":
        yield "viewBox is not what width and height say"

    for element in root.iter():
        name = element.tag.removeprefix(NAMESPACE)
        if name not in ELEMENTS:
            yield f"element {name} is not one of those that pictures here are made of"
        for key, value in element.attrib.items():
            if key.startswith("on") or key.endswith("href") or FETCHES.search(value):
                yield f"{name} has {key}={value!r}"
        if name == "style" and (match := FETCHES.search(element.text or "")):
            yield f"the style has {match.group()!r}"

    named = {element.get("id"): element for element in root[:2] if (element.text or "").strip()}
    if root.get("role") != "img" or root.get("aria-labelledby") != "title description":
        yield 'no role="img" with aria-labelledby="title description"'
    for identifier, name in (("title", "title"), ("description", "desc")):
        if identifier not in named or named[identifier].tag != NAMESPACE + name:
            yield f'no <{name} id="{identifier}"> with text at the beginning'

    drawn = [element for element in root if element.tag.removeprefix(NAMESPACE) not in {"title", "desc", "style", "defs"}]
    if not drawn or not is_ground(drawn[0], root):
        yield "what is drawn first is no rectangle over everything"


def is_ground(element, root):
    return element.tag == NAMESPACE + "rect" and all(
        float(element.get(side, 0)) >= float(root.get(side)) - 1 for side in ("width", "height")
    )


def main():
    found = [f"{file}: {problem}" for file in sys.argv[1:] for problem in problems(file)]
    if found:
        sys.exit("\n".join(f"error: {line}" for line in found))


if __name__ == "__main__":
    main()
