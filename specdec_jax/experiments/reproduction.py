"""One call: measures what the report measures itself, reads all records, writes it."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from specdec_jax.data.text import read_lines
from specdec_jax.errors import DataError, SettingsError
from specdec_jax.experiments import commands, paper
from specdec_jax.experiments.measure.alpha import AlphaConfig, AlphaRun
from specdec_jax.experiments.record_file import RecordFile
from specdec_jax.experiments.record_set import RecordSet
from specdec_jax.experiments.reproduce import report, sections
from specdec_jax.experiments.trace.explain import record_traces
from specdec_jax.job import encode
from specdec_jax.loading import ASSETS
from specdec_jax.pair import Pair

WHAT = ("all", *sections.NAMES)
NEEDS_ALPHAS = ("table3", "table5", "rejection")
NEEDS_TRACES = ("figure1", "figure5")
IN_PASSING = AlphaConfig(
    tokens=1500, temperatures=(0.0, 0.5, 1.0), leniences=paper.LENIENCES
)


@dataclasses.dataclass
class Reproduction:
    """Makes a report, or one section of it.

    Attributes:
      load_pair: called only if something has to be measured.
      out: the folder of the report; its `records/` hold what is measured here.
      places: files and folders with more records; they win over the packaged ones, and
        these over what is measured here.
      texts: what the pair is measured on; the packaged sentences if not given.
      alpha: how alpha is measured here; the draws are of `seed`.
      seed: of all draws.
      console: where to print.
    """

    load_pair: Callable[[], Pair]
    out: Path
    places: Sequence[str | os.PathLike] = ()
    texts: Sequence[str] = ()
    alpha: AlphaConfig = IN_PASSING
    seed: int = 0
    console: Console = dataclasses.field(default_factory=Console)

    def __call__(self, what: str) -> Path:
        """Measures what is missing and writes the report.

        Args:
          what: one of `WHAT`.

        Returns:
          The Markdown file; the HTML lies beside it.

        Raises:
          SettingsError: there is no such section, or matplotlib is missing for one.
          DataError: a place of records does not exist, or the report cannot be written.
        """
        if what not in WHAT:
            raise SettingsError(f"what must be one of {', '.join(WHAT)}, not {what!r}")
        try:
            made = self.make(sections.NAMES if what == "all" else (what,))
            written = self._write("report" if what == "all" else what, made, what)
        except OSError as error:
            raise DataError(f"cannot write to {self.out}: {error}") from error
        if what != "all":
            self.console.out(report.section_markdown(made[0], Path()), highlight=False)
        self.console.print(f"written: {', '.join(map(str, written))}", highlight=False)
        return written[0]

    def make(self, names: Sequence[str]) -> list[report.Section]:
        """Measures what is missing, and gives sections; their figures are written.

        Args:
          names: of `sections.NAMES`.

        Raises:
          SettingsError: matplotlib is missing for one of them.
          DataError: a place of records does not exist.
          OSError: a figure cannot be written.
        """
        self._measure(names)
        records = self._records()
        self.out.mkdir(parents=True, exist_ok=True)
        return [sections.section(name, records, self.out) for name in names]

    def _measure(self, names: Sequence[str]) -> None:
        """What is measured here, unless it is recorded already."""
        alphas, traces = (
            any(name in needing for name in names)
            for needing in (NEEDS_ALPHAS, NEEDS_TRACES)
        )
        if not (alphas or traces):
            return
        pair = self.load_pair()
        texts = self.texts or read_lines(ASSETS / "eval_sentences.en.txt")
        if alphas:
            config = dataclasses.replace(self.alpha, seed=self.seed)
            records = RecordFile(self.records / "alpha.jsonl")
            for _ in AlphaRun(pair, encode(pair, texts), config, records)():
                pass
        if traces:
            wanted = sections.traces_wanted(self._records(), pair.name)
            records = RecordFile(self.records / "traces.jsonl")
            longest = max(texts, key=len)
            record_traces(pair, longest, wanted, self.seed, records)

    @property
    def records(self) -> Path:
        """Where what is measured here is kept."""
        return self.out / "records"

    def _records(self) -> RecordSet:
        """All records: those given, the packaged ones, and those made here."""
        own = [self.records] if self.records.is_dir() else []
        packaged = sorted(folder for folder in ASSETS.iterdir() if folder.is_dir())
        return RecordSet.read([*self.places, *packaged, *own])

    def _write(
        self, name: str, made: Sequence[report.Section], what: str
    ) -> list[Path]:
        command = commands.REPRODUCE.replace("--what=all", f"--what={what}")
        texts = {
            ".md": report.markdown(made, self.out, command),
            ".html": report.as_html(made, self.out, command),
        }
        for suffix, text in texts.items():
            (self.out / name).with_suffix(suffix).write_text(text, "utf-8")
        return [(self.out / name).with_suffix(suffix) for suffix in texts]
