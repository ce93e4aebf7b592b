"""Figure 1 as one HTML file: pointing at a token shows p, q, the ratio and the draw."""

import html
import json
import string
from collections.abc import Sequence

from specdec_jax.experiments.kinds import Trace
from specdec_jax.loading import ASSETS
from specdec_jax.typing import Any

TEMPLATE = ASSETS / "trace_page.html"


def trace_page(trace: Trace) -> str:
    """The page; it needs nothing besides itself, and no network.

    Args:
      trace: of `explain`.
    """
    lines = trace.lines
    tokens = [token for line in lines for token in line["tokens"]]
    calls = f"{len(lines)} target call{'s' * (len(lines) != 1)}"
    about = (
        f"“{trace.text}” became “{trace.output}”: {trace.tokens} tokens in "
        f"{calls} ({trace.pair}, γ = {trace.gamma}, "
        f"temperature {trace.temperature:g}, seed {trace.seed})."
    )
    return string.Template(TEMPLATE.read_text("utf-8")).substitute(
        about=html.escape(about), lines=_lines(lines), trace=_embedded(tokens)
    )


def trace_frame(trace: Trace, height: int = 560) -> str:
    """The page as an element of another page, such as a notebook.

    Args:
      trace: as in `trace_page`.
      height: in pixels.
    """
    return (
        f'<div><iframe title="Interactive trace" width="100%" height="{height}" '
        f'style="border: 1px solid #ddd" srcdoc="{html.escape(trace_page(trace))}">'
        "</iframe></div>"
    )


def _lines(lines: Sequence[dict[str, Any]]) -> str:
    """A row a target call: the text so far, then a button for each of its tokens."""
    rows, before, index = [], "", 0
    for number, line in enumerate(lines, 1):
        buttons = ""
        so_far = before
        for token in line["tokens"]:
            word = token["piece"].lstrip(" ")
            buttons += " " * (len(token["piece"]) - len(word))
            buttons += (
                f'<button class="{html.escape(token["fate"])}" data-token="{index}">'
                f"{html.escape(word) or '&nbsp;'}</button>"
            )
            so_far += token["piece"] if token["fate"] != "rejected" else ""
            index += 1
        rows.append(
            f'<div class="line"><span class="number">{number:3d} </span>'
            f'<span class="before"><bdi dir="ltr">{html.escape(before)}</bdi></span>'
            f'<span class="tokens">{buttons}</span></div>'
        )
        before = so_far
    return "\n".join(rows)


def _embedded(value: Any) -> str:
    """JSON that may stand in a script element: nothing in it can end the element."""
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028")
