"""Whether a drafter of one's own keeps to the contract, before a loop is compiled."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.decoding.contracts import (
    Commit,
    Drafter,
    Draw,
    LanguageModel,
    Prompt,
    Proposal,
)
from specdec_jax.errors import PairError, one_line
from specdec_jax.sampling import TokenRule, Warp, position_keys, row_keys
from specdec_jax.sampling.keys import seed_key
from specdec_jax.typing import Any, Array, Params, PyTree

GAMMA = 2
SLOTS = 16
MEMBERS = ("vocab_size", "max_length", "taps", "init", "propose", "commit")


def check_drafter(
    drafter: Any,
    params: Params,
    target: LanguageModel,
    target_params: Params,
    inputs: PyTree,
    prompt: Prompt,
) -> None:
    """Drafts one block of two tokens, and looks at all that comes back.

    A block of one row and three tokens is traced too, and so seen to have its shapes.

    Args:
      drafter, params: to check.
      target, target_params: what it is to draft for; only shapes are taken from them.
      inputs, prompt: a small batch of them, as the target's family takes it.

    Raises:
      PairError: it is not hashable, lacks a member, is of another vocabulary, taps a
        layer that is not there, fails, or gives something else than the contract says.
    """
    name = type(drafter).__name__
    _check_members(name, drafter, target)

    def one_block(params, inputs, prompt, told, draw):
        batch, width = draw.uniforms.shape
        gamma = jnp.full(batch, width, jnp.int32)
        context, prompt_features, features = told
        before = drafter.init(params, inputs, context, prompt, prompt_features, SLOTS)
        warp = Warp.from_values(temperature=np.ones(batch))
        returned = drafter.propose(params, before, draw, warp, gamma)
        proposal, state = _unpacked(name, returned)
        expected = (batch, width, target.padded_vocab_size)
        _check_shapes(name, proposal, *expected)
        commit = Commit(
            tokens=jnp.pad(proposal.tokens, ((0, 0), (0, 1))),
            num_accepted=jnp.zeros_like(gamma),
            gamma=proposal.num_drafted,
            active=jnp.ones(batch, bool),
            features=features,
        )
        _check_state(name, before, drafter.commit(params, state, commit))
        return proposal

    def given(inputs, prompt, width):
        told = _target_told(drafter, target, target_params, inputs, prompt, width)
        batch = prompt.lengths.shape[0]
        return params, inputs, prompt, told, _draw(batch, width)

    one_row = jax.tree.map(lambda x: x[:1], (inputs, prompt))
    try:
        proposal = jax.jit(one_block)(*given(inputs, prompt, GAMMA))
        jax.eval_shape(one_block, *given(*one_row, GAMMA + 1))
    except PairError:
        raise
    except Exception as error:  # the drafter is somebody's own code
        reason = one_line(error)
        without = "" if jax.tree.leaves(params) else " (it was given no drafter_params)"
        raise PairError(
            f"the drafter {name} fails{without}: {type(error).__name__}: {reason}"
        ) from error
    _check_values(name, proposal, target)


def _check_members(name: str, drafter: Any, target: LanguageModel) -> None:
    lacking = [member for member in MEMBERS if not hasattr(drafter, member)]
    if lacking or not isinstance(drafter, Drafter):
        raise PairError(
            f"{name} is no drafter: it lacks {', '.join(lacking)} (RuleBasedDrafter, a "
            "base to build on, has all but propose)"
        )
    try:
        hash(drafter)
    except TypeError as error:
        raise PairError(
            f"the drafter {name} must be hashable, as it is compiled in: make it a "
            "dataclass with frozen=True"
        ) from error
    if drafter.vocab_size != target.vocab_size:
        raise PairError(
            f"the target has {target.vocab_size} tokens and the drafter {name} "
            f"{drafter.vocab_size}: speculative decoding needs one vocabulary"
        )
    taps, longest = drafter.taps, drafter.max_length
    if not isinstance(taps, tuple) or not all(type(tap) is int for tap in taps):
        raise PairError(f"{name}.taps must be a tuple of layers, not {taps!r}")
    if longest is not None and type(longest) is not int:
        raise PairError(f"{name}.max_length must be an integer or None: {longest!r}")
    if not all(0 <= tap < target.num_layers for tap in taps):
        raise PairError(
            f"the drafter {name} taps layers {drafter.taps} of the target, which has "
            f"{target.num_layers}, from 0"
        )


def _target_told(
    drafter: Drafter,
    target: LanguageModel,
    params: Params,
    inputs: PyTree,
    prompt: Prompt,
    width: int,
) -> tuple[PyTree, Array | None, Array | None]:
    """Zeros in place of a context, and of features of the prompt and of a block."""
    batch, length = prompt.tokens.shape

    def told(params):
        cache, context = target.start(params, inputs, SLOTS + length)
        tokens = jnp.zeros((batch, length - 1 + width + 1), jnp.int32)
        lengths = jnp.zeros(batch, jnp.int32)
        _, features, _ = target.extend(params, cache, tokens, lengths, drafter.taps)
        return context, features

    context, features = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(told, params)
    )
    if features is None:
        return context, None, None
    of_prompt = features[:, : length - 1] if length > 1 else None
    return context, of_prompt, features[:, length - 1 :]


def _draw(batch: int, width: int) -> Draw:
    rows = row_keys(seed_key(0), jnp.arange(batch, dtype=jnp.int32))
    places = jnp.broadcast_to(jnp.arange(width, dtype=jnp.int32), (batch, width))
    return Draw(jnp.full((batch, width), 0.5), position_keys(rows, places), TokenRule())


def _unpacked(name: str, returned: Any) -> tuple[Proposal, PyTree]:
    if not (
        isinstance(returned, tuple)
        and len(returned) == 2
        and isinstance(returned[0], Proposal)
    ):
        kinds = returned if isinstance(returned, tuple) else (returned,)
        kinds = ", ".join(type(one).__name__ for one in kinds)
        raise PairError(
            f"{name}.propose must return a Proposal and the state, and returned "
            f"{kinds or 'nothing'}"
        )
    return returned


def _check_shapes(
    name: str, proposal: Proposal, batch: int, width: int, size: int
) -> None:
    expected = {
        "tokens": ((batch, width), "int32"),
        "probs": ((batch, width, size), "float32"),
        "num_drafted": ((batch,), "int32"),
    }
    for field, (shape, dtype) in expected.items():
        found = jnp.asarray(getattr(proposal, field))
        if found.shape != shape or found.dtype != dtype:
            raise PairError(
                f"{name}.propose gave {field} of {found.dtype} {list(found.shape)}: "
                f"for {batch} rows and G = draw.max_gamma = {width} it must be {dtype} "
                f"{list(shape)} (V, the width of the target's logits, is {size})"
            )


def _check_state(name: str, before: PyTree, after: PyTree) -> None:
    def described(state):
        leaves, structure = jax.tree.flatten(state)
        return structure, [(jnp.shape(x), jnp.result_type(x)) for x in leaves]

    if described(before) != described(after):
        raise PairError(
            f"{name}.commit must give back a state as init made it, of the same "
            f"arrays: init's is {_in_words(before)} and commit's {_in_words(after)}"
        )


def _in_words(state: PyTree) -> str:
    leaves = [
        f"{jnp.result_type(x)}{list(jnp.shape(x))}" for x in jax.tree.leaves(state)
    ]
    return f"{type(state).__name__} of {', '.join(leaves) or 'no arrays'}"


def _check_values(name: str, proposal: Proposal, target: LanguageModel) -> None:
    found = {
        field.name: np.asarray(getattr(proposal, field.name))
        for field in dataclasses.fields(proposal)
    }
    tokens, q, count = found["tokens"], found["probs"], found["num_drafted"]
    if count.min() < 0 or count.max() > GAMMA:
        raise PairError(
            f"{name}.propose gave num_drafted {count.tolist()}: it must be from 0 to "
            f"gamma, which was {GAMMA}"
        )
    in_force = np.arange(GAMMA)[None] < count[:, None]
    tokens, q = tokens[in_force], q[in_force]
    if not len(tokens):
        return
    size = target.vocab_size
    if tokens.min() < 0 or tokens.max() >= size:
        raise PairError(
            f"{name}.propose drafted the ids {sorted(set(tokens.tolist()))}: ids are "
            f"from 0 to {size - 1}"
        )
    if (q < 0).any() or not np.allclose(q.sum(axis=-1), 1, atol=1e-3):
        raise PairError(
            f"{name}.propose gave probs that are no distributions: each sums to 1 over "
            f"V, and these to {q.sum(axis=-1).round(3).tolist()}"
        )
    if q[:, size:].any():
        raise PairError(f"{name}.propose gave probability to padding, ids from {size}")
    if not q[np.arange(len(tokens)), tokens].all():
        raise PairError(
            f"{name}.propose gave probs in which a token that it drafted has none: q "
            "is what a token was drawn from, and one-hot at a token that was chosen"
        )
