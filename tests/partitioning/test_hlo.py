"""A program's text is read for what it moves, reads and copies."""

import pytest

from specdec_jax.partitioning.hlo import Program, count

# A loop whose step looks a row up, multiplies with a weight that it fetches first, sums
# over devices, and writes into a cache in place; before it a weight is laid out anew.
TEXT = """\
HloModule jit_run, is_scheduled=true

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%written (p0: bf16[8,64], p1: bf16[1,64], p2: s32[]) -> bf16[8,64] {
  %p0 = bf16[8,64]{1,0:T(8,128)(2,1)} parameter(0)
  %p1 = bf16[1,64]{1,0} parameter(1)
  %p2 = s32[] parameter(2)
  ROOT %update = bf16[8,64]{1,0} dynamic-update-slice(%p0, %p1, %p2, %p2)
}

%looked_up (p0.1: bf16[100,64], p1.1: s32[]) -> bf16[1,64] {
  %p0.1 = bf16[100,64]{1,0} parameter(0)
  %p1.1 = s32[] parameter(1)
  %same = bf16[100,64]{1,0} bitcast(%p0.1)
  ROOT %row = bf16[1,64]{1,0} dynamic-slice(%same, %p1.1, %p1.1), dynamic_slice_sizes={1,64}
}

%body (state: (s32[], bf16[100,64], bf16[64,64], bf16[8,64])) -> (s32[], bf16[100,64], bf16[64,64], bf16[8,64]) {
  %state = (s32[], bf16[100,64]{1,0}, bf16[64,64]{1,0:T(8,128)(2,1)}, /*index=3*/bf16[8,64]{1,0}) parameter(0)
  %i = s32[]{:S(6)} get-tuple-element(%state), index=0
  %table = bf16[100,64]{1,0} get-tuple-element(%state), index=1
  %weight = bf16[64,64]{1,0:T(8,128)(2,1)} get-tuple-element(%state), index=2
  %cache = bf16[8,64]{1,0} get-tuple-element(%state), index=3
  %x = bf16[1,64]{1,0:S(1)} fusion(%table, %i), kind=kLoop, calls=%looked_up
  %fetch = (bf16[64,64]{1,0:T(8,128)(2,1)S(1)}, bf16[64,64]{1,0:T(8,128)(2,1)}, u32[]{:S(2)}) copy-start(%weight)
  %near = bf16[64,64]{1,0:T(8,128)(2,1)S(1)} copy-done(%fetch)
  %part = ((bf16[64,64]{1,0}), bf16[16,64]{1,0:S(1)}, u32[]{:S(2)}) slice-start(%weight), slice={[0:16], [0:64]}
  %y = f32[1,64]{1,0:S(1)} dot(%x, %near), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %whole = f32[1,64]{1,0} all-reduce(%y), replica_groups={{0,1}}, to_apply=%add
  %out = bf16[1,64]{1,0} convert(%whole)
  %new = bf16[8,64]{1,0} fusion(%cache, %out, %i), kind=kLoop, calls=%written
  ROOT %next = (s32[], bf16[100,64]{1,0}, bf16[64,64]{1,0}, bf16[8,64]{1,0}) tuple(%i, %table, %weight, %new)
}

%goes_on (state.1: (s32[], bf16[100,64], bf16[64,64], bf16[8,64])) -> pred[] {
  %state.1 = (s32[], bf16[100,64]{1,0}, bf16[64,64]{1,0}, bf16[8,64]{1,0}) parameter(0)
  %i.1 = s32[] get-tuple-element(%state.1), index=0
  ROOT %less = pred[] compare(%i.1, %i.1), direction=LT
}

ENTRY %main (p: s32[], t: bf16[100,64], w: bf16[64,64], c: bf16[8,64]) -> (s32[], bf16[100,64], bf16[64,64], bf16[8,64]) {
  %p = s32[]{:S(6)} parameter(0)
  %t = bf16[100,64]{1,0} parameter(1)
  %w = bf16[64,64]{0,1} parameter(2)
  %c = bf16[8,64]{1,0} parameter(3)
  %anew = bf16[64,64]{1,0} copy(%w)
  %gathered = (f32[1,64]{1,0}, f32[2,64]{1,0}) all-gather-start(%p), dimensions={0}
  %gathered.1 = f32[2,64]{1,0} all-gather-done(%gathered)
  %begin = (s32[], bf16[100,64]{1,0}, bf16[64,64]{1,0}, bf16[8,64]{1,0}) tuple(%p, %t, %anew, %c)
  ROOT %end = (s32[], bf16[100,64]{1,0}, bf16[64,64]{1,0}, bf16[8,64]{1,0}) while(%begin), condition=%goes_on, body=%body
}
"""  # noqa: E501


@pytest.fixture
def program():
    return Program.parse(TEXT)


def test_collectives_are_told_by_where_they_run(program):
    assert count(program.collectives()) == {"all-reduce": 1, "all-gather": 1}
    (inside,) = program.collectives(program.loop_body)
    assert (inside.opcode, inside.arrays) == ("all-reduce", [("f32", (1, 64))])
    assert inside.num_bytes == 4 * 64
    outside = set(program.collectives()) - {inside}
    assert [i.num_bytes for i in outside] == [4 * 2 * 64]  # the result alone


def test_a_copy_counts_if_it_is_of_a_weight_and_not_fetched_as_it_lies(program):
    assert [i.name for i in program.copies(2 * 64 * 64)] == ["anew"]
    assert program.copies(2 * 64 * 64 + 1) == []


def test_what_is_read_is_counted_once_and_only_from_main_memory(program):
    row, weight, update = 2 * 64, 2 * 64 * 64, 2 * 64
    sum_of_devices, fetched_part, convert = 0, 2 * 16 * 64, 4 * 64
    compared = 4 * 2
    expected = weight + row + weight + fetched_part + sum_of_devices + convert + update
    assert program.bytes_read() == expected + compared


def test_only_the_outermost_loop_counts_as_the_loop(program):
    assert program.loop_body == {"body", "goes_on", "looked_up", "written", "add"}
    assert program.scheduled == {"main", "body", "goes_on"}
