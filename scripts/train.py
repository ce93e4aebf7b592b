"""Trains from references, fine-tunes a checkpoint, or distils a drafter; resumes.

python scripts/train.py --gin_file=FILE.gin --gin.DATA=... --gin.RUN=...
"""

from specdec_jax.cli import gin_bindings
from specdec_jax.cli.arguments import only_flags
from specdec_jax.training import jobs


def main(argv):
    only_flags(argv)
    gin_bindings.register_training()
    gin_bindings.parse()
    gin_bindings.save_config("RUN")
    gin_bindings.configured(jobs.train)()


if __name__ == "__main__":
    gin_bindings.run_program(main)
