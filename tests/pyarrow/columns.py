"""Random columns to ask predicates about, what they mean, and how SQL writes their values."""

import struct
import typing

import pyarrow as pa
import pyarrow.compute as pc

from arrays import INTEGERS, UNITS, ZONES, array, decimals

# Some are longer than a bound of a batch can be, and then begin alike, or with what cannot be increased.
TEXTS = ["", "a", "ab", "abc", "b", "it's", "Ω≈ç√", "thirteen chars", "x" * 70, "x" * 70 + "y", "x" * 63 + "Ω", "\U0010ffff" * 20, "\U0001f980"]


class Part(typing.NamedTuple):
    """What a predicate can be about: a column, or a field of a struct."""

    sql: str
    # Values of a type that pyarrow computes with; of those without a leaf it is only known which are null.
    values: pa.Array
    leaf: typing.Any
    # Values that rows may have.
    pool: list


class Column(typing.NamedTuple):
    name: str
    written: pa.Array
    parts: list


class Leaf(typing.NamedTuple):
    """A type as it is written, and one that pyarrow computes with; what makes a value, and what SQL calls it."""

    written: pa.DataType
    plain: pa.DataType
    make: typing.Callable
    literal: typing.Callable
    # What is compared instead of the value.
    key: typing.Callable = lambda value: value

    def part(self, name, values, pool):
        return Part(name, arrow([value if value is None else self.key(value) for value in values], self.plain), self, pool)


def columns(rng, rows):
    makers = [leaf_column, leaf_column, dictionary_column, runs_column, struct_column, nested_column]
    return [rng.choice(makers)(rng, rows, f"c{index}") for index in range(rng.randint(1, 5))]


def leaf_column(rng, rows, name):
    leaf = random_leaf(rng)
    pool, values = random_values(rng, leaf, rows)
    return Column(name, arrow(values, leaf.written), [leaf.part(name, values, pool)])


def dictionary_column(rng, rows, name):
    leaf = text(rng)
    pool, values = random_values(rng, leaf, rows)
    # What no row has, what is there twice, and nulls that have a code.
    entries = [*pool, *pool, None]
    rng.shuffle(entries)
    codes = [None if value is None and rng.random() < 0.5 else rng.choice([at for at, entry in enumerate(entries) if entry == value]) for value in values]
    integers = rng.choice([each for pair in INTEGERS.values() for each in pair])
    written = pa.DictionaryArray.from_arrays(pa.array(codes, integers), arrow(entries, leaf.written))
    return Column(name, written, [leaf.part(name, values, pool)])


def runs_column(rng, rows, name):
    leaf = rng.choice([text, integer])(rng)
    pool, values = random_values(rng, leaf, rows)
    firsts = [row for row in range(rows) if row == 0 or values[row] != values[row - 1] or rng.random() < 0.1]
    ends = pa.array([*firsts[1:], rows][: len(firsts)], rng.choice([pa.int16(), pa.int32(), pa.int64()]))
    written = pa.RunEndEncodedArray.from_arrays(ends, arrow([values[row] for row in firsts], leaf.written))
    return Column(name, written, [leaf.part(name, values, pool)])


def struct_column(rng, rows, name):
    """With values under its nulls, which are nobody's."""
    inner = [rng.choice([leaf_column, dictionary_column])(rng, rows, field) for field in "ab"]
    if rng.random() < 0.3:
        inner.append(struct_column(rng, rows, "c"))
    nulls = pa.array([rng.random() < 0.3 for _ in range(rows)], pa.bool_())
    written = pa.StructArray.from_arrays([column.written for column in inner], [column.name for column in inner], mask=nulls)
    below = [part._replace(sql=field_of(name, part.sql), values=pc.if_else(nulls, None, part.values)) for column in inner for part in column.parts]
    return Column(name, written, [Part(name, pc.if_else(nulls, None, True), None, []), *below])


def field_of(name, sql):
    field, *deeper = sql.split("[", 1)
    return f"{name}['{field}']" + "".join("[" + each for each in deeper)


def nested_column(rng, rows, name):
    written = array(rng, rows, 1)
    while not (is_any_list(written.type) or pa.types.is_map(written.type)):
        written = array(rng, rows, 1)
    return Column(name, written, [Part(name, pc.if_else(written.is_null(), None, True), None, [])])


def is_any_list(data_type):
    return pa.types.is_list(data_type) or pa.types.is_large_list(data_type) or pa.types.is_fixed_size_list(data_type)


def random_values(rng, leaf, rows):
    """Some values, and which of them each row has: any, or one like those of its neighbours, so that batches differ from each other."""
    pool = sorted({leaf.make() for _ in range(10)}, key=leaf.key)
    is_near, nulls = rng.random() < 0.7, rng.choice([0, 0, 0.2])
    absent = range(*sorted(rng.randint(0, rows) for _ in range(2))) if rng.random() < 0.3 else []
    near = lambda row: min(max(row * len(pool) // rows + rng.randint(-1, 1), 0), len(pool) - 1)
    place = near if is_near else lambda row: rng.randrange(len(pool))
    return pool, [None if row in absent or rng.random() < nulls else pool[place(row)] for row in range(rows)]


def arrow(values, data_type):
    """Times are made of numbers, as they are stored."""
    if pa.types.is_temporal(data_type):
        return pa.array(values, pa.int32() if data_type.bit_width == 32 else pa.int64()).view(data_type)
    return pa.array(values, data_type)


def slots(array):
    """What stands in each slot, however it is stored. Python has no words for times that are far away: they are numbers here."""
    nulls = array.is_null().to_pylist()
    known = lambda value_at: [None if null else value_at(row) for row, null in enumerate(nulls)]
    if pa.types.is_dictionary(array.type):
        entries, codes = slots(array.dictionary), array.indices.to_pylist()
        return known(lambda row: entries[codes[row]])
    if pa.types.is_run_end_encoded(array.type):
        values = slots(array.values)
        starts = [0, *array.run_ends.to_pylist()]
        return [value for value, start, end in zip(values, starts, starts[1:]) for _ in range(start, end)]
    if pa.types.is_struct(array.type):
        fields = [slots(array.field(index)) for index in range(array.type.num_fields)]
        return known(lambda row: [field[row] for field in fields])
    if pa.types.is_map(array.type):
        keys, items, ends = slots(array.keys), slots(array.items), array.offsets.to_pylist()
        return known(lambda row: list(zip(keys[ends[row] : ends[row + 1]], items[ends[row] : ends[row + 1]])))
    if is_any_list(array.type):
        items, lengths = slots(array.flatten()), array.value_lengths().to_pylist()
        items = iter(items)
        return known(lambda row: [next(items) for _ in range(lengths[row])])
    if pa.types.is_temporal(array.type) and not pa.types.is_interval(array.type):
        return array.view(pa.int32() if array.type.bit_width == 32 else pa.int64()).to_pylist()
    return array.to_pylist()


def typed(name):
    return lambda value: f"arrow_cast('{value}', '{name}')"


def random_leaf(rng):
    return rng.choice([integer, integer, floating, text, text, binary, boolean, decimal, date, time, timestamp, duration])(rng)


def integer(rng):
    bits = rng.choice(list(INTEGERS))
    is_signed = rng.random() < 0.5
    least, greatest = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    some = lambda: rng.choice([least, greatest, rng.randint(least, greatest), rng.randint(max(least, -9), 9)])
    # The same value is always written in the same way: the engine takes others for other values where it joins lists.
    exact = typed(f"{'' if is_signed else 'U'}Int{bits}")
    data_type = INTEGERS[bits][0 if is_signed else 1]
    return Leaf(data_type, data_type, some, lambda value: str(value) if abs(value) < 2**31 and value % 2 else exact(value))


def floating(rng):
    bits = rng.choice([32, 64])
    some = lambda: rng.choice([0.0, -0.0, float("inf"), float("-inf"), float("nan"), rng.randint(-99, 99) / 8])
    return Leaf(pa.float32() if bits == 32 else pa.float64(), pa.int64(), some, typed(f"Float{bits}"), total_order)


def total_order(value):
    """In SQL a NaN is the same as another, and greater than all else."""
    (number,) = struct.unpack("<q", struct.pack("<d", value))
    return number if number >= 0 else number ^ (2**63 - 1)


def text(rng):
    written = rng.choice([pa.string(), pa.large_string(), pa.string_view()])
    return Leaf(written, pa.string(), lambda: rng.choice(TEXTS), lambda value: "'" + value.replace("'", "''") + "'")


def binary(rng):
    if rng.random() < 0.3:
        return Leaf(pa.binary(3), pa.binary(3), lambda: rng.randbytes(3), lambda value: f"arrow_cast(X'{value.hex()}', 'FixedSizeBinary(3)')")
    written, name = rng.choice([(pa.binary(), "Binary"), (pa.large_binary(), "LargeBinary"), (pa.binary_view(), "BinaryView")])
    some = lambda: rng.choice([rng.choice(TEXTS).encode(), b"\xff" * rng.randint(0, 70), rng.randbytes(2)])
    return Leaf(written, pa.binary(), some, lambda value: f"arrow_cast(X'{value.hex()}', '{name}')")


def boolean(rng):
    return Leaf(pa.bool_(), pa.bool_(), lambda: rng.random() < 0.5, str)


def decimal(rng):
    bits, digits, make = rng.choice([(32, 9, pa.decimal32), (64, 18, pa.decimal64), (128, 38, pa.decimal128), (256, 76, pa.decimal256)])
    scale = rng.randint(0, 9)
    data_type = make(digits, scale)
    exact = typed(f"Decimal{bits}({digits}, {scale})")
    return Leaf(data_type, data_type, lambda: decimals(rng, rng.choice([3, digits]), scale), lambda value: exact(f"{value:f}"))


def date(rng):
    if rng.random() < 0.5:
        return Leaf(pa.date32(), pa.date32(), lambda: rng.randint(-99, 20_000), lambda value: f"arrow_cast(arrow_cast({value}, 'Int32'), 'Date32')")
    return Leaf(pa.date64(), pa.date64(), lambda: rng.randint(-99, 20_000) * 86_400_000, lambda value: f"arrow_cast({value}, 'Date64')")


def time(rng):
    unit = rng.choice(UNITS)
    bits, make = (32, pa.time32) if unit in UNITS[:2] else (64, pa.time64)
    literal = lambda value: f"arrow_cast(arrow_cast({value}, 'Int{bits}'), 'Time{bits}({unit})')"
    return Leaf(make(unit), make(unit), lambda: rng.randint(0, 86_399), literal)


def timestamp(rng):
    unit, zone = rng.choice(UNITS), rng.choice([None, *ZONES])
    name = f"Timestamp({unit}, \"{zone}\")" if zone else f"Timestamp({unit})"
    data_type = pa.timestamp(unit, zone)
    return Leaf(data_type, data_type, lambda: rng.choice([rng.randint(-(2**62), 2**62), rng.randint(-9, 9)]), lambda value: f"arrow_cast({value}, '{name}')")


def duration(rng):
    data_type = pa.duration(unit := rng.choice(UNITS))
    return Leaf(data_type, data_type, lambda: rng.randint(-(2**40), 2**40), lambda value: f"arrow_cast({value}, 'Duration({unit})')")
