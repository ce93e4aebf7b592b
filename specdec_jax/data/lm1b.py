"""The One Billion Word benchmark as a task for decoder-only models."""

from specdec_jax.data.tasks import TextTask, register_task, seqio_and_tensorflow
from specdec_jax.errors import SettingsError


def lm1b(
    vocabulary: str,
    prompt_length: int = 8,
    targets_length: int = 128,
    data_dir: str | None = None,
    data: str = "lm1b:1.1.0",
) -> TextTask:
    """Sentences of lm1b, split after a prompt; the continuations are not scored.

    A row's inputs are its prompt, without EOS, and its targets the rest, with EOS. The
    data has the splits "train" and "test".

    Args:
      vocabulary: a SentencePiece model, the pair's.
      prompt_length: tokens of each prompt, at most; 0 for training, and for generation
        from nothing, as in the paper.
      targets_length: the most ids after the prompt, EOS included.
      data_dir: where TFDS keeps its data; its own default if not given.
      data: the TFDS name, with the version.

    Raises:
      SettingsError: the extra "seqio" is not installed, prompt_length is below 0 or
        targets_length below 2.
      DataError: the vocabulary cannot be loaded.
    """
    if prompt_length < 0:
        raise SettingsError(f"prompt_length must be at least 0, not {prompt_length}")
    seqio, _ = seqio_and_tensorflow()

    def split_rows(pieces):
        @seqio.map_over_dataset
        def split_row(row):
            ids = pieces.encode_tf(row["text"])
            sides = {"inputs": ids[:prompt_length], "targets": ids[prompt_length:]}
            texts = {f"{s}_pretokenized": pieces.decode_tf(x) for s, x in sides.items()}
            return sides | texts

        return split_row

    return register_task(
        "lm1b",
        seqio.TfdsDataSource(data, tfds_data_dir=data_dir),
        lambda pieces: [split_rows(pieces)],
        [],
        vocabulary,
        {"inputs": prompt_length, "targets": targets_length},
        answers=False,
    )
