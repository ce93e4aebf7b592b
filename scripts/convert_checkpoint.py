"""Converts a T5 checkpoint between this project's, Hugging Face's and T5X's formats.

python scripts/convert_checkpoint.py --source=FOLDER --destination=FOLDER --format=t5x
"""

from pathlib import Path

from absl import flags

from specdec_jax import SettingsError
from specdec_jax.checkpoints import formats
from specdec_jax.cli.program import run_program

_SOURCE = flags.DEFINE_string("source", None, "a checkpoint of any format.")
_DESTINATION = flags.DEFINE_string("destination", None, "a new folder.")
_FORMAT = flags.DEFINE_enum("format", "native", formats.WRITERS, "of the destination.")
_DTYPE = flags.DEFINE_enum(
    "dtype", "float32", ["float32", "bfloat16"], "of the weights on disk."
)
_TOKENIZER = flags.DEFINE_string(
    "tokenizer", None, "SentencePiece model, if it is not with the source."
)


def main(_):
    for flag in (_SOURCE, _DESTINATION):
        if not flag.value:
            raise SettingsError(f"--{flag.name} is missing")
    destination = Path(_DESTINATION.value)
    if destination.is_dir() and any(destination.iterdir()):
        raise SettingsError(f"{destination} is not empty: give it another name")
    written = formats.convert(
        _SOURCE.value, destination, _FORMAT.value, _DTYPE.value, _TOKENIZER.value
    )
    print(written)


if __name__ == "__main__":
    run_program(main)
