"""The harness, with peers that are small callables."""

import dataclasses
import io
import json

import pytest
from rich.console import Console

import specdec_jax as sd
from specdec_jax.errors import DataError, SettingsError
from specdec_jax.experiments.kinds import AbsentPeer, MeasuredPeer
from specdec_jax.experiments.peers import rounds
from specdec_jax.experiments.peers.rounds import PeersConfig, compare_peers
from specdec_jax.experiments.peers.summary import line, summary
from specdec_jax.experiments.record_file import RecordFile
from tests.experiments.peers.fake_peers import FakeStart, doubled

ABOUT = {"pair": "a_pair", "dtype": "float32", "weights": "a"}
INPUTS = [[5, 6, 1], [7, 1]]
PEERS = ("baseline", "speculative", "t5x", "transformers")
CONFIG = PeersConfig(peers=PEERS, repeats=2, max_new_tokens=9)
ALL = {
    "baseline": {},
    "speculative": {"seconds_per_token": 0.2, "tokens_per_target_call": 3},
    "t5x": {"seconds_per_token": 1.0},
    "transformers": {"seconds_per_token": 2.0},
}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(rounds, "SETTLE_SECONDS", 0.0)


def compared(start, config=CONFIG, records=None):
    made = compare_peers(ABOUT, INPUTS, config, start, records)
    return {record.peer: record for record in made}


def printed(records, temperature=0.0):
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(summary(records, temperature))
    return console.export_text()


def test_speeds_calls_and_memory_are_those_of_the_peers():
    records = compared(FakeStart(**ALL))
    assert list(records) == list(PEERS)
    speeds = {name: r.tokens_per_second for name, r in records.items()}
    assert speeds == pytest.approx(
        {"baseline": 2, "speculative": 5, "t5x": 1, "transformers": 0.5}
    )
    over = {name: r.over_baseline for name, r in records.items()}
    assert over == pytest.approx(
        {"baseline": 1, "speculative": 2.5, "t5x": 0.5, "transformers": 0.25}
    )
    # 7 and 5 tokens in each of two rounds; 3 and 2 target calls.
    assert records["speculative"].tokens == 24
    assert records["speculative"].target_calls == 10
    assert records["speculative"].tokens_per_target_call == 2.4
    for name, record in records.items():
        assert json.loads(json.dumps(record.to_json(), allow_nan=False))
        assert isinstance(record, MeasuredPeer)
        assert record.memory == {"peak_mb": 130.0, "imports_mb": 100.0}
        assert record.peer_versions == {name: "1.2"}
        assert record.peer_settings == {"threads": 2}
        assert record.inputs == 2
        agreement = {"equal": 2, "prompts": 2, "differences": []}
        assert record.agreement == agreement


def test_peers_take_turns_and_the_first_round_warms_up(monkeypatch):
    """Turns of two prompts each, and one that does not count before them."""
    monkeypatch.setattr(rounds, "TURN", 2)
    inputs = [[5, 6, 1], [7, 1], [8, 1]]
    start = FakeStart(**ALL)
    made = compare_peers(ABOUT, inputs, CONFIG, start)
    records = {record.peer: record for record in made}
    # 7, 5 and 5 tokens in each of two rounds; no more are counted than are asked for.
    assert records["baseline"].tokens == 34
    turns = [entry for entry in start.log if entry[1] != "asked for"]
    one_round = [
        (name, inputs[i], seed)
        for turn in ([0, 0, 1], [2, 2])
        for name in PEERS
        for i, seed in zip(turn, turn, strict=True)
    ]
    decodes = [e for e in turns if isinstance(e[1], tuple)]
    assert decodes == [
        (name, tuple(tokens), 3 * round_ + seed)
        for round_ in range(3)
        for name, tokens, seed in one_round
    ]
    warmed = [turns.index((name, "warmed up")) for name in PEERS]
    assert warmed == list(range(len(one_round), len(one_round) + len(PEERS)))
    assert [e for e in turns if e[1] == "closed"] != []


def test_records_of_other_sentences_are_refused(tmp_path):
    file = RecordFile(tmp_path / "peers.jsonl")
    config = PeersConfig(peers=("speculative",), repeats=1)
    start = FakeStart(**ALL)
    list(compare_peers(ABOUT, INPUTS, config, start, file))
    with pytest.raises(DataError, match="peers.jsonl:1 has inputs_sha256"):
        list(compare_peers(ABOUT, INPUTS[::-1], config, start, file))


def test_an_absent_peer_is_named_with_what_installs_it():
    start = FakeStart(baseline={}, speculative={})
    records = compared(start)
    assert records["t5x"].absent == "No module named 't5x'"
    assert records["t5x"].install == "pip install t5x"
    assert isinstance(records["t5x"], AbsentPeer)
    assert isinstance(records["speculative"], MeasuredPeer)
    for text in (line(records["t5x"]), printed(records.values())):
        assert "T5X" in text and "absent" in text
        assert "No module named 't5x': pip install t5x" in text


def test_other_tokens_are_reported_with_their_place():
    def other(tokens, seed):
        output = doubled(tokens, seed)
        if tokens == INPUTS[1]:
            output[2] = 4
        return output

    start = FakeStart(**ALL | {"t5x": {"output": other}})
    records = compared(start)
    assert records["transformers"].agreement["equal"] == 2
    assert records["t5x"].agreement == {
        "equal": 1,
        "prompts": 2,
        "differences": [{"prompt": 1, "place": 2, "expected": 7, "found": 4}],
    }
    assert "1 of 2 (prompt 1 differs at token 2)" in line(records["t5x"])
    assert "T5X, temperature_sample: not the baseline's tokens" in printed(
        records.values()
    )


def test_samples_are_not_compared():
    config = dataclasses.replace(CONFIG, temperature=1.0)
    start = FakeStart(**ALL | {"t5x": {"output": lambda tokens, seed: [seed + 2, 1]}})
    records = compared(start, config)
    assert all(record.agreement is None for record in records.values())
    assert "not the baseline's" not in printed(records.values(), 1.0)


def test_what_is_on_record_is_not_measured_again(tmp_path):
    file = RecordFile(tmp_path / "peers.jsonl")
    compared(FakeStart(baseline={}, speculative={}, transformers={}), records=file)
    assert len(list(file)) == 4

    # What was absent is looked for again; if it still is, that is told once.
    again = FakeStart(baseline={}, speculative={}, transformers={})
    assert list(compared(again, records=file)) == ["t5x"]
    assert len(list(file)) == 4
    assert again.asked_for() == ["baseline", "t5x"]

    # Once it is there, it is measured beside the baseline, and the table has it.
    now = FakeStart(**ALL)
    records = compared(now, records=file)
    assert list(records) == ["t5x"]
    assert records["t5x"].over_baseline == pytest.approx(0.5)
    assert len(list(file)) == 5
    text = printed(list(file))
    assert "absent" not in text and "2 of 2" not in text

    # Nothing is opened if nothing is left; another temperature is another matter.
    assert compared(FakeStart(), records=file) == {}
    warm = dataclasses.replace(CONFIG, temperature=1.0, peers=("baseline",))
    assert list(compared(FakeStart(**ALL), warm, file)) == ["baseline"]


def test_other_runs_records_are_refused(tmp_path):
    file = RecordFile(tmp_path / "peers.jsonl")
    compared(FakeStart(**ALL), records=file)
    other = dataclasses.replace(CONFIG, gamma=7)
    with pytest.raises(DataError, match="peers.jsonl:1 has config"):
        compared(FakeStart(**ALL), other, file)


def test_peers_are_closed_when_one_breaks_down():
    def broken(tokens, seed):
        raise RuntimeError("out of memory")

    start = FakeStart(**ALL | {"transformers": {"output": broken}})
    with pytest.raises(RuntimeError, match="out of memory"):
        compared(start)
    closed = {entry[0] for entry in start.log if entry[1] == "closed"}
    assert closed == set(PEERS)


@pytest.mark.parametrize(
    "change",
    [{"peers": ("vllm",)}, {"gamma": 0}, {"repeats": 0}, {"threads": 0}]
    + [{"temperature": -1.0}, {"max_new_tokens": 0}, {"gamma": 2.5}, {"seed": -1}]
    + [{"peers": ("t5x", "t5x")}, {"peers": ()}, {"peers": "t5x"}],
)
def test_settings_out_of_range_are_refused(change):
    with pytest.raises(SettingsError, match=next(iter(change)).rstrip("s")):
        PeersConfig(**change)


def test_settings_that_not_all_peers_have_are_refused():
    config = PeersConfig.from_settings(
        sd.DecodeSettings(gamma=3, temperature=1.0, max_new_tokens=5), repeats=1
    )
    assert config == PeersConfig(gamma=3, temperature=1.0, max_new_tokens=5, repeats=1)
    for change in ({"top_k": 3}, {"top_p": 0.9}, {"lenience": 0.5}):
        with pytest.raises(SettingsError, match=next(iter(change))):
            PeersConfig.from_settings(sd.DecodeSettings(**change))
    with pytest.raises(SettingsError, match="gamma"):
        PeersConfig.from_settings(sd.DecodeSettings(gamma=(1, 2)))
