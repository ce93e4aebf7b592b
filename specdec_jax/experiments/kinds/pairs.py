"""What was measured of a pair: its speed, its costs, its alpha."""

from specdec_jax.runtime.records import (
    Count,
    Interval,
    NonNegative,
    Object,
    Positive,
    Rate,
    Record,
    Text,
    Values,
    identity,
    stored,
)


@stored
class OfPair(Record):
    """The base of records of a pair.

    Attributes:
      pair: its name.
      dtype, weights: of the target, and a digest of both models' weights: they tell
        pairs of one name apart. Records of before they were written have none.
      quantization: of the target's weights, "int8"; None if they are of that dtype.
    """

    pair: Text = identity()
    dtype: Text | None = identity(default=None)
    weights: Text | None = identity(default=None)
    quantization: Text | None = None

    def of_one_model(self, other: "OfPair") -> bool:
        """Whether both are of one dtype and the same weights, as far as they say."""
        both = ((self.dtype, other.dtype), (self.weights, other.weights))
        return all(None in values or values[0] == values[1] for values in both)


@stored
class Benchmark(OfPair):
    """Speculative decoding against its baseline, at one temperature, gamma, lenience.

    With lenience below 1 the output is not the target's own, and nothing is predicted
    from the betas of the baseline's outputs.

    Attributes:
      inputs, inputs_sha256: how many were decoded, and a digest of their ids.
      config: the rest of what was measured, the same for all records of a file.
      temperature, gamma, lenience: of this record.
      alpha, alpha_interval: the mean of sum_x min(p/l, q) over the draft tokens tested,
        and its 95% interval by outputs.
      acceptance_rate: accepted / tested; 0 where nothing was tested.
      tokens_per_target_call, drafted_per_target_call: of the speculative loop.
      c, c_spread: what a draft token adds to a speculative step, over a target step;
        the median, and the least and the largest measurement.
      c_alone: a step of the drafter's own decoding, over a target step; None if the
        drafter has no network.
      v, v_spread: a verify pass over a target step.
      fixed_costs: what a decode pays once, over a target step: the baseline's, ours.
      theorem_3_8: the theorem's speedup for this alpha, gamma, c and v.
      predicted_speedup: the same for outputs of these lengths, fixed costs counted.
      speedup, speedup_spread: measured; the median over rounds, and its range.
      measured_over_predicted: speedup over predicted_speedup.
      tokens_per_second, baseline_tokens_per_second: and their ranges over rounds.
      target_step_ms: milliseconds of a target step.
      beta_tokens_per_target_call, beta_predicted_speedup: from the betas along the
        baseline's outputs.
      best_gamma: of the largest prediction by the betas.
    """

    kind = "benchmark"

    inputs: Count | None = identity(default=None)
    inputs_sha256: Text | None = identity(default=None)
    config: Object | None = identity(default=None)
    temperature: NonNegative
    gamma: Count
    lenience: Rate = 1.0
    alpha: Rate
    alpha_interval: Interval | None = None
    acceptance_rate: Rate | None = None
    tokens_per_target_call: NonNegative | None = None
    drafted_per_target_call: NonNegative | None = None
    c: NonNegative
    c_spread: Interval | None = None
    c_alone: NonNegative | None = None
    v: Positive
    v_spread: Interval | None = None
    fixed_costs: Interval | None = None
    theorem_3_8: NonNegative | None = None
    predicted_speedup: Positive
    speedup: Positive
    speedup_spread: Interval | None = None
    measured_over_predicted: Positive | None = None
    tokens_per_second: Positive | None = None
    tokens_per_second_spread: Interval | None = None
    baseline_tokens_per_second: Positive | None = None
    baseline_tokens_per_second_spread: Interval | None = None
    target_step_ms: Positive | None = None
    beta_tokens_per_target_call: Positive | None = None
    beta_predicted_speedup: Positive | None = None
    best_gamma: Count | None = None


@stored
class AlphaOutput(OfPair):
    """One output of the target, with the drafter's p and q compared at each token.

    Attributes:
      drafter: its kind, "neural", "prompt_lookup", "bigram", ...
      inputs, inputs_sha256, config: as in `Alpha`.
      temperature, top_k, top_p: of generation, p and q.
      output_index, input_index: the output's place in the run, and its input's.
      tokens: ids, T of them, EOS included.
      betas: for each lenience T values of `Acceptance.betas`.
      accept_probs, rejection_probs: T values of `Acceptance`; records of before the
        latter were kept have none.
      drafted: T values, 1 where the drafter has a draft token, else 0.
    """

    kind = "alpha_output"

    drafter: Text = identity()
    inputs: Count = identity()
    inputs_sha256: Text = identity()
    config: Object = identity()
    temperature: NonNegative
    top_k: Count
    top_p: Rate
    output_index: Count
    input_index: Count
    tokens: Values
    betas: Values
    accept_probs: Values
    rejection_probs: Values | None = None
    drafted: Values


@stored
class Alpha(OfPair):
    """Alpha on the target's own tokens, at one temperature, lenience, top-k and top-p.

    Attributes:
      drafter: its kind, "neural", "prompt_lookup", "bigram", ...
      inputs, inputs_sha256: how many inputs there were, and a digest of their ids.
      config: the rest of what was measured, the same for all records of a file.
      temperature, top_k, top_p, lenience: of this record.
      alpha, alpha_interval, interval: the mean of sum_x min(p/l, q) over the tokens
        with a draft token, its interval, and what interval that is.
      rejection_alpha, rejection_interval: the same of what rejection sampling accepts,
        sum_x p min_x' q/p (appendix A.2); only at temperatures above 0 and lenience 1.
      tokens, outputs: how many were measured.
      drafted_share: of the tokens, those at which the drafter has a draft token.
      mean_beta: over all tokens; beta is 0 where there is no draft token.
      beta_by_position, outputs_by_position, beta_autocorrelation, beta_histogram: as in
        `betas.describe`.
      gammas, tokens_per_target_call, tokens_per_target_call_iid: as in
        `betas.tokens_per_target_call`; only at lenience 1.
    """

    kind = "alpha"

    drafter: Text = identity()
    inputs: Count | None = identity(default=None)
    inputs_sha256: Text | None = identity(default=None)
    config: Object | None = identity(default=None)
    temperature: NonNegative
    top_k: Count
    top_p: Rate
    lenience: Rate
    alpha: Rate
    alpha_interval: Interval
    interval: Text | None = None
    rejection_alpha: Rate | None = None
    rejection_interval: Interval | None = None
    tokens: Count
    outputs: Count | None = None
    drafted_share: Rate | None = None
    mean_beta: Rate | None = None
    beta_by_position: Values | None = None
    outputs_by_position: Values | None = None
    beta_autocorrelation: Values | None = None
    beta_histogram: Values | None = None
    gammas: Values | None = None
    tokens_per_target_call: Values | None = None
    tokens_per_target_call_iid: Values | None = None

    def __post_init__(self):
        """Raises ValueError if it has gammas, and not all that is shown with them."""
        shown = (
            "beta_autocorrelation",
            "beta_by_position",
            "drafted_share",
            "mean_beta",
            "tokens_per_target_call",
            "tokens_per_target_call_iid",
        )
        lacking = [name for name in shown if getattr(self, name) is None]
        if self.gammas and lacking:
            raise ValueError(f"it has gammas, and lacks {', '.join(lacking)}")


@stored
class LogitsError(OfPair):
    """A quantized target's logits against those of its float weights.

    Both are of the ids that can be drawn, at each token of outputs that the float
    target made at temperature 0.

    Attributes:
      inputs, inputs_sha256: how many inputs there were, and a digest of their ids.
      max_new_tokens: of each output.
      tokens: of all outputs.
      deviation: of the float logits from their mean at each token, root mean square.
      mean_error, max_error: of the absolute differences, over that deviation.
      same_argmax: the share of the tokens at which both have one argmax.
      overlap: the mean of sum_x min(p, p') at temperature 1, 1 where both agree.
    """

    kind = "logits_error"

    inputs: Count = identity()
    inputs_sha256: Text = identity()
    max_new_tokens: Count = identity()
    tokens: Count
    deviation: Positive
    mean_error: NonNegative
    max_error: NonNegative
    same_argmax: Rate
    overlap: Rate


@stored
class Sweep(OfPair):
    """Inputs decoded at one temperature and gamma; nothing is timed.

    Attributes:
      temperature, gamma: of this record.
      outputs: texts.
      tokens, target_calls, tokens_per_target_call: of all outputs together.
      alpha: of the draft tokens tested; None where nothing was drafted.
      predicted_tokens_per_target_call: with this alpha, for outputs of these lengths.
    """

    kind = "sweep"

    temperature: NonNegative
    gamma: Count
    outputs: Values
    tokens: Count
    target_calls: Count
    tokens_per_target_call: NonNegative
    alpha: Rate | None = None
    predicted_tokens_per_target_call: NonNegative
