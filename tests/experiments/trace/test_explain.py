"""Each token's p, q and draw: against models asked token by token, and the loop."""

import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.experiments.trace.explain import explain
from tests.experiments.measure.token_by_token import probabilities
from tests.tiny_pairs import SENTENCES

GAMMA, TEMPERATURE, SEED, MAX_NEW_TOKENS = 3, 2.5, 0, 14


@pytest.fixture(scope="module")
def generated(tiny_pair):
    settings = sd.DecodeSettings(
        gamma=GAMMA, temperature=TEMPERATURE, max_new_tokens=MAX_NEW_TOKENS
    )
    return sd.generate(tiny_pair, SENTENCES[:1], settings, seed=SEED)


@pytest.fixture(scope="module")
def explained(tiny_pair):
    return explain(
        tiny_pair,
        SENTENCES[0],
        gamma=GAMMA,
        temperature=TEMPERATURE,
        seed=SEED,
        max_new_tokens=MAX_NEW_TOKENS,
    )


@pytest.fixture(scope="module")
def p_and_q(tiny_pair, generated):
    tokens = generated.tokens[0, : generated.lengths[0]]
    return probabilities(tiny_pair, SENTENCES[0], tokens, TEMPERATURE)


def ids(tiny_pair):
    pieces = [tiny_pair.tokenizer.piece(i) for i in range(tiny_pair.target.vocab_size)]
    assert len(set(pieces)) == len(pieces)
    return {piece: i for i, piece in enumerate(pieces)}


def with_places(explained):
    """(place in the output, token), of all lines."""
    place = 0
    for line in explained.lines:
        for token in line["tokens"]:
            yield place, token
            place += token["fate"] != "rejected"


def test_the_lines_are_those_of_the_loop(tiny_pair, generated, explained):
    assert explained.output == generated.texts[0]
    assert explained.tokens == generated.lengths[0]
    steps = generated.infos.gamma.shape[0]
    assert len(explained.lines) == generated.stats.target_calls[0] == steps
    for step, line in enumerate(explained.lines):
        assert line["gamma"] == generated.infos.gamma[step, 0]
        kept = [token for token in line["tokens"] if token["fate"] != "rejected"]
        assert len(kept) == generated.infos.num_emitted[step, 0]
    by_piece = ids(tiny_pair)
    kept = [t for _, t in with_places(explained) if t["fate"] != "rejected"]
    tokens = [by_piece[token["piece"]] for token in kept]
    np.testing.assert_array_equal(tokens, generated.tokens[0, : len(tokens)])


def test_every_fate_is_there(explained):
    fates = {token["fate"] for _, token in with_places(explained)}
    assert fates == {"accepted", "rejected", "correction", "bonus"}
    assert GAMMA in [line["accepted"] for line in explained.lines]


def test_p_and_q_are_those_of_the_models_token_by_token(tiny_pair, explained, p_and_q):
    by_piece, (p, q) = ids(tiny_pair), p_and_q
    for place, token in with_places(explained):
        token_id = by_piece[token["piece"]]
        assert token["p"] == pytest.approx(p[place, token_id], rel=1e-3, abs=1e-6)
        if token["fate"] == "bonus":
            assert token["q"] is None
        else:
            assert token["q"] == pytest.approx(q[place, token_id], rel=1e-3, abs=1e-6)
        drafted = token["fate"] != "bonus"  # where the drafter was asked
        largest = np.maximum(p[place], q[place]) if drafted else p[place]
        likeliest = np.argsort(-largest)[:5]
        listed = [by_piece[piece] for piece, _, _ in token["alternatives"]]
        np.testing.assert_array_equal(listed, likeliest)


def test_the_draws_decide_what_became_of_the_draft_tokens(explained):
    for _, token in with_places(explained):
        if token["fate"] == "accepted":
            assert token["draw"] * token["q"] < token["p"]
        elif token["fate"] == "rejected":
            assert token["draw"] * token["q"] >= token["p"]


def test_the_targets_own_token_is_where_its_draw_falls(tiny_pair, explained, p_and_q):
    by_piece, (p, q) = ids(tiny_pair), p_and_q
    seen = 0
    for place, token in with_places(explained):
        if token["fate"] not in ("correction", "bonus"):
            continue
        weights = p[place]
        if token["fate"] == "correction":
            weights = np.maximum(weights - q[place], 0)
        weights = weights / weights.sum()
        token_id = by_piece[token["piece"]]
        assert token["chance"] == pytest.approx(weights[token_id], rel=1e-3)
        below = weights[:token_id].sum()
        assert below - 1e-5 <= token["draw"] <= below + weights[token_id] + 1e-5
        seen += 1
    assert seen >= 3


def test_betas_of_the_loop_are_those_of_these_p_and_q(generated, explained, p_and_q):
    p, q = p_and_q
    place = 0
    for step, line in enumerate(explained.lines):
        for index, token in enumerate(line["tokens"]):
            if token["fate"] in ("accepted", "rejected"):
                beta = np.minimum(p[place], q[place]).sum()
                found = generated.infos.betas[step, 0, index]
                assert found == pytest.approx(beta, rel=1e-3)
            place += token["fate"] != "rejected"
