"""Random frames, also of types that only Polars has, in files and streams that it writes: what the SQL shell finds there and copies is in Polars what it was."""

import subprocess
import sys

import polars
import pyarrow as pa

import polars_ipc
from arrays import TEXTS, leaf, values
from files import arrow_bytes, random_cuts, read
from predicates import run

# What Parquet cannot have, or its writer panics over: dictionaries of views.
NOT_IN_PARQUET = {polars.Categorical, polars.Enum}


def check(rng, tools):
    frame = random_frame(rng)
    source, target, parquet = (tools.scratch / name for name in ["source.arrow", f"target.{rng.choice(['arrow', 'arrows', 'ipc', 'ipcs'])}", "target.parquet"])
    said = f"{frame.schema}\n{frame.height} rows in {frame.n_chunks()} parts, written as {polars_ipc.write(rng, source, frame)}"
    if any(dtype == polars.Int128 for dtype in frame.dtypes):
        check_refused(tools.shell, source, said)
        return {"refused": True}
    compression = rng.choice(["none", "lz4", "zstd"])
    said += f", copied to {target.name} with {compression}"
    copies = [f"COPY (SELECT * FROM '{source}') TO '{target}' OPTIONS (batch_rows {rng.choice([20, 1000])}, compression {compression})"]
    in_parquet = not any(NOT_IN_PARQUET.intersection(kinds(dtype)) for dtype in frame.dtypes)
    copies += [f"COPY (SELECT * FROM '{source}') TO '{parquet}'"] * in_parquet
    # One after the other: rows stay in their order.
    run(tools.shell, ["SET datafusion.execution.target_partitions = 1", *copies], said)
    ours = read(target)
    ours.validate(full=True)
    if in_parquet:
        check_same(polars.read_parquet(parquet), frame, f"{said} and to Parquet")
    by_both = compression == "none" or not polars_ipc.stumbles(arrow_bytes(target), ours)
    if by_both:
        check_same(polars_ipc.read(arrow_bytes(target)), frame, said)
    return {"in Parquet": in_parquet, "not compressed": compression == "none", "compressed": by_both and compression != "none"}


def check_same(found, frame, said):
    if frame.height == 0:
        # Where there is no batch Polars takes enums for categories.
        found = found.cast({name: dtype for name, dtype in frame.schema.items() if dtype == polars.Enum})
    if found.schema != frame.schema or not found.equals(frame, null_equal=True):
        sys.exit(f"{said}\nis not the same in Polars:\n{found}\n{frame}")


def check_refused(shell, path, said):
    """Arrow has no integers of 128 bits: they are nothing else either."""
    done = subprocess.run([shell, "--quiet", "--command", f"SELECT * FROM '{path}'"], capture_output=True, text=True)
    if done.returncode == 0 or "integers have 8, 16, 32 or 64 bits, not 128" not in done.stderr:
        sys.exit(f"{said}\nis not refused:\n{done.stdout}{done.stderr}")


def random_frame(rng):
    rows = rng.choice([0, 1, 7, 64, 300])
    columns = [series(rng, f"c{index}", *dtype_of(rng, 2), rows) for index in range(rng.randint(1, 6))]
    if rng.random() < 0.05:
        columns.append(series(rng, "wide", polars.Int128, lambda: rng.randint(-(2**127), 2**127 - 1), rows))
    frame = polars.DataFrame(columns)
    # Polars gives the categories of each part as a dictionary of its own, which a file cannot have.
    if any(polars.Categorical in kinds(dtype) for dtype in frame.dtypes):
        return frame
    return polars.concat([frame[start:end] for start, end in random_cuts(rng, rows)], rechunk=False)


def series(rng, name, dtype, make, rows):
    return polars.Series(name, values(rng, make, rows, rng.choice([0, 0.1, 0.9])), dtype)


def dtype_of(rng, depth, in_array=False):
    """A type of Polars, as deep as that, and what makes a value of it."""
    kind = rng.choice(["leaf"] * 3 + ["enum", "null"] + ["categorical"] * (not in_array) + ["list", "array", "struct"] * (depth > 0))
    if kind == "null":
        return polars.Null, lambda: None
    if kind in ["categorical", "enum"]:
        return polars.Categorical if kind == "categorical" else polars.Enum(TEXTS[::-1]), lambda: rng.choice(TEXTS)
    if kind == "leaf":
        data_type, make = leaf(rng)
        # Datetimes are made of numbers here, which those of days are not.
        while not polars_ipc.knows(data_type) or pa.types.is_date64(data_type):
            data_type, make = leaf(rng)
        return polars.Series(pa.array([], data_type)).dtype, make
    in_array = in_array or kind == "array"
    fields = {f"f{index}": dtype_of(rng, depth - 1, in_array) for index in range(rng.randint(1, 3) if kind == "struct" else 1)}
    if kind == "struct":
        return polars.Struct({name: dtype for name, (dtype, _) in fields.items()}), lambda: {name: value(rng, make) for name, (_, make) in fields.items()}
    ((dtype, make),) = fields.values()
    if kind == "array":
        return polars.Array(dtype, 2), lambda: [value(rng, make) for _ in range(2)]
    return polars.List(dtype), lambda: [value(rng, make) for _ in range(rng.randint(0, 3))]


def value(rng, make):
    return None if rng.random() < 0.1 else make()


def kinds(dtype):
    """What the type is, and those within it."""
    inner = [field.dtype for field in dtype.fields] if isinstance(dtype, polars.Struct) else [dtype.inner] if dtype.is_nested() else []
    return {dtype.base_type()}.union(*map(kinds, inner))
