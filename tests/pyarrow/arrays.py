"""Random arrays of every type."""

import datetime
import decimal

import pyarrow as pa

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
