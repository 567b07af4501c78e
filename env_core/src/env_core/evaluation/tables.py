"""Plain text tables: columns that line up, numbers with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Cell = Mapping[str, float | None]
"""An interval as in JSON: value, low, high; null for what is not known."""


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of one length as lines of text: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) if place == 0 else cell.rjust(width) for place, (cell, width) in enumerate(fields))
        for fields in (list(zip(row, widths, strict=True)) for row in rows)
    )
    return "".join(line.rstrip() + "\n" for line in lines)


def with_interval(cell: Cell | None, digits: int = 2, scale: float = 1.0) -> str:
    """`3.14 [3.00, 3.30]`; without brackets where the bounds are unknown, a dash where there is nothing."""
    if cell is None or cell["value"] is None:
        return "–"
    value = f"{cell['value'] * scale:.{digits}f}"
    low, high = cell["low"], cell["high"]
    return value if low is None or high is None else f"{value} [{low * scale:.{digits}f}, {high * scale:.{digits}f}]"
