"""What int8 weights change in the logits."""

import pytest

import specdec_jax as sd
from specdec_jax.errors import DataError, PairError
from specdec_jax.experiments.kinds import LogitsError
from specdec_jax.experiments.measure.quantization import measure_logits
from specdec_jax.experiments.peers.comparison import peers_of_pair
from specdec_jax.experiments.peers.rounds import PeersConfig
from specdec_jax.experiments.record_file import RecordFile
from specdec_jax.experiments.summaries import logits_summary
from specdec_jax.job import encode
from tests.tiny_pairs import SENTENCES


@pytest.fixture(scope="module")
def quantized(pair_folder):
    return sd.load_pair(pair_folder, target_quantization="int8")


def test_a_target_beside_itself_has_no_error(tiny_pair, tmp_path):
    records = RecordFile(tmp_path / "a.jsonl")
    inputs = encode(tiny_pair, SENTENCES[:2])
    measure_logits(tiny_pair, tiny_pair, inputs, 6, records)
    (one,) = records
    assert (one.mean_error, one.max_error, one.same_argmax) == (0, 0, 1)
    assert one.overlap == pytest.approx(1, abs=1e-5) and one.deviation > 0


def test_int8_weights_change_little_and_are_measured_once(
    tiny_pair, quantized, tmp_path
):
    records = RecordFile(tmp_path / "a.jsonl")
    inputs = encode(tiny_pair, SENTENCES)
    for _ in range(2):
        measure_logits(tiny_pair, quantized, inputs, 8, records)
    (one,) = records
    assert isinstance(one, LogitsError) and one.quantization == "int8"
    lengths = sd.generate(
        tiny_pair, SENTENCES, method="autoregressive", max_new_tokens=8
    ).lengths
    assert one.tokens == lengths.sum()
    assert 0 < one.mean_error < one.max_error < 0.2
    assert 0.9 < one.overlap < 1
    assert "int8" in str(logits_summary(records).cells())
    with pytest.raises(DataError, match="max_new_tokens 8 and this run 9"):
        measure_logits(tiny_pair, quantized, inputs, 9, records)


def test_other_libraries_are_not_given_int8_weights(quantized):
    with pytest.raises(PairError, match="without target_quantization"):
        next(iter(peers_of_pair(quantized, [[5, 1]], PeersConfig(), {})))
