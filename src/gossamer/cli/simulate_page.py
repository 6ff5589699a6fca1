"""A simulation as one HTML page that needs nothing beside it: the picture, every row, and where figures come from."""

from __future__ import annotations

from html import escape

from gossamer.cli.simulate_report import Answer, described, omissions, scaling, troubles
from gossamer.cli.simulate_request import Row
from gossamer.cli.simulate_screen import COLUMNS

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff }
body { max-width: 75em; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.3em } .warning { color: #a00014; font-weight: bold } .dim { color: #666 }
svg { max-width: 100%; height: auto } table { border-collapse: collapse; margin: 1.5em 0 }
th, td { padding: .2em .8em; text-align: right; white-space: nowrap }
th { font-weight: normal; color: #666; vertical-align: bottom } tr.first td { border-top: 1px solid #ccc }
td:first-child, th:first-child { text-align: left; font-family: ui-monospace, monospace; white-space: normal }
"""


def page(answer: Answer, svg: str) -> str:
    """The page, around a picture."""
    question = answer.question
    cluster, workload = question.places
    title = escape(f"{workload} on {cluster}, simulated")
    notes = [
        "An interval holds nine chances in ten.",
        *omissions(answer),
        *troubles(answer),
        f"goal: {question.workload.goal.what}" if question.workload.goal else "",
        *(f"{each.kind} {each.title}. {each.source}" for each in described(question)),
    ]  # fmt: skip
    warning = f'<p class="warning">{escape(answer.warning)}</p>' if answer.warning else ""
    return "\n".join((
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f"<title>{title}</title><style>{STYLE}</style></head>",
        f"<body>{warning}<h1>{title}</h1>",
        f"<p>{escape(scaling(question))}; {question.steps:,} steps, seed {question.seed}</p>",
        svg[svg.index("<svg") :],
        _table(answer),
        *(f'<p class="dim">{escape(note)}</p>' for note in notes if note),
        "</body></html>\n",
    ))  # fmt: skip


def _table(answer: Answer) -> str:
    titles = ["strategy", "workers", *(column.title.replace("-\n", "").replace("\n", " ") for column in COLUMNS)]
    seen, lines = 0, []
    for row in answer.rows:
        kind = ' class="first"' if row.forecast.workers != seen else ""
        lines.append(f"<tr{kind}>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells(row))}</tr>")
        seen = row.forecast.workers
    return f"<table><tr>{''.join(f'<th>{title}</th>' for title in titles)}</tr>{''.join(lines)}</table>"


def _cells(row: Row) -> list[str]:
    found = row.forecast
    if found.stopped:
        return [row.part.text, f"{found.workers:,}", "stands still"]
    return [row.part.text, f"{found.workers:,}", *(column.told(found) for column in COLUMNS)]
