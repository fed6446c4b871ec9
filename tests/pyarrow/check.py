"""Tables that pyarrow writes are read by this crate, and what it writes of them is read by pyarrow; the same with Polars where it knows the types.

    tests/pyarrow/run [SEED [TABLES]]

Each table is written in one of pyarrow's ways, or by Polars, rewritten by examples/rewrite.rs in one of this crate's, and read again: it has to be what it was.
A table of Alkaid's is given Arrow's magic first, which is all that tells the two apart for data without extension types.
"""

import datetime
import decimal
import pathlib
import random
import subprocess
import sys
import tempfile

import polars
import pyarrow as pa
import pyarrow.ipc

ZONES = ["UTC", "Asia/Tokyo", "+02:00"]
UNITS = ["s", "ms", "us", "ns"]
TEXTS = ["", "a", "thirteen chars", "Ω≈ç√", "a text that is long enough to be outside of a view", "\U0001f980"]
INTEGERS = {8: (pa.int8(), pa.uint8()), 16: (pa.int16(), pa.uint16()), 32: (pa.int32(), pa.uint32()), 64: (pa.int64(), pa.uint64())}


def decimals(rng, digits, scale):
    return decimal.Decimal(rng.randint(-(10**digits) + 1, 10**digits - 1)).scaleb(-scale, decimal.Context(prec=100))


def leaf(rng):
    """A type, and what makes a value of it."""
    bits = rng.choice(list(INTEGERS))
    signed, unsigned = INTEGERS[bits]
    unit = rng.choice(UNITS)
    number = lambda: rng.randint(-(2**40), 2**40)
    text = lambda: rng.choice(TEXTS) * rng.randint(0, 2)
    scale = rng.randint(0, 9)
    choices = [
        (pa.bool_(), lambda: rng.random() < 0.5),
        (signed, lambda: rng.randint(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)),
        (unsigned, lambda: rng.randint(0, 2**bits - 1)),
        (pa.float32(), lambda: float(rng.randint(-1000, 1000)) / 8),
        (pa.float64(), lambda: rng.choice([0.0, -0.0, float("inf"), -1.5e300, rng.random()])),
        (pa.decimal32(9, scale), lambda: decimals(rng, 9, scale)),
        (pa.decimal64(18, scale), lambda: decimals(rng, 18, scale)),
        (pa.decimal128(38, scale), lambda: decimals(rng, 38, scale)),
        (pa.decimal256(76, scale), lambda: decimals(rng, 76, scale)),
        (pa.date32(), lambda: datetime.date.fromordinal(rng.randint(1, 3_000_000))),
        (pa.date64(), lambda: datetime.date.fromordinal(rng.randint(1, 3_000_000))),
        (pa.time32(rng.choice(UNITS[:2])), lambda: datetime.time(rng.randint(0, 23), 59, rng.randint(0, 59))),
        (pa.time64(rng.choice(UNITS[2:])), lambda: datetime.time(rng.randint(0, 23), 59, 59, rng.randint(0, 999_999))),
        (pa.timestamp(unit), number),
        (pa.timestamp(unit, rng.choice(ZONES)), number),
        (pa.duration(unit), number),
        (pa.month_day_nano_interval(), lambda: pa.MonthDayNano([rng.randint(-99, 99), rng.randint(-99, 99), number()])),
        (pa.string(), text),
        (pa.large_string(), text),
        (pa.string_view(), text),
        (pa.binary(), lambda: text().encode()),
        (pa.large_binary(), lambda: text().encode()),
        (pa.binary_view(), lambda: text().encode()),
        (pa.binary(5), lambda: rng.randbytes(5)),
    ]
    return rng.choice(choices)


def values(rng, make, rows, nulls):
    return [None if rng.random() < nulls else make() for _ in range(rows)]


def array(rng, rows, depth):
    """An array of a random type, as deep as that."""
    nulls = rng.choice([0, 0.1, 0.9])
    kind = rng.choice(["leaf"] * 4 + ["list", "struct", "map", "union", "dictionary", "runs", "null", "half"]) if depth > 0 else "leaf"
    if kind == "null":
        return pa.nulls(rows)
    if kind == "half":
        return pa.array(values(rng, lambda: float(rng.randint(-100, 100)) / 4, rows, nulls), pa.float32()).cast(pa.float16())
    if kind == "list":
        child = array(rng, rows * 2, depth - 1)
        mask = pa.array([rng.random() < nulls for _ in range(rows)], pa.bool_()) if nulls else None
        if rng.random() < 0.2 and len(child) >= rows * 2 > 0:
            return pa.FixedSizeListArray.from_arrays(child.slice(0, rows * 2), 2, mask=mask)
        if rng.random() < 0.3:
            starts = [rng.randint(0, max(len(child) - 3, 0)) for _ in range(rows)]
            sizes = [rng.randint(0, min(3, len(child) - start)) for start in starts]
            large = rng.random() < 0.5
            view = pa.LargeListViewArray if large else pa.ListViewArray
            integers = pa.int64() if large else pa.int32()
            return view.from_arrays(pa.array(starts, integers), pa.array(sizes, integers), child, mask=mask)
        offsets = sorted(rng.randint(0, len(child)) for _ in range(rows + 1))
        if rng.random() < 0.5:
            return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), child, mask=mask)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), child, mask=mask)
    if kind == "struct":
        children = [array(rng, rows, depth - 1) for _ in range(rng.randint(1, 3))]
        mask = pa.array([rng.random() < nulls for _ in range(rows)], pa.bool_())
        return pa.StructArray.from_arrays(children, [f"f{i}" for i in range(len(children))], mask=mask)
    if kind == "map":
        offsets = pa.array(sorted(rng.randint(0, rows * 2) for _ in range(rows + 1)), pa.int32())
        keys = pa.array([f"k{rng.randint(0, 9)}" for _ in range(rows * 2)])
        return pa.MapArray.from_arrays(offsets, keys, array(rng, rows * 2, depth - 1))
    if kind == "union":
        types = pa.array([rng.randint(0, 1) for _ in range(rows)], pa.int8())
        children = [array(rng, rows, 0), array(rng, rows, 0)]
        if rng.random() < 0.5:
            return pa.UnionArray.from_sparse(types, children)
        at = [0, 0]
        offsets = []
        for child in types.to_pylist():
            offsets.append(at[child])
            at[child] += 1
        return pa.UnionArray.from_dense(types, pa.array(offsets, pa.int32()), children)
    if kind == "dictionary":
        # A field has room for one dictionary: pyarrow writes one of dictionaries, and cannot read it.
        entries = array(rng, 7, depth - 1)
        while pa.types.is_dictionary(entries.type):
            entries = array(rng, 7, depth - 1)
        integers = rng.choice([each for pair in INTEGERS.values() for each in pair])
        codes = pa.array(values(rng, lambda: rng.randint(0, 6), rows, nulls), integers)
        return pa.DictionaryArray.from_arrays(codes, entries)
    if kind == "runs":
        ends, end = [], 0
        while end < rows:
            end = min(rows, end + rng.randint(1, 9))
            ends.append(end)
        integers = rng.choice([pa.int16(), pa.int32(), pa.int64()])
        return pa.RunEndEncodedArray.from_arrays(pa.array(ends, integers), array(rng, len(ends), 0))
    data_type, make = leaf(rng)
    return pa.array(values(rng, make, rows, nulls), data_type)


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


def write(rng, path, batch):
    """Writes the rows in one of pyarrow's ways, in up to three batches; says which."""
    has_dictionary = any(pa.types.is_dictionary(field.type) or field.type.num_fields for field in batch.schema)
    options = {"compression": rng.choice([None, "lz4", "zstd"])}
    stream = rng.random() < 0.5
    if stream and rng.random() < 0.3:
        options["use_legacy_format"] = True
    if rng.random() < 0.2 and not any(pa.types.is_union(field.type) for field in batch.schema):
        # What pyarrow compresses in this version it cannot read.
        options = {"metadata_version": pa.ipc.MetadataVersion.V4}
    write_options = pa.ipc.IpcWriteOptions(**options)
    cuts = sorted(rng.randint(0, batch.num_rows) for _ in range(rng.choice([0, 2])))
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(path, batch.schema, options=write_options) as writer:
        for start, end in zip([0, *cuts], [*cuts, batch.num_rows]):
            writer.write_batch(batch.slice(start, end - start))
    return f"{'stream' if stream else 'file'} {options} cut at {cuts}" + (" with dictionaries" if has_dictionary else "")


def write_polars(rng, path, batch):
    """Writes the rows as Polars does; says how."""
    options = {"compression": rng.choice(["uncompressed", "lz4", "zstd"]), "compat_level": rng.choice([polars.CompatLevel.oldest(), polars.CompatLevel.newest()])}
    stream = rng.random() < 0.5
    frame = polars.from_arrow(batch, rechunk=rng.random() < 0.5)
    (frame.write_ipc_stream if stream else frame.write_ipc)(path, **options)
    return f"{'stream' if stream else 'file'} of Polars {options}"


def read(path):
    data = path.read_bytes()
    if data.startswith(b"ALKAID1"):
        # Six bytes at the end, where Alkaid has seven.
        data = b"ARROW1\0\0" + data[8:-7] + b"ARROW1"
    if data.startswith(b"ARROW1"):
        return pa.ipc.open_file(pa.py_buffer(data)).read_all()
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()


def check(rng, rewrite, scratch):
    batch = table(rng)
    source, target = scratch / "source", scratch / "target"
    by_polars = all(in_polars(field.type) for field in batch.schema) and rng.random() < 0.5
    written = (write_polars if by_polars else write)(rng, source, batch)
    ways = [["", "stream"], ["", "arrow"], ["", "lz4", "zstd"]]
    # What Polars reads: files with Arrow's magic that are not compressed.
    words = ["arrow"] if by_polars else [word for word in map(rng.choice, ways) if word]
    done = subprocess.run([rewrite, source, target, *words], capture_output=True, text=True)
    said = f"{batch.schema}\n{batch.num_rows} rows, written as {written}, rewritten with {words}"
    if done.returncode != 0:
        sys.exit(f"{said}\n{done.stderr}")
    theirs, ours = read(source), read(target)
    ours.validate(full=True)
    if not theirs.equals(ours, check_metadata=True):
        sys.exit(f"{said}\nis not the same:\n{theirs}\n{ours}")
    # Polars stumbles over compressed buffers that are empty, also over those that pyarrow writes.
    return by_polars, not {"lz4", "zstd"}.intersection(words) and polars_agrees(target, said, ours)


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


def main():
    rewrite = pathlib.Path(sys.argv[1]).resolve()
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    tables = int(sys.argv[3]) if len(sys.argv) > 3 else 400
    of_polars = read_by_polars = 0
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(tables):
            try:
                is_theirs, is_read = check(random.Random(seed * 1_000_003 + number), rewrite, pathlib.Path(scratch))
            except SystemExit as failure:
                sys.exit(f"table {number} of seed {seed}: {failure}")
            of_polars, read_by_polars = of_polars + is_theirs, read_by_polars + is_read
    if of_polars == 0 or read_by_polars == 0:
        sys.exit("Polars has written nothing, or read nothing")
    print(f"{tables} tables are the same in pyarrow {pa.__version__} and here; Polars {polars.__version__} wrote {of_polars} of them and read {read_by_polars}")


main()
