"""Tables in a store, whichever it is: written, read, inserted into and replaced by the command line, with the rows of the same table as Parquet on this machine."""

import os
import pathlib
import subprocess
import sys
import tempfile

ROWS = 200_000
SOURCE = f"""
SELECT value AS id, value % 1000 AS key, concat('customer ', value * 7919 % 25000) AS name, value * 2654435761 % 4294967296 AS noise,
       encode(sha256(CAST(value AS VARCHAR)), 'hex') AS hash,
       CASE WHEN value % 11 = 0 THEN NULL ELSE value / 8.0 END AS price, named_struct('x', value % 10, 'y', concat('y', value % 100)) AS pair, [value % 3, value % 5] AS list
FROM generate_series(1, {ROWS})
"""

# What is asked of every table `t`.
QUERIES = [
    "SELECT count(*), sum(id), min(name), max(noise), count(price) FROM t",
    "SELECT bit_xor(key) FROM t",
    "SELECT * FROM t WHERE id = 123456",
    "SELECT id, name, noise FROM t WHERE noise < 100000 ORDER BY id",
    # The hashes take more than a round to the store, so the filter's column is fetched first where stripes are fetched together.
    "SELECT min(hash), max(hash), count(*) FROM t WHERE noise BETWEEN 5000000 AND 6000000",
    "SELECT key, count(*), sum(price) FROM t WHERE key < 5 GROUP BY key ORDER BY key",
    "SELECT id, pair['x'], list FROM t WHERE pair['y'] = 'y42' AND key = 742 ORDER BY id LIMIT 20",
    "SELECT name, noise FROM t ORDER BY noise DESC LIMIT 7",
    "SELECT count(*) FROM t a JOIN t b ON a.id = b.noise WHERE b.key = 3",
    "SELECT sum(array_length(list)) FROM t WHERE id BETWEEN 99990 AND 100010",
]

# How a table is stored, and its options: stripes of 50,000 rows, and files that are sent in several parts.
STORED = {
    "fermion": "STORED AS FERMION OPTIONS ('fermion.stripe_rows' '50000', 'fermion.page_rows' '5000', 'fermion.bloom_filter_columns' 'id')",
    "alkaid": "STORED AS ALKAID OPTIONS ('alkaid.batch_rows' '20000')",
    "arrows": "STORED AS ARROWS OPTIONS ('alkaid.batch_rows' '20000')",
}
# How it is read: as ever, a stripe at a time, a request at a time, and with metadata that does not come with the end of the file.
READING = {
    "fermion": [
        "",
        "SET fermion.ahead_bytes = 0;",
        "SET fermion.requests_in_flight = 1; SET fermion.request_bytes = 0; SET fermion.coalesce_gap = 0;",
        "SET fermion.metadata_size_hint = 100; SET fermion.eager_load_threshold = 0;",
        "SET fermion.pushdown_filters = false;",
    ],
    "alkaid": ["", "SET alkaid.requests_in_flight = 1; SET alkaid.request_bytes = 1000; SET alkaid.coalesce_gap = 0;"],
    "arrows": [""],
}


class Shell:
    """Runs SQL with the command line."""

    def __init__(self, environment):
        self.program = sys.argv[1]
        self.environment = {**os.environ, **environment}

    def attempt(self, sql):
        command = [self.program, "-q", "--format", "nd-json", "-c", sql]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=600)

    def __call__(self, sql):
        done = self.attempt(sql)
        if done.returncode != 0:
            sys.exit(f"{sql}\nfailed: {done.stderr}")
        return done.stdout


def queries(shell, create, setting=""):
    """The answers to all queries, by one session."""
    return shell(f"{setting} {create}; " + "; ".join(QUERIES))


def same(what, found, expected):
    if found != expected or not expected.strip():
        sys.exit(f"{what}: found\n{found}\nexpected\n{expected}")


def check(shell, root):
    """All that can be done below a URL."""
    with tempfile.TemporaryDirectory() as folder:
        tables(shell, root, pathlib.Path(folder))
    replaced(shell, root)
    print(f"{len(STORED)} formats, {len(QUERIES)} queries: the same rows from {root} as from Parquet here")


def tables(shell, root, folder):
    parquet = folder / "t.parquet"
    shell(f"COPY ({SOURCE}) TO '{parquet}' STORED AS PARQUET")
    expected = queries(shell, f"CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{parquet}'")
    for name, options in STORED.items():
        place = f"{root}/{name}/one.{name}"
        shell(f"COPY (SELECT * FROM '{parquet}' ORDER BY id) TO '{place}' {options}")
        for setting in READING[name]:
            same(f"{name}, {setting}", queries(shell, f"CREATE EXTERNAL TABLE t STORED AS {name} LOCATION '{place}'", setting), expected)
        # A folder with a level of folders, one file after the other, and rows that come later.
        parts = f"{root}/{name}-parts/"
        shell(f"COPY (SELECT *, id % 3 AS part FROM '{parquet}' WHERE id <= 150000) TO '{parts}' STORED AS {name} PARTITIONED BY (part)")
        create = f"CREATE EXTERNAL TABLE t STORED AS {name} PARTITIONED BY (part) LOCATION '{parts}'"
        shell(f"{create}; INSERT INTO t SELECT *, id % 3 FROM '{parquet}' WHERE id > 150000")
        same(f"{name} in parts", queries(shell, f"{create.replace('TABLE t', 'TABLE p')}; CREATE VIEW t AS SELECT id, key, name, noise, hash, price, pair, list FROM p"), expected)
        same("of a part", shell(f"{create}; SELECT count(*) FROM t WHERE part = '1'"), f'{{"count(*)":{len(range(1, ROWS + 1, 3))}}}\n')


def replaced(shell, root):
    """What is put in the place of a file is read as what it is."""
    place = f"{root}/again.fermion"
    for rows in [10, 1000]:
        shell(f"COPY (SELECT value FROM generate_series(1, {rows})) TO '{place}' STORED AS FERMION")
        same("replaced", shell(f"SELECT count(value) AS count, sum(abs(value)) AS sum FROM '{place}'"), f'{{"count":{rows},"sum":{rows * (rows + 1) // 2}}}\n')
    # Within a session, which keeps metadata and what it has listed: what was there at first, and then what is there now, or an error that says it.
    again = f"CREATE EXTERNAL TABLE t STORED AS FERMION LOCATION '{place}'; SELECT sum(abs(value)) AS sum FROM t; COPY (SELECT value FROM generate_series(1, 2000)) TO '{place}'; "
    done = shell.attempt(f"{again} SELECT sum(abs(value)) AS sum FROM t; SELECT sum(abs(value)) AS sum FROM t")
    sums = [line for line in done.stdout.splitlines() if "sum" in line]
    now = ['{"sum":500500}', '{"sum":2001000}', '{"sum":2001000}']
    if sums != now and not (sums == now[:1] and "was replaced" in done.stderr):
        sys.exit(f"replaced in a session: {done}")


def missing(shell, root, names):
    """What is gone or cut off is an error that says which."""
    for name in names:
        failed = shell.attempt(f"SELECT * FROM '{root}/{name}.fermion'")
        if failed.returncode == 0 or f"{name}.fermion" not in failed.stderr:
            sys.exit(f"{name}: {failed}")
