"""SentencePiece models with special ids of their own."""

import io
from pathlib import Path

import sentencepiece

from tests.tiny_pairs import SENTENCES, VOCAB_SIZE


def write_pieces(path: Path, **special_ids: int) -> None:
    """Fits as many pieces as the tiny pairs have; ids as SentencePiece calls them."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=model,
        vocab_size=VOCAB_SIZE,
        model_type="unigram",
        character_coverage=1.0,
        minloglevel=2,
        **{"unk_id": 2, "bos_id": -1, **special_ids},
    )
    path.write_bytes(model.getvalue())
