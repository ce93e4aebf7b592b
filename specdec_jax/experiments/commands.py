"""The commands that make the records which the report reads."""

REPRODUCE = "python scripts/reproduce.py --what=all"
BENCHMARK = (
    "python scripts/benchmark.py --gin_file=configs/runs/demo_ende.gin "
    "--out=records/demo_ende.jsonl"
)
LENIENCE = (
    "python scripts/benchmark.py --gin_file=configs/runs/demo_ende.gin "
    '--gin.BenchmarkConfig.leniences="(1.0, 0.5, 0.3, 0.1)" '
    '--gin.BenchmarkConfig.gammas="(5,)" --out=records/lenience.jsonl'
)
PAPER_ROW = (  # a benchmark of one of the paper's rows of Table 2
    "python scripts/benchmark.py --gin_file=configs/runs/RUN.gin "
    "--gin.TARGET_CHECKPOINT=FOLDER --gin.DRAFTER_CHECKPOINT=FOLDER "
    "--gin.VOCABULARY=FILE --out=records/RUN.jsonl"
)
ALPHA = (
    "python scripts/measure_alpha.py "
    "--gin_file=configs/runs/demo_ende.gin --out=records/alpha.jsonl"
)
ROOFLINE = (
    "python scripts/compile_ahead.py --gin_file=configs/runs/RUN.gin "
    "--topology=v4 --chips=1 --out=records/v4_1"
)
SCORES = (
    "python scripts/decode.py --gin_file=configs/runs/tsv.gin "
    "--gin.TSV=FILE.tsv --gin.VOCABULARY=FILE --gin.TEMPERATURE=T "
    "--gin.DecodeSettings.lenience=L --out=records/lenience_L.jsonl"
)
PEERS = (
    "python scripts/benchmark_peers.py "
    "--gin_file=configs/runs/demo_ende.gin --out=records/peers.jsonl"
)
