"""Decoding a list of inputs: prints each as it comes, records it, and sums up."""

import contextlib
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Sequence

import jax
from rich.console import Console

from specdec_jax import display
from specdec_jax.decoding.settings import DecodeSettings
from specdec_jax.decoding.statistics import DecodeStats
from specdec_jax.errors import DataError
from specdec_jax.experiments.kinds import DecodedText
from specdec_jax.experiments.record_file import RecordFile
from specdec_jax.generation import Generated, collect
from specdec_jax.job import encode, prepare_tokens
from specdec_jax.pair import Pair
from specdec_jax.runtime.progress import progress_bar
from specdec_jax.runtime.records import environment
from specdec_jax.typing import Any


@dataclasses.dataclass
class DecodeRun:
    """Decodes inputs one at a time, as the paper does.

    Attributes:
      pair, settings, seed, method: as in `generate`.
      compare: also time the baseline on every input.
      console: where to print outputs; messages go to stderr.
    """

    pair: Pair
    settings: DecodeSettings
    seed: int
    method: str
    compare: bool
    console: Console
    # Programs that ran before they were timed, so that times are times of decoding.
    _compiled: set = dataclasses.field(default_factory=set, init=False)

    def __call__(
        self,
        texts: Sequence[str],
        records: RecordFile | None,
        format: str,
        name: Callable[[int], str] = "text {}".format,
    ) -> None:
        """Decodes all inputs; none before all are found good.

        Args:
          texts: the inputs.
          records: appended to, a line per input; inputs that it holds are skipped.
          format: what is printed: "trace", "text" or "jsonl".
          name: how an error calls the n-th input, from 1.

        Raises:
          DataError: an input is empty, too long or not UTF-8, or `records` belong to
            other inputs or are another run's for now.
        """
        if not texts:
            raise DataError("there is no input to decode")
        encoded = self._encode(texts, name)
        with contextlib.nullcontext() if records is None else records.alone():
            self._decode_all(texts, encoded, records, format)

    def _decode_all(self, texts, encoded, records, format) -> None:
        done = self._already_done(texts, records)
        if done:
            print(f"{done} inputs are already in {records.path}", file=sys.stderr)
        totals, seconds, baseline = [], 0.0, 0.0
        # What is printed into a terminal shows by itself how far it is.
        shown = format != "trace" and not self.console.is_terminal
        with progress_bar("decoding", shown) as bar:
            for i in bar.track(range(done, len(texts)), description=""):
                out, elapsed = self._decode(encoded[i], i, self.method)
                seconds += elapsed
                if self.compare:
                    baseline += self._decode(encoded[i], i, "autoregressive")[1]
                totals.append(out.stats)
                record = self._record(i, texts[i], out)
                if records is not None:
                    records.append(record)
                self._show(texts[i], out, record, format)
        if format == "trace" and totals:
            self._summarize(totals, seconds, baseline)

    def _encode(self, texts: Sequence[str], name: Callable[[int], str]) -> list:
        """The ids of each input; an error calls an input by its name."""
        encoded = []
        for number, text in enumerate(texts, 1):
            try:
                encoded += encode(self.pair, [text])
            except DataError as error:
                raise DataError(
                    str(error).replace("input 0", name(number), 1)
                ) from error
        return encoded

    def _decode(
        self, tokens: Sequence[int], i: int, method: str
    ) -> tuple[Generated, float]:
        job = prepare_tokens(
            self.pair, [tokens], self.settings, self.seed, method, row_ids=[i]
        )
        given = jax.tree.leaves((job.inputs, job.prompt))
        program = (method, *(array.shape for array in given))
        if self.compare and program not in self._compiled:
            job.decode().tokens.block_until_ready()
            self._compiled.add(program)
        start = time.perf_counter()
        result = job.decode()
        result.tokens.block_until_ready()
        return collect(self.pair, result), time.perf_counter() - start

    def _record(self, i: int, text: str, out: Generated) -> DecodedText:
        counts = out.stats.row(0)
        del counts["tokens"]  # the record has the tokens themselves
        return DecodedText(
            index=i,
            input=text,
            output=out.texts[0],
            tokens=out.tokens[0, : out.lengths[0]].tolist(),
            **counts,
            **self._identity(),
            **environment(),
        )

    def _identity(self) -> dict[str, Any]:
        """The identity fields of this run's records."""
        return {
            "method": self.method,
            **self.pair.about,
            "settings": self.settings.as_dict(),
            "seed": self.seed,
        }

    def _show(
        self, text: str, out: Generated, record: DecodedText, format: str
    ) -> None:
        if format == "jsonl":
            line = json.dumps(record.to_json(), ensure_ascii=False)
            self.console.out(line, highlight=False)
            return
        if format == "text":
            self.console.out(out.texts[0], highlight=False)
            return
        heading = f"\n{text}\n{out.texts[0]}"
        lines = display.steps(out.infos, 0)
        display.print_trace(self.console, lines, out.piece, heading)

    def _summarize(self, totals, seconds: float, baseline: float) -> None:
        stats = DecodeStats.pooled(totals)
        line = (
            f"\n{stats.tokens} tokens in {stats.target_calls} target calls: "
            f"{stats.tokens_per_target_call:.2f} tokens per target call"
        )
        if stats.beta_count:
            line += (
                f", α = {stats.alpha:.2f}, acceptance rate {stats.acceptance_rate:.2f}"
            )
        self.console.print(line)
        if baseline:
            self.console.print(
                f"{seconds:.2f} s; autoregressive decoding needs {baseline:.2f} s: "
                f"speedup {baseline / seconds:.2f}"
            )

    def _already_done(self, texts, records) -> int:
        if records is None:
            return 0
        done = records.of_run(DecodedText, self._identity())
        for number, (record, text) in enumerate(zip(done, texts, strict=False), 1):
            records.require(number, record, {"index": number - 1, "input": text})
        if len(done) > len(texts):
            raise DataError(
                f"{records.path} holds {len(done)} results and there are {len(texts)} "
                "inputs: give the records another name"
            )
        return len(done)
