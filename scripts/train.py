"""Trains a target from references, or distils a drafter from its target; resumes.

python scripts/train.py --gin_file=configs/train/demo_target.gin --gin.DATA=FOLDER
"""

import gin

from specdec_jax import gin_bindings

gin_bindings.register_training()


@gin.configurable
def train(job=gin.REQUIRED):
    """Runs the job that the gin file chose."""
    job()


def main(_):
    gin_bindings.parse()
    train()


if __name__ == "__main__":
    gin_bindings.run_program(main)
