import html
import io
import re
import types

import numpy as np
import pytest
from rich.console import Console

from specdec_jax import display
from specdec_jax.decoding.state import StepInfo
from specdec_jax.display import Fate, TraceToken
from specdec_jax.errors import DataError

# Three target calls of gamma 3 and one of gamma 0, of a row that ends with EOS (1):
#   5 6 accepted, 7 rejected, 8 in its place;  9 10 11 accepted, 12 the bonus;
#   13 and EOS accepted, the rest of the block past the end;  nothing.
INFOS = StepInfo(
    drafted=np.array([[[5, 6, 7]], [[9, 10, 11]], [[13, 1, 4]], [[0, 0, 0]]]),
    gamma=np.array([[3], [3], [3], [0]]),
    num_accepted=np.array([[2], [3], [3], [0]]),
    next_token=np.array([[8], [12], [2], [2]]),
    num_emitted=np.array([[3], [4], [2], [0]]),
    betas=np.zeros((4, 1, 3)),
)


def piece(token):
    return f" w{token}" if token % 2 else f"w{token}"


def test_a_line_tells_accepted_rejected_and_the_targets_own():
    lines = display.steps(INFOS, 0)
    accepted, rejected, own = Fate.ACCEPTED, Fate.REJECTED, Fate.TARGET
    assert lines == [
        [
            TraceToken(5, accepted),
            TraceToken(6, accepted),
            TraceToken(7, rejected),
            TraceToken(8, own),
        ],
        [
            TraceToken(9, accepted),
            TraceToken(10, accepted),
            TraceToken(11, accepted),
            TraceToken(12, own),
        ],
        [TraceToken(13, accepted), TraceToken(1, accepted)],
    ]
    shown = [token for line in lines for token in line if token.fate is not rejected]
    assert len(shown) == INFOS.num_emitted.sum()


def test_without_colour_marks_tell_the_fates():
    text = display.render(display.steps(INFOS, 0), piece, color=False).plain
    assert text.splitlines() == [
        "  1  [w5][w6] (-w7)(+w8)",
        "  2  w5w6w8 [w9][w10] [w11](+w12)",
        "  3  w5w6w8 w9w10 w11w12 [w13] [w1]",
    ]


def test_with_colour_the_text_has_no_marks_and_each_fate_a_style():
    text = display.render(display.steps(INFOS, 0)[:1], piece, color=True)
    assert text.plain == "  1  w5w6 w7w8\n"
    styles = {text.plain[s.start : s.end]: s.style for s in text.spans}
    assert styles["w6"] == Fate.ACCEPTED.style
    assert styles[" w7"] == Fate.REJECTED.style
    assert styles["w8"] == Fate.TARGET.style
    assert len({fate.style for fate in Fate}) == len(Fate)


def test_a_picture_is_as_wide_as_the_longest_line(tmp_path):
    """What is printed is cut nowhere, however narrow the terminal."""
    console = Console(file=io.StringIO(), width=20, soft_wrap=True, record=True)
    lines = ["short", "a line that is far longer than twenty columns, to its end"]
    console.print("\n".join(lines))
    display.save_svg(console, tmp_path / "a.svg")
    svg = (tmp_path / "a.svg").read_text()
    drawn = re.findall(r"<text [^>]*clip-path[^>]*>([^<]*)</text>", svg)
    drawn = [html.unescape(text).replace("\xa0", " ").strip() for text in drawn]
    assert [text for text in drawn if text] == lines
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1])
    assert width >= 12.2 * len(lines[1])  # columns of 12.2 pixels


def test_a_picture_that_cannot_be_written_is_named(tmp_path):
    console = Console(file=io.StringIO(), record=True)
    with pytest.raises(DataError, match="nowhere"):
        display.save_svg(console, tmp_path / "nowhere" / "a.svg")


def test_the_words_of_the_legend_are_apart():
    assert display.legend(color=True).plain.split("   ") == [
        "",
        " accepted",
        "rejected",
        "the target's own",
        "",
    ]


def test_html_keeps_each_fate_apart_and_escapes_what_it_shows():
    shown = display.as_html(
        display.steps(INFOS, 0)[:1], lambda token: f" <{token}&", "a <heading>"
    )
    told = dict(re.findall(r"<(span|del|b) style=\"background[^>]*> ([^<]*)</", shown))
    assert told["del"] == "&lt;7&amp;"
    assert told["b"] == "&lt;8&amp;"
    assert "a &lt;heading&gt;" in shown
    assert re.search(r"background[^>]*> &lt;5&amp;</span>", shown)
    assert re.search(r"background[^>]*> &lt;6&amp;</span>", shown)


def test_html_has_a_line_for_each_target_call_after_what_came_before_it():
    shown = display.as_html(display.steps(INFOS, 0), piece)
    before = re.findall(r"<bdi[^>]*><span[^>]*>([^<]*)</span>", shown)
    assert before == ["", " w5w6w8", " w5w6w8 w9w10 w11w12"]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_terminal_of_any_encoding_shows_the_trace(encoding):
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=out, width=200)
    lines = display.steps(INFOS, 0)
    display.print_trace(console, lines, lambda token: f" \u0142{token}", "\u0142ódź")
    out.seek(0)
    written = out.read()
    assert "5" in written and "accepted" in written
    assert ("\u0142ódź" in written) == (encoding == "utf-8")


def test_in_a_notebook_a_trace_is_displayed_and_not_printed(monkeypatch, capsys):
    ipython = pytest.importorskip("IPython.display")
    shown = []
    monkeypatch.setattr(ipython, "display", shown.append)
    monkeypatch.setattr(
        display, "get_console", lambda: types.SimpleNamespace(is_jupyter=True)
    )
    display.show([("one", display.steps(INFOS, 0)), ("two", [])], piece)
    (page,) = shown
    assert "one" in page.data and "two" in page.data and "w12" in page.data
    assert capsys.readouterr().out == ""
