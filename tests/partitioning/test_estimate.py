"""What a step is expected to take, against sums worked out by hand."""

import pytest

from specdec_jax.partitioning.estimate import step_estimates
from specdec_jax.partitioning.hlo import Program
from specdec_jax.partitioning.topology import Chip

CHIP = Chip((), 1.0, 1.0, 1.0, 1.0, clock=1e6)  # a cycle is a microsecond
BIG = "f32[512,1024]"  # 2 MiB


def costs(cycles, scope="verify"):
    return (
        f', metadata={{op_name="jit(run)/while/body/{scope}/x"}}, '
        f'backend_config={{"estimated_cycles":"{cycles}"}}'
    )


# A decoding loop: a first draft step, a loop of draft steps, a conditional with a
# search of 31 trips in its first branch, and copies of all kinds.
TEXT = f"""\
HloModule jit_run, is_scheduled=true

%relaid (r: {BIG}) -> {BIG} {{
  %r = {BIG}{{1,0}} parameter(0)
  ROOT %t = {BIG}{{0,1}} copy(%r)
}}

%added (q: {BIG}) -> {BIG} {{
  %q = {BIG}{{1,0}} parameter(0)
  ROOT %s = {BIG}{{1,0}} add(%q, %q)
}}

%draft_body (d: (s32[], s32[])) -> (s32[], s32[]) {{
  %d = (s32[], s32[]) parameter(0)
  %d0 = s32[] get-tuple-element(%d), index=0
  %drafted = s32[] add(%d0, %d0){costs(7, "propose/while/body")}
  ROOT %d1 = (s32[], s32[]) tuple(%drafted, %d0)
}}

%draft_goes_on (e: (s32[], s32[])) -> pred[] {{
  %e = (s32[], s32[]) parameter(0)
  %e0 = s32[] get-tuple-element(%e), index=0
  %e1 = s32[] get-tuple-element(%e), index=1
  ROOT %less = pred[] compare(%e0, %e1), direction=LT
}}

%search_body (f: (s32[])) -> (s32[]) {{
  %f = (s32[]) parameter(0)
  %f0 = s32[] get-tuple-element(%f), index=0
  %found = s32[] add(%f0, %f0){costs(2)}
  ROOT %f1 = (s32[]) tuple(%found)
}}

%search_goes_on (g: (s32[])) -> pred[] {{
  %g = (s32[]) parameter(0)
  %g0 = s32[] get-tuple-element(%g), index=0
  %end = s32[] constant(31)
  ROOT %lesser = pred[] compare(%g0, %end), direction=LT
}}

%plain (h: (s32[])) -> (s32[]) {{
  %h = (s32[]) parameter(0)
  ROOT %searched = (s32[]) while(%h), condition=%search_goes_on, body=%search_body
}}

%filtered (k: (s32[])) -> (s32[]) {{
  %k = (s32[]) parameter(0)
  %k0 = s32[] get-tuple-element(%k), index=0
  %sorted = s32[] add(%k0, %k0){costs(1000)}
  ROOT %k1 = (s32[]) tuple(%sorted)
}}

%body (state: (s32[], {BIG})) -> (s32[], {BIG}) {{
  %state = (s32[], {BIG}{{1,0}}) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  %x = {BIG}{{1,0}} get-tuple-element(%state), index=1
  %first = s32[] add(%i, %i){costs(11, "propose")}
  %pair = (s32[], s32[]) tuple(%first, %i)
  %drafts = (s32[], s32[]) while(%pair), condition=%draft_goes_on, body=%draft_body, metadata={{op_name="jit(run)/while/body/propose/while"}}
  %fetch = ({BIG}{{1,0:S(1)}}, {BIG}{{1,0}}, u32[]{{:S(2)}}) copy-start(%x)
  %near = {BIG}{{1,0:S(1)}} copy-done(%fetch)
  %moved = ({BIG}{{1,0}}, {BIG}{{1,0}}, u32[]{{:S(2)}}) copy-start(%x)
  %moved.1 = {BIG}{{1,0}} copy-done(%moved)
  %anew = {BIG}{{0,1:S(1)}} copy(%near){costs(100)}
  %fused = {BIG}{{0,1}} fusion(%x), kind=kLoop, calls=%relaid{costs(50)}
  %sum = {BIG}{{1,0}} fusion(%x), kind=kLoop, calls=%added{costs(40)}
  %one = (s32[]) tuple(%i)
  %chosen = (s32[]) conditional(%i, %one, %one), branch_computations={{%plain, %filtered}}
  ROOT %next = (s32[], {BIG}{{1,0}}) tuple(%i, %sum)
}}

%goes_on (state.1: (s32[], {BIG})) -> pred[] {{
  %state.1 = (s32[], {BIG}{{1,0}}) parameter(0)
  %i.1 = s32[] get-tuple-element(%state.1), index=0
  ROOT %any = pred[] compare(%i.1, %i.1), direction=NE
}}

ENTRY %main (p: s32[], y: {BIG}) -> (s32[], {BIG}) {{
  %p = s32[] parameter(0)
  %y = {BIG}{{1,0}} parameter(1)
  %entering = {BIG}{{0,1}} copy(%y){costs(500)}
  %begun = (s32[], {BIG}{{1,0}}) tuple(%p, %y)
  ROOT %done = (s32[], {BIG}{{1,0}}) while(%begun), condition=%goes_on, body=%body
}}
"""  # noqa: E501


@pytest.fixture(scope="module")
def program():
    return Program.parse(TEXT)


def test_a_loop_is_told_apart_by_what_drafts_and_what_does_not(program):
    """Of 31 trips; of the branch that no filter takes; copies but for the fetch."""
    steps = step_estimates("loop", program, CHIP)
    assert [(one.step, one.large_copies, one.loops) for one in steps] == [
        ("first draft step", 0, ()),
        ("draft step", 0, ()),
        ("verify step", 3, (31,)),
    ]
    expected = [0.011, 0.007, 0.001 * (100 + 50 + 40 + 31 * 2)]
    assert [one.milliseconds for one in steps] == pytest.approx(expected)


def test_a_baseline_is_all_one_step_and_a_beginning_is_its_entry(program):
    (target,) = step_estimates("baseline loop", program, CHIP)
    assert target.milliseconds == pytest.approx(0.001 * (11 + 100 + 50 + 40 + 62))
    (begin,) = step_estimates("begin", program, CHIP)
    assert (begin.step, begin.large_copies) == ("begin", 1)


def test_what_enters_the_loop_is_copied_too(program):
    copied = [i.name for i in program.copies(2**20)]
    assert sorted(copied) == ["anew", "entering", "fused", "moved"]
