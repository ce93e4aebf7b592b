"""Verification rules, a file a rule; `DecodeSettings.rule` names one or is one."""

from specdec_jax.sampling.rules.base import Block, Noise, Rule, Verdict
from specdec_jax.sampling.rules.token import TokenRule

RULES = {TokenRule.name: TokenRule()}

__all__ = ["RULES", "Block", "Noise", "Rule", "TokenRule", "Verdict"]
