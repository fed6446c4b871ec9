"""Random tables of every type: written by pyarrow or Polars, rewritten, and read by both."""

import sys

import polars
import pyarrow as pa

from arrays import array
from files import random_words, read, rewrite, write


def check(rng, tools):
    batch = table(rng)
    source, target = tools.scratch / "source", tools.scratch / "target"
    by_polars = all(in_polars(field.type) for field in batch.schema) and rng.random() < 0.5
    written = (write_polars if by_polars else write)(rng, source, batch)
    # What Polars reads: files with Arrow's magic that are not compressed.
    words = ["arrow"] if by_polars else random_words(rng)
    said = f"{batch.schema}\n{batch.num_rows} rows, written as {written}, rewritten with {words}"
    rewrite(tools, source, target, words, said)
    theirs, ours = read(source), read(target)
    ours.validate(full=True)
    if not theirs.equals(ours, check_metadata=True):
        sys.exit(f"{said}\nis not the same:\n{theirs}\n{ours}")
    # Polars stumbles over compressed buffers that are empty, also over those that pyarrow writes.
    by_both = not {"lz4", "zstd"}.intersection(words) and polars_agrees(target, said, ours)
    return {"written by Polars": by_polars, "read by Polars": by_both}


def table(rng):
    rows = rng.choice([0, 1, 7, 64, 300])
    for_polars = rng.random() < 0.3
    columns = []
    for _ in range(rng.randint(1, 6)):
        column = array(rng, rows, 2)
        while for_polars and not in_polars(column.type):
            column = array(rng, rows, 2)
        columns.append(column)
    names = [f"c{index}" for index in range(len(columns))]
    fields = [pa.field(name, column.type, metadata={"of": name} if rng.random() < 0.3 else None) for name, column in zip(names, columns)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata={"seed": "x"} if rng.random() < 0.5 else None))


def write_polars(rng, path, batch):
    """Writes the rows as Polars does; says how."""
    options = {"compression": rng.choice(["uncompressed", "lz4", "zstd"]), "compat_level": rng.choice([polars.CompatLevel.oldest(), polars.CompatLevel.newest()])}
    stream = rng.random() < 0.5
    frame = polars.from_arrow(batch, rechunk=rng.random() < 0.5)
    (frame.write_ipc_stream if stream else frame.write_ipc)(path, **options)
    return f"{'stream' if stream else 'file'} of Polars {options}"


def in_polars(data_type):
    """Whether Polars has such a type. It ends the process over some that it does not have."""
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type) or pa.types.is_fixed_size_list(data_type):
        return in_polars(data_type.value_type)
    if pa.types.is_struct(data_type):
        return all(in_polars(field.type) for field in data_type)
    kinds = [pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view]
    kinds += [pa.types.is_binary, pa.types.is_large_binary, pa.types.is_date32, pa.types.is_timestamp, pa.types.is_duration, pa.types.is_time64]
    kinds += [pa.types.is_decimal128, pa.types.is_null]
    return data_type != pa.float16() and any(kind(data_type) for kind in kinds)


def polars_agrees(path, said, ours):
    data = path.read_bytes()
    known = [field.name for field in ours.schema if in_polars(field.type)]
    if not data.startswith(b"ARROW1") or len(known) < ours.num_columns:
        return False
    frame = polars.read_ipc(data, use_pyarrow=False, memory_map=False, rechunk=False)
    expected = polars.from_arrow(ours)
    if not frame.equals(expected, null_equal=True):
        sys.exit(f"{said}\nis not the same in Polars:\n{frame}\n{expected}")
    return True
