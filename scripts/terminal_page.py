#!/usr/bin/env python3
"""Makes an HTML page from the text of a terminal: reads the output of `tmux capture-pane -e`, which
has the colours, and writes a page that looks like a terminal with a dark background.

usage: terminal_page.py COLUMNS ROWS <TEXT >PAGE
"""

import html
import re
import sys

COLOURS = ["#1c2128", "#f47067", "#57ab5a", "#c69026", "#6ca4f8", "#b083f0", "#39c5cf", "#d7dce2"]
TEXT_COLOUR, BACKGROUND_COLOUR = "#d7dce2", "#15181d"
# The size of a character and the width of the margin, in pixels.
CELL_WIDTH, CELL_HEIGHT, MARGIN = 9, 19, 14


class Style:
    """The colours and the weight of the next text, as the escape sequences before it set them."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.bold = self.dim = self.inverse = False
        self.front = self.back = None

    def apply(self, code_text):
        """Applies one sequence ESC [ CODE_TEXT m. Unknown codes have no effect."""
        codes = [int(code) for code in re.findall(r"\d+", code_text)] or [0]
        while codes:
            code = codes.pop(0)
            if code == 0:
                self.reset()
            elif code in (1, 2, 7):
                self.bold, self.dim, self.inverse = (self.bold or code == 1, self.dim or code == 2,
                                                     self.inverse or code == 7)
            elif code == 22:
                self.bold = self.dim = False
            elif code == 27:
                self.inverse = False
            elif 30 <= code <= 37 or 90 <= code <= 97:
                self.front = COLOURS[code % 10]
            elif 40 <= code <= 47 or 100 <= code <= 107:
                self.back = COLOURS[code % 10]
            elif code == 39:
                self.front = None
            elif code == 49:
                self.back = None
            elif code in (38, 48) and codes[:1] == [2] and len(codes) >= 4:
                colour = "#" + "".join(f"{part:02x}" for part in codes[1:4])
                self.front, self.back = (colour, self.back) if code == 38 else (self.front, colour)
                del codes[:4]
            elif code in (38, 48):
                del codes[:2]

    def css(self):
        front, back = self.front or TEXT_COLOUR, self.back or BACKGROUND_COLOUR
        if self.inverse:
            front, back = back, front
        parts = [f"color:{front}", f"background:{back}"]
        parts += ["font-weight:bold"] if self.bold else []
        parts += ["opacity:.6"] if self.dim else []
        return ";".join(parts)


def spans(text):
    """Returns the HTML of the text. The style continues from line to line."""
    style, parts = Style(), []
    for piece in re.split(r"(\x1b\[[0-9;:]*[A-Za-z])", text):
        if piece.startswith("\x1b["):
            if piece.endswith("m"):
                style.apply(piece[2:-1])
        elif piece:
            parts.append(f'<span style="{style.css()}">{html.escape(piece)}</span>')
    return "".join(parts)


def size_of(columns, rows):
    """Returns the width and height of the page in pixels. scripts/pictures opens a browser window
    of this size."""
    return columns * CELL_WIDTH + 2 * MARGIN, rows * CELL_HEIGHT + 2 * MARGIN


def page(text, columns, rows):
    lines = text.rstrip("\n").split("\n")[:rows]
    width, height = size_of(columns, rows)
    return (f'<!doctype html><meta charset="utf-8"><style>html{{background:{BACKGROUND_COLOUR}}}'
            f"body{{margin:{MARGIN}px;width:{width - 2 * MARGIN}px;height:{height - 2 * MARGIN}px;"
            "overflow:hidden}pre{margin:0;font-family:'DejaVu Sans Mono',monospace;font-size:15px;"
            f"line-height:{CELL_HEIGHT}px}}</style><pre>{spans(chr(10).join(lines))}</pre>\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.stdout.write(page(sys.stdin.read(), int(sys.argv[1]), int(sys.argv[2])))
