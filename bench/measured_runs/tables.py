"""Tables of text."""


def table(head, rows):
    """Prints columns that are as wide as their cells, numbers to the right."""
    cells = [head] + [["" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    for row in cells:
        print("  ".join(cell.ljust(width) if column == 0 else cell.rjust(width) for column, (cell, width) in enumerate(zip(row, widths))).rstrip())
    print()
