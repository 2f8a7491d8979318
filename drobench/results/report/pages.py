"""A leaderboard as one HTML page without scripts or anything to load."""

from html import escape

from drobench.results.comparison.board import Leaderboard
from drobench.results.comparison.tables import Table
from drobench.results.report.formats import TEXT_COLUMNS, reading, sections

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem; color: #1a1a1a; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
div { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .75rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #ddd; }
th { border-bottom: 2px solid #888; }
.text { text-align: left; }
li { color: #555; font-size: .9rem; }
@media (prefers-color-scheme: dark) { body { background: #16181c; color: #e6e6e6; } li { color: #aaa; }
  th, td { border-color: #444; } }
"""


def format_html(leaderboard: Leaderboard) -> str:
    """The boards as tables; all text is escaped, since names come from strangers' plugins."""
    parts = [
        f"<h2>{escape(title)}</h2>\n<div>{_table(table)}</div>\n{_list(remarks)}"
        for title, table, remarks in sections(leaderboard)
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>drobench leaderboard</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>Leaderboard</h1>\n"
        + "\n".join([*parts, _list(reading(leaderboard))])
        + "\n</body>\n</html>\n"
    )


def _table(table: Table) -> str:
    kinds = ["text" if name in TEXT_COLUMNS else "number" for name in table.header]
    head = "".join(f'<th class="{kind}">{escape(name)}</th>' for kind, name in zip(kinds, table.header, strict=True))
    rows = [
        "".join(f'<td class="{kind}">{escape(cell)}</td>' for kind, cell in zip(kinds, cells, strict=True))
        for cells in table.rows
    ]
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _list(remarks: tuple[str, ...] | list[str]) -> str:
    return "<ul>\n" + "\n".join(f"<li>{escape(remark)}</li>" for remark in remarks) + "\n</ul>" if remarks else ""
