"""Trains from references, fine-tunes a checkpoint, or distils a drafter; resumes.

python scripts/train.py --gin_file=configs/train/FILE.gin --gin.DATA=... --gin.RUN=...
"""

from specdec_jax import SettingsError
from specdec_jax.cli import gin_bindings
from specdec_jax.cli.program import run_program
from specdec_jax.training import jobs


def main(_):
    gin_bindings.register_training()
    gin_bindings.parse()
    if not gin_bindings.is_bound("train.job"):
        raise SettingsError("give --gin_file=FILE.gin, one of configs/train/")
    gin_bindings.require_use(jobs.train)
    job = gin_bindings.configured(jobs.train)()
    gin_bindings.save_config(job.folder)
    if job.is_done:
        print("nothing is left to train: ", end="")
    print(f"the model is in {job.run()}")


if __name__ == "__main__":
    run_program(main)
