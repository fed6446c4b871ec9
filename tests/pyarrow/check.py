"""What pyarrow writes is read by this crate, and what it writes of that is read by pyarrow; the same with Polars where it knows the types.

    tests/pyarrow/run [SEED [TABLES]]

Each table is written in one of pyarrow's ways, or by Polars, rewritten by examples/rewrite.rs in one of this crate's, and read again: it has to be what it was.
A table of Alkaid's is given Arrow's magic first, which is all that tells the two apart for data without extension types. The other parts are about what changes
between the batches of a file (dictionaries), what stands beside the data (metadata), and what the SQL shell finds in it (frames of Polars, predicates).
"""

import collections
import pathlib
import random
import sys
import tempfile

# The folder is the source's, not ours to write to.
sys.dont_write_bytecode = True

import polars
import pyarrow as pa

import dictionaries
import every_type
import extensions
import frames
import predicates
from files import Tools

# What is checked, how many of 100 tables there are of it, and what has to be among them, lest nothing is checked.
PARTS = [
    (every_type, 100, ["written by Polars", "compressed files read by Polars", "compressed streams read by Polars"]),
    (dictionaries, 50, ["added to in streams", "added to in files", "replaced", "unified"]),
    (extensions, 50, ["with keys of Alkaid", "with metadata of messages"]),
    (frames, 30, ["in Parquet", "not compressed", "compressed"]),
    (predicates, 10, ["predicates", "batches that bounds drop", "rows found"]),
]


def random_of(part, seed, number):
    # Tables that are known by their number stay what they are.
    return random.Random(seed * 1_000_003 + number if part is every_type else f"{part.__name__} {seed} {number}")


def run(part, seed, tables, tools):
    """What has been seen in so many tables."""
    seen = collections.Counter()
    for number in range(tables):
        try:
            seen.update({what: int(count) for what, count in part.check(random_of(part, seed, number), tools).items()})
        except SystemExit as failure:
            sys.exit(f"{part.__name__}, table {number} of seed {seed}: {failure}")
    return seen


def main():
    rewrite = pathlib.Path(sys.argv[1]).resolve()
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    tables = int(sys.argv[3]) if len(sys.argv) > 3 else 400
    with tempfile.TemporaryDirectory() as scratch:
        tools = Tools(rewrite, rewrite.parent.parent / "fermion", pathlib.Path(scratch))
        for part, share, needed in PARTS:
            count = max(1, tables * share // 100)
            seen = run(part, seed, count, tools)
            missing = [what for what in needed if not seen[what]]
            if missing:
                sys.exit(f"{part.__name__}: of {count} tables none was {' or '.join(missing)}")
            print(f"{part.__name__}: {count} tables; " + ", ".join(f"{seen[what]} {what}" for what in seen))
    print(f"the same in pyarrow {pa.__version__}, Polars {polars.__version__} and here")


main()
