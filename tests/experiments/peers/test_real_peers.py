"""The libraries themselves, where they are installed: each must agree with ours.

Skipped elsewhere, peer by peer, and said so: `pip install -e '.[peers]'` and
`pip install -e '.[t5x]'` bring them. The harness around them is tested without.
"""

import pytest

from specdec_jax.experiments.peers.catalogue import PEERS, open_peer
from specdec_jax.experiments.peers.protocol import PeerAbsent, Task
from specdec_jax.experiments.peers.shared_weights import write_huggingface
from tests import tiny_pairs
from tests.experiments.peers.fake_peers import PROMPTS

TORCH = [name for name in PEERS if name.startswith("transformers")]
MAX_NEW_TOKENS = 10


def shallow_encoder(width, layers):
    """The two stacks of a T5 need not be equally deep; the demo pair's are not."""
    return tiny_pairs.tiny_config(width, layers, num_encoder_layers=1)


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    folder = tiny_pairs.make_pair(tmp_path_factory.mktemp("pair"), shallow_encoder)
    sides = [str(folder / name) for name in ("target", "drafter", "spiece.model")]
    folders = write_huggingface(*sides, tmp_path_factory.mktemp("huggingface"))
    return Task(
        *sides,
        huggingface=folders,
        gamma=3,
        temperature=0.0,
        max_new_tokens=MAX_NEW_TOKENS,
    )


@pytest.fixture(scope="module")
def expected(task):
    return outputs(open_peer(PEERS["baseline"], task))


def outputs(peer):
    return [peer.decode(prompt, seed=0).tokens for prompt in PROMPTS]


@pytest.mark.parametrize("name", TORCH)
def test_transformers_gives_our_tokens(task, expected, name):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    peer = open_peer(PEERS[name], task)
    assert outputs(peer) == expected
    decoded = peer.decode(PROMPTS[0], seed=0)
    tokens, calls = len(decoded.tokens), decoded.target_calls
    if name == "transformers":
        assert calls == tokens
    else:
        assert -(-tokens // 4) <= calls <= tokens  # 3 guesses a block, or none
    assert set(peer.versions) == {"torch", "transformers"}
    assert peer.settings["threads"] >= 1


def test_an_assistant_that_is_the_target_needs_few_calls(task, expected):
    """So calls are counted of the target alone, and gamma is what was asked for."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    target, _ = task.huggingface
    same = Task(**task.__dict__ | {"huggingface": (target, target)})
    peer = open_peer(PEERS["transformers_assisted"], same)
    for prompt, ids in zip(PROMPTS, expected, strict=True):
        decoded = peer.decode(prompt, seed=0)
        assert list(decoded.tokens) == ids
        assert decoded.target_calls == -(-len(ids) // 4)


def test_an_assistant_must_be_a_network(task):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    fields = {"huggingface": (task.huggingface[0], None), "drafter": "prompt_lookup"}
    other = Task(**task.__dict__ | fields)
    with pytest.raises(PeerAbsent, match="not 'prompt_lookup'"):
        open_peer(PEERS["transformers_assisted"], other)
    open_peer(PEERS["transformers_lookup"], other)


def test_t5x_gives_our_tokens_and_its_calls_are_counted(task, expected, monkeypatch):
    pytest.importorskip("t5x")
    import jax

    from specdec_jax.experiments.peers import t5x

    steps = []
    original = t5x.decoding.temperature_sample

    def counted(*args, **options):
        def callback(state):
            jax.debug.callback(lambda: steps.append(None))
            return state

        return original(*args, **options, state_callback_fn=callback)

    monkeypatch.setattr(t5x.decoding, "temperature_sample", counted)
    # Its own rules of promotion, not those that our tests run under.
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        peer = open_peer(PEERS["t5x"], task)
        for prompt, ids in zip(PROMPTS, expected, strict=True):
            steps.clear()
            decoded = peer.decode(prompt, seed=0)
            jax.effects_barrier()
            assert list(decoded.tokens) == ids
            assert decoded.target_calls == len(steps) - 1  # one more after the loop


@pytest.mark.parametrize("name", ["t5x", *TORCH])
def test_temperature_1_draws_from_the_whole_vocabulary(task, name):
    """Not from the likeliest alone, which is what either library does if not told."""
    pytest.importorskip("t5x" if name == "t5x" else "transformers")
    import jax

    warm = Task(**task.__dict__ | {"temperature": 1.0, "max_new_tokens": 1})
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        peer = open_peer(PEERS[name], warm)
        drawn, again = (
            [peer.decode(p, seed).tokens[0] for p in PROMPTS for seed in range(20)]
            for _ in range(2)
        )
    assert drawn == again  # the seed decides
    assert len(set(drawn)) > len(PROMPTS) + 3
