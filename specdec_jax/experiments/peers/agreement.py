"""Whether outputs are the same, and where they first are not."""

from collections.abc import Sequence

from specdec_jax.typing import Any

Ids = Sequence[int]


def compare(expected: Sequence[Ids], rounds: Sequence[Sequence[Ids]]) -> dict[str, Any]:
    """Compares what a peer gave in each round with what was expected.

    compare([[5, 1], [6, 1]], [[[5, 1], [6, 7, 1]]]) is 1 prompt of 2 equal; prompt 1
    differs at place 1, where 1 was expected and 7 found.

    Args:
      expected: the ids of each prompt's output.
      rounds: the same of a peer, for each round.

    Returns:
      equal: prompts whose output was the expected one in every round.
      prompts: how many there are.
      differences: of each other prompt the first difference: `prompt`, `place`,
        `expected` and `found`, None where an output had ended.
    """
    differences = []
    for prompt, ids in enumerate(expected):
        others = [outputs[prompt] for outputs in rounds]
        different = next((other for other in others if list(other) != list(ids)), None)
        if different is not None:
            differences.append({"prompt": prompt, **_first(ids, different)})
    return {
        "equal": len(expected) - len(differences),
        "prompts": len(expected),
        "differences": differences,
    }


def _first(expected: Ids, found: Ids) -> dict[str, int | None]:
    """The first place at which two unequal outputs differ."""
    longest = max(len(expected), len(found))
    for place in range(longest):
        pair = [ids[place] if place < len(ids) else None for ids in (expected, found)]
        if pair[0] != pair[1]:
            return {"place": place, "expected": pair[0], "found": pair[1]}
    raise ValueError("the outputs are equal")
