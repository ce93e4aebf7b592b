"""The page of Figure 1: what is in it, and what a browser makes of it."""

import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from specdec_jax.experiments.trace.page import trace_frame, trace_page
from tests.experiments import found_records as records

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
# Points at one token, then tells in the page what went wrong on the way, if anything.
POINTING = """<script>
document.querySelector('[data-token="%d"]').dispatchEvent(new Event("%s"));
document.body.append(Object.assign(document.createElement("i"),
    {id: "errors", textContent: "[" + errors.join() + "]"}));
</script></body>"""
WATCHING = "<head><script>const errors = []; onerror = e => errors.push(e);</script>"


class Buttons(HTMLParser):
    """The buttons of the lines: (fate, token, text)."""

    def __init__(self, page):
        super().__init__()
        self.found, self._open = [], None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        facts = dict(attributes)
        if tag == "button" and "data-token" in facts:
            self._open = (facts["class"], int(facts["data-token"]))

    def handle_data(self, data):
        if self._open:
            self.found.append((*self._open, data))

    def handle_endtag(self, tag):
        if tag == "button":
            self._open = None


def embedded(page):
    (text,) = re.findall(
        r'<script type="application/json" id="trace">(.*?)</script>', page
    )
    return json.loads(text)


def test_each_token_is_a_button_with_its_fate_and_its_numbers():
    trace = records.trace()
    page = trace_page(trace)
    assert Buttons(page).found == [
        ("accepted", 0, "Ein"),
        ("rejected", 1, "Mann"),
        ("correction", 2, "<b>Hund"),
        ("accepted", 3, "läuft"),
        ("accepted", 4, "!"),
        ("bonus", 5, "</s>"),
    ]
    tokens = [token for line in trace.lines for token in line["tokens"]]
    assert embedded(page) == tokens
    assert '<bdi dir="ltr"> Ein &lt;b&gt;Hund</bdi>' in page
    assert "A &lt;dog&gt; runs!" in page
    assert "5 tokens in 2 target calls" in page


def test_a_piece_cannot_end_the_script_that_holds_it():
    trace = records.trace()
    trace.lines[0]["tokens"][0]["piece"] = "</script><script>alert(1)</script>"
    page = trace_page(trace)
    assert embedded(page)[0]["piece"] == "</script><script>alert(1)</script>"
    assert "<script>alert" not in page


def test_the_page_needs_nothing_besides_itself():
    page = trace_page(records.trace())
    assert not re.search(r"https?://|\bsrc=|@import|fetch\(|url\(", page)
    assert "$" not in page  # all placeholders are filled


def opened(tmp_path, page, size="1280,800"):
    """What a browser makes of a page."""
    path = tmp_path / "page.html"
    path.write_text(page, "utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={size}"]
    command.append(path.as_uri())
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=True
    ).stdout


needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium here to open the page with"
)


@needs_browser
@pytest.mark.parametrize(
    ("token", "event", "words"),
    [
        (
            0,
            "pointerenter",
            ["“Ein”: accepted", "is below p/q", "ratio p/q", "1.25", "0.3"],
        ),
        (1, "pointerenter", ["“Mann”: rejected", "is not below p/q", "0.167", "0.9"]),
        (2, "focus", ["“<b>Hund”: correction", "norm(max(0, p − q))", "0.8", "0.6"]),
        (5, "click", ["“</s>”: bonus", "u from p", "–", "0.25"]),
    ],
)
def test_in_a_browser_pointing_at_a_token_shows_what_decided(
    tmp_path, token, event, words
):
    page = trace_page(records.trace()).replace("<head>", WATCHING)
    dom = opened(tmp_path, page.replace("</body>", POINTING % (token, event)))
    assert '<i id="errors">[]</i>' in dom
    told = dom.partition('id="told"')[2].partition("<script")[0]
    told = re.sub(r"<[^>]*>", "|", told).replace("&lt;", "<").replace("&gt;", ">")
    for word in words:
        assert word in told


@needs_browser
@pytest.mark.parametrize("size", ["1280,800", "900,560", "500,700"])
def test_in_a_browser_all_tokens_are_in_sight_and_details_cover_no_line(tmp_path, size):
    """Each line is long: what came before gives way to the tokens of its call."""
    trace = records.trace()
    first, *others = trace.lines[0]["tokens"]
    trace.lines[0]["tokens"] = [first] * 40 + others
    measuring = """<script>
      const box = (name) => document.getElementById(name).getBoundingClientRect();
      const shown = [...document.querySelectorAll(".line:last-child button")];
      const right = Math.max(...shown.map(x => x.getBoundingClientRect().right));
      document.body.append(Object.assign(document.createElement("i"), {id: "layout",
          textContent: [right <= innerWidth, box("lines").bottom <= box("told").top,
                        box("lines").height >= 70, box("told").bottom <= innerHeight,
                        document.documentElement.scrollWidth <= innerWidth]}));
    </script></body>"""
    dom = opened(tmp_path, trace_page(trace).replace("</body>", measuring), size)
    assert '<i id="layout">true,true,true,true,true</i>' in dom


def test_the_page_fits_into_another_page_whole():
    frame = trace_frame(records.trace(), height=300)
    (page,) = re.findall(r'srcdoc="([^"]*)"', frame)
    assert html.unescape(page) == trace_page(records.trace())
    assert frame.startswith("<div><iframe ") and 'height="300"' in frame


def test_one_target_call_is_in_the_singular():
    trace = records.trace()
    assert "in 1 target call (" in trace_page(records.trace(lines=trace.lines[:1]))
