"""The paper's own numbers, as it prints them: data to stand beside ours, no results.

"Fast Inference from Transformers via Speculative Decoding", arXiv 2211.17192. What
follows from its formulas is not here: `sampling.theory` computes it.
"""

import dataclasses
import math

from specdec_jax.models.t5 import T5Config

# Width, heads, feed-forward width and layers of each stack of T5 v1.1.
SIZES = {
    "small": (512, 6, 1024, 8),
    "base": (768, 12, 2048, 12),
    "large": (1024, 16, 2816, 24),
    "xxl": (4096, 64, 10240, 24),
}


def t5_1_1(size: str) -> T5Config:
    """A T5 v1.1 of the paper: "small", "base", "large" or "xxl"."""
    width, heads, hidden, layers = SIZES[size]
    return T5Config(32100, 32128, width, heads, 64, hidden, layers, layers)


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of Tables 2 and 4: T5-XXL (11B), batch 1, one TPU v4, against T5X.

    Attributes:
      run: the run file of this project that does it, `configs/runs/{run}.gin`.
      task, drafter, temperature, gamma: what was run.
      alpha, c: as measured by the paper; c was read off profiler traces.
      expected: "Exp" of Table 4, its prediction by Theorem 3.8.
      measured: "Speed" of Table 2, "Emp" of Table 4, over T5X's own decoding.
    """

    run: str
    task: str
    drafter: str
    temperature: float
    gamma: int
    alpha: float
    c: float
    expected: float
    measured: float

    @property
    def size(self) -> str:
        """Of the drafter: "small", "base" or "large"."""
        return self.run.split("_")[1]


def _row(run: str, gamma, alpha, c, expected, measured) -> Row:
    task, size, temperature = run.split("_")
    tasks = {"ende": "EnDe", "cnndm": "CNNDM"}
    sizes = {"small": "77M", "base": "250M", "large": "800M"}
    return Row(
        run=run,
        task=tasks[task],
        drafter=f"T5-{size} {sizes[size]}",
        temperature=float(temperature.removeprefix("t")),
        gamma=gamma,
        alpha=alpha,
        c=c,
        expected=expected,
        measured=measured,
    )


# alpha, gamma, operations, speed; c = c_hat = 0.
TABLE_1 = (
    (0.6, 2, 1.53, 1.96),
    (0.7, 3, 1.58, 2.53),
    (0.8, 2, 1.23, 2.44),
    (0.8, 5, 1.63, 3.69),
    (0.9, 2, 1.11, 2.71),
    (0.9, 10, 1.60, 6.86),
)

# run, gamma, alpha, c, Exp, Emp
ROWS = (
    _row("ende_small_t0", 7, 0.75, 0.02, 3.2, 3.4),
    _row("ende_base_t0", 7, 0.80, 0.04, 3.3, 2.8),
    _row("ende_large_t0", 7, 0.82, 0.11, 2.5, 1.7),
    _row("ende_small_t1", 7, 0.62, 0.02, 2.3, 2.6),
    _row("ende_base_t1", 5, 0.68, 0.04, 2.4, 2.4),
    _row("ende_large_t1", 3, 0.71, 0.11, 2.0, 1.4),
    _row("cnndm_small_t0", 5, 0.65, 0.02, 2.4, 3.1),
    _row("cnndm_base_t0", 5, 0.73, 0.04, 2.6, 3.0),
    _row("cnndm_large_t0", 3, 0.74, 0.11, 2.0, 2.2),
    _row("cnndm_small_t1", 5, 0.53, 0.02, 1.9, 2.3),
    _row("cnndm_base_t1", 3, 0.55, 0.04, 1.8, 2.2),
    _row("cnndm_large_t1", 3, 0.56, 0.11, 1.6, 1.7),
)

# Target, drafter, alpha at temperature 0, at 1; on 10K tokens that the target made.
TABLE_3 = (
    ("GPT-like 97M, lm1b", "unigram", 0.03, 0.03),
    ("GPT-like 97M, lm1b", "bigram", 0.05, 0.05),
    ("GPT-like 97M, lm1b", "GPT-like 6M", 0.88, 0.89),
    ("T5-XXL, EnDe", "unigram", 0.08, 0.07),
    ("T5-XXL, EnDe", "bigram", 0.20, 0.19),
    ("T5-XXL, EnDe", "T5-small", 0.75, 0.62),
    ("T5-XXL, EnDe", "T5-base", 0.80, 0.68),
    ("T5-XXL, EnDe", "T5-large", 0.82, 0.71),
    ("T5-XXL, CNNDM", "unigram", 0.13, 0.08),
    ("T5-XXL, CNNDM", "bigram", 0.23, 0.16),
    ("T5-XXL, CNNDM", "T5-small", 0.65, 0.53),
    ("T5-XXL, CNNDM", "T5-base", 0.73, 0.55),
    ("T5-XXL, CNNDM", "T5-large", 0.74, 0.56),
    ("LaMDA 137B, top-40", "LaMDA 100M", 0.61, 0.57),
    ("LaMDA 137B, top-40", "LaMDA 2B", 0.71, 0.71),
    ("LaMDA 137B, top-40", "LaMDA 8B", 0.75, 0.74),
)

# Appendix A.5, EnDe with T5-XXL. l -> alpha by drafter, at temperature 1.
LENIENCES = (1.0, 0.5, 0.3, 0.1)
LENIENT_DRAFTERS = ("unigram", "bigram", "T5-small", "T5-base")
LENIENT_ALPHAS = {
    1.0: (0.07, 0.19, 0.62, 0.68),
    0.5: (0.10, 0.23, 0.71, 0.80),
    0.3: (0.11, 0.25, 0.76, 0.83),
    0.1: (0.16, 0.32, 0.84, 0.90),
}
# l -> speed of T5-small at temperature 1. Theorem 3.8 does not give these.
LENIENT_SPEEDS = {1.0: 2.5, 0.5: 3.1, 0.3: 3.6, 0.1: 5.0}
# l -> alpha and speed of T5-small at temperature 0; gamma and c.
LENIENT_GREEDY = {
    1.0: (0.75, 3.3),
    0.5: (0.75, 3.3),
    0.3: (0.80, 3.9),
    0.1: (0.87, 4.9),
}
LENIENT_GAMMA, LENIENT_C = 8, 0.015

# Figure 1: tokens of the trace, and the target calls that they took.
FIGURE_1_TOKENS, FIGURE_1_CALLS = 38, 9
FIGURE_2_GAMMAS = (1, 3, 5, 7, math.inf)
FIGURE_3_COSTS = (0.01, 0.02, 0.05, 0.1)
FIGURE_4_GAMMAS = (1, 3, 5, 7, 10)
FIGURE_5_GAMMAS = (7, 3)
