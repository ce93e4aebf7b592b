"""SentencePiece, with T5's special ids."""

import hashlib
import io
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import sentencepiece

from specdec_jax.errors import DataError
from specdec_jax.runtime.storage import read_file

PAD_ID = 0  # also the token that a T5 decoder starts from
EOS_ID = 1
TOKENIZER_FILE = "spiece.model"  # as T5's are named


class SpecialIds:
    """The ids that decoding needs of a tokenizer: those of T5, unless it has others.

    Attributes:
      start_id: what a decoder starts from.
      eos_id: ends a row.
      pad_id: fills up rows.
    """

    start_id: int = PAD_ID
    eos_id: int = EOS_ID
    pad_id: int = PAD_ID


class Tokenizer(SpecialIds):
    """Text to ids and back: pad 0, EOS 1, unknown 2, as T5 has them.

    Attributes:
      path: of the SentencePiece model.
      extra_ids: sentinels after the pieces, of which the last is <extra_id_0>.
    """

    def __init__(self, path: str | os.PathLike, extra_ids: int = 0):
        """Loads a SentencePiece model, local or from gs://.

        Raises:
          DataError: the file is missing or is not a SentencePiece model.
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

    @property
    def vocab_size(self) -> int:
        """Pieces and sentinels."""
        return self._pieces.get_piece_size() + self.extra_ids

    def encode(self, text: str) -> list[int]:
        """Ids of a text, ended by EOS.

        Raises:
          DataError: the text holds bytes that are not UTF-8, as Python hands them on
            from a command line.
        """
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise DataError(f"{text[:80]!r} is not UTF-8: {error.reason}") from error
        return [*self._pieces.encode(text), EOS_ID]

    def decode(self, tokens: Iterable[int | np.integer]) -> str:
        """The text of ids, up to the first EOS; ids without a piece are left out."""
        kept = []
        for token in map(int, tokens):
            if token == EOS_ID:
                break
            if PAD_ID < token < self._pieces.get_piece_size():
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
            pad_id=PAD_ID,
            eos_id=EOS_ID,
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
