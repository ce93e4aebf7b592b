"""SentencePiece, and the special ids that its model has."""

import dataclasses
import hashlib
import io
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import sentencepiece

from specdec_jax.errors import DataError
from specdec_jax.runtime.storage import read_file

TOKENIZER_FILE = "spiece.model"  # as T5's are named


@dataclasses.dataclass(frozen=True)
class SpecialIds:
    """The ids that are not text.

    Attributes:
      start_id: the token that a decoder starts from.
      eos_id: the end of a sequence.
      pad_id: what fills up the rows of a batch.
    """

    start_id: int
    eos_id: int
    pad_id: int


T5_IDS = SpecialIds(start_id=0, eos_id=1, pad_id=0)


class Tokenizer:
    """Text to ids and back.

    Attributes:
      path: of the SentencePiece model.
      extra_ids: sentinels after the pieces, of which the last is <extra_id_0>.
      special_ids: of the SentencePiece model, which has no start token: a decoder
        starts from padding, as T5's do.
    """

    def __init__(self, path: str | os.PathLike, extra_ids: int = 0):
        """Loads a SentencePiece model, local or from gs://.

        Raises:
          DataError: the file is missing, is not a SentencePiece model, or is one
            without an end or a padding token.
        """
        self.path = os.fspath(path)
        self.extra_ids = extra_ids
        content = read_file(self.path)
        if content is None:
            raise DataError(f"no SentencePiece model at {path}")
        try:
            self._pieces = sentencepiece.SentencePieceProcessor(model_proto=content)
        except RuntimeError as error:
            raise DataError(f"{path} is not a SentencePiece model: {error}") from error
        if not self._pieces.get_piece_size():  # an empty file is an empty model
            raise DataError(f"{path} is not a SentencePiece model: it has no pieces")
        eos, pad = self._pieces.eos_id(), self._pieces.pad_id()
        for name, token in (("end-of-sequence", eos), ("padding", pad)):
            if token < 0:
                raise DataError(f"{path} has no {name} token")
        self.special_ids = SpecialIds(start_id=pad, eos_id=eos, pad_id=pad)

    def __repr__(self) -> str:
        return f"Tokenizer({self.path!r}: {self.vocab_size} ids)"

    @property
    def start_id(self) -> int:
        """The token that a decoder starts from."""
        return self.special_ids.start_id

    @property
    def eos_id(self) -> int:
        """The end of a sequence."""
        return self.special_ids.eos_id

    @property
    def pad_id(self) -> int:
        """What fills up the rows of a batch."""
        return self.special_ids.pad_id

    @property
    def vocab_size(self) -> int:
        """Pieces and sentinels."""
        return self._pieces.get_piece_size() + self.extra_ids

    def encode(self, text: str) -> list[int]:
        """Ids of a string, ended by EOS.

        Raises:
          DataError: it holds bytes that are not UTF-8, as Python hands them on
            from a command line.
        """
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise DataError(f"{text[:80]!r} is not UTF-8: {error.reason}") from error
        return [*self._pieces.encode(text), self.eos_id]

    def decode(self, tokens: Iterable[int | np.integer]) -> str:
        """The string of ids, up to the first EOS; ids without a piece are left out."""
        kept = []
        for token in map(int, tokens):
            if token == self.eos_id:
                break
            if token != self.pad_id and 0 <= token < self._pieces.get_piece_size():
                kept.append(token)
        return self._pieces.decode(kept)

    def piece(self, token: int) -> str:
        """How one id is shown, as in a trace: the word-start mark is a space."""
        if not 0 <= token < self.vocab_size:
            return f"<{token}>"
        if token >= self._pieces.get_piece_size():
            return f"<extra_id_{self.vocab_size - 1 - token}>"
        return self._pieces.id_to_piece(int(token)).replace("\u2581", " ")

    @property
    def digest(self) -> bytes:
        """SHA-256 of the SentencePiece model; sentinels do not matter."""
        return hashlib.sha256(self._pieces.serialized_model_proto()).digest()

    def same_pieces(self, other: "Tokenizer") -> bool:
        """Whether both are one SentencePiece model; sentinels do not matter."""
        return (
            self._pieces.serialized_model_proto()
            == other._pieces.serialized_model_proto()
        )


def train_tokenizer(lines: Iterable[str], path: str | os.PathLike, size: int) -> None:
    """Fits a unigram SentencePiece model of `size` pieces and writes it to `path`.

    Its special ids are T5's, and the unknown piece is 2.

    Raises:
      DataError: the lines are too few for so many pieces.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            vocab_size=size,
            model_type="unigram",
            character_coverage=1.0,
            pad_id=T5_IDS.pad_id,
            eos_id=T5_IDS.eos_id,
            unk_id=2,
            bos_id=-1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise DataError(
            f"cannot fit a tokenizer of {size} pieces: {' '.join(str(error).split())} "
            "Give more text, or ask for fewer pieces: the vocab_size of the model's "
            "sizes, as --gin.demo_target/T5Config.vocab_size=N or "
            "--gin.gpt_tiny/GPTConfig.vocab_size=N"
        ) from error
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.getvalue())
