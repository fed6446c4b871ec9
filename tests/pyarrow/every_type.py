"""Random tables of every type: written by pyarrow or Polars, rewritten, and read by both."""

import sys

import polars
import pyarrow as pa

import polars_ipc
from arrays import array
from files import arrow_bytes, random_words, read, rewrite, write


def check(rng, tools):
    batch = table(rng)
    source, target = tools.scratch / "source", tools.scratch / "target"
    in_polars = all(polars_ipc.knows(field.type) for field in batch.schema)
    by_polars = in_polars and rng.random() < 0.5
    written = polars_ipc.write(rng, source, polars.from_arrow(batch, rechunk=rng.random() < 0.5)) if by_polars else write(rng, source, batch)
    words = random_words(rng)
    said = f"{batch.schema}\n{batch.num_rows} rows, written as {written}, rewritten with {words}"
    rewrite(tools, source, target, words, said)
    theirs, ours = read(source), read(target)
    ours.validate(full=True)
    if not theirs.equals(ours, check_metadata=True):
        sys.exit(f"{said}\nis not the same:\n{theirs}\n{ours}")
    is_compressed = not {"lz4", "zstd"}.isdisjoint(words)
    by_both = in_polars and not (is_compressed and polars_ipc.stumbles(arrow_bytes(target), ours))
    if by_both:
        polars_agrees(arrow_bytes(target), said, ours)
    form = "streams" if "stream" in words else "files"
    return {"written by Polars": by_polars, f"{form} read by Polars": by_both, f"compressed {form} read by Polars": by_both and is_compressed}


def table(rng):
    rows = rng.choice([0, 1, 7, 64, 300])
    for_polars = rng.random() < 0.3
    columns = []
    for _ in range(rng.randint(1, 6)):
        column = array(rng, rows, 2)
        while for_polars and not polars_ipc.knows(column.type):
            column = array(rng, rows, 2)
        columns.append(column)
    names = [f"c{index}" for index in range(len(columns))]
    fields = [pa.field(name, column.type, metadata={"of": name} if rng.random() < 0.3 else None) for name, column in zip(names, columns)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata={"seed": "x"} if rng.random() < 0.5 else None))


def polars_agrees(data, said, ours):
    frame, expected = polars_ipc.read(data), polars.from_arrow(ours)
    if frame.schema != expected.schema or not frame.equals(expected, null_equal=True):
        sys.exit(f"{said}\nis not the same in Polars:\n{frame}\n{expected}")
