import pytest

from specdec_jax.experiments.record_set import RecordSet
from specdec_jax.experiments.trace import timeline
from specdec_jax.experiments.trace.timeline import Part
from tests.experiments import found_records as records


def told(spans):
    return [(span.part, span.start, span.width) for span in spans]


def test_a_timeline_is_encode_then_drafts_and_a_verify_pass_a_step():
    spans = timeline.timeline([2], 0.5, 1.2, (3.0, 4.0))
    assert told(spans) == [
        (Part.ENCODE_TARGET, 0, 3.0),
        (Part.ENCODE_DRAFTER, 3.0, 1.0),
        (Part.DRAFT, 4.0, 0.5),
        (Part.DRAFT, 4.5, 0.5),
        (Part.TARGET, 5.0, 1.2),
    ]
    assert timeline.length(spans) == pytest.approx(6.2)


def test_a_target_call_without_draft_tokens_is_a_verify_pass_alone():
    spans = timeline.timeline([0, 1], 0.5, 1.2, (0.0, 0.0))
    assert [span.part for span in spans[2:]] == [Part.TARGET, Part.DRAFT, Part.TARGET]
    assert timeline.length(spans) == pytest.approx(1.2 + 0.5 + 1.2)


def test_the_baselines_is_a_target_run_a_token():
    spans = timeline.baseline_timeline(3, 2.0)
    assert told(spans) == [
        (Part.ENCODE_TARGET, 0, 2.0),
        *((Part.TARGET, 2.0 + i, 1.0) for i in range(3)),
    ]


def test_drawn_target_calls_give_their_tokens():
    assert timeline.drawn_target_calls(1.0, 3, 24) == 6
    assert timeline.drawn_target_calls(0.0, 3, 24) == 24
    # E[tokens a run] of Equation 1 at alpha .8, gamma 3 is 2.952.
    assert 10_000 / timeline.drawn_target_calls(0.8, 3, 10_000) == pytest.approx(
        2.95, abs=0.05
    )


def test_a_trace_takes_its_times_from_its_pairs_record(tmp_path):
    path = records.write(
        tmp_path / "a.jsonl",
        records.benchmark(temperature=1.0, c=0.5),
        records.benchmark(gamma=3),
        records.benchmark(pair="other"),
        records.benchmark(),
    )
    found = RecordSet.read([path])
    trace = records.trace(temperature=0.0)
    costs = timeline.costs_of(found, trace)
    assert costs == records.benchmark()
    spans = timeline.trace_timeline(trace, costs)
    assert timeline.length(spans) == pytest.approx(4.0 + 2 * (2 * 0.1 + 1.2))
    elsewhere = records.trace(temperature=0.5)
    assert timeline.costs_of(found, elsewhere) is None


def test_what_a_record_does_not_tell_is_not_made_up():
    record = records.benchmark(fixed_costs=None)
    assert timeline.once(record) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("recorded", "wanted", "nearest"),
    [
        ((1, 3, 7), (7, 3), [7, 3]),
        ((1, 2, 3, 5, 6, 8), (7, 3), [8, 3]),  # as near: the larger
        ((4,), (7, 3), [4]),
        ((), (7, 3), []),
    ],
)
def test_the_nearest_gammas_that_were_measured(tmp_path, recorded, wanted, nearest):
    path = records.write(
        tmp_path / "a.jsonl",
        *(records.benchmark(gamma=gamma) for gamma in recorded),
        records.benchmark(gamma=9, temperature=1.0),
        records.benchmark(gamma=9, pair="other"),
    )
    found = RecordSet.read([path])
    assert timeline.measured_gammas(found, "a_pair", wanted) == nearest
