"""Measures other implementations beside ours, on the same weights and prompts.

python scripts/benchmark_peers.py --gin_file=configs/runs/demo_ende.gin --out=FILE.jsonl

Peers that FILE has measured are not measured again. T5X and transformers take part
where they are installed: pip install -e '.[peers]', pip install -e '.[t5x]'.
"""

from absl import flags
from rich.console import Console

from specdec_jax import DecodeSettings, SettingsError, load_pair
from specdec_jax.cli import gin_bindings, measure_flags
from specdec_jax.cli.program import run_program
from specdec_jax.experiments.peers.catalogue import PEERS
from specdec_jax.experiments.peers.comparison import peers_of_pair
from specdec_jax.experiments.peers.rounds import PeersConfig
from specdec_jax.experiments.peers.summary import line, summary

flags.adopt_module_key_flags(measure_flags)
_PEERS = flags.DEFINE_list("peers", list(PEERS), "which, by name.")
_REPEATS = flags.DEFINE_integer("repeats", 3, "rounds over all inputs.")
_SEED = flags.DEFINE_integer("seed", 0, "of the draws.")
_THREADS = flags.DEFINE_integer("threads", None, "cores of each peer.")
_PYTHON = flags.DEFINE_multi_string(
    "python", [], "PEER=PATH: a peer's own interpreter, which has our needs too."
)


def _pythons():
    pairs = [one.partition("=") for one in _PYTHON.value]
    for peer, _, path in pairs:
        if peer not in PEERS or not path:
            raise SettingsError(f"--python={peer}: write --python=PEER=PATH")
    return {peer: path for peer, _, path in pairs}


def main(_):
    gin_bindings.parse("configs/runs/demo_ende.gin")
    gin_bindings.require_use(load_pair, DecodeSettings, *measure_flags.used())
    settings = gin_bindings.configured(DecodeSettings)()
    config = PeersConfig.from_settings(
        settings,
        peers=_PEERS.value,
        repeats=_REPEATS.value,
        seed=_SEED.value,
        threads=_THREADS.value,
    )
    records, console = measure_flags.records(), Console()
    pair = gin_bindings.configured(load_pair)()
    made = peers_of_pair(pair, measure_flags.inputs(pair), config, _pythons(), records)
    for record in made:
        gin_bindings.save_operative_config(records.path)
        console.print(line(record), highlight=False, markup=False, soft_wrap=True)
    console.print(summary(list(records), config.temperature))


if __name__ == "__main__":
    run_program(main)
