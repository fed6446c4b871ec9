"""What Polars knows of Arrow, how it writes that, and what it reads."""

import polars
import pyarrow as pa

from columns import is_any_list

# The length that says so, before a buffer.
NOT_COMPRESSED = b"\xff" * 8


def knows(data_type):
    """Whether Polars has such a type, or takes it for another. It ends the process over some that it does not have; halves, and decimals of less than 128 bits, it
    converts in some places and not in others."""
    if is_any_list(data_type) or pa.types.is_dictionary(data_type):
        return knows(data_type.value_type)
    if pa.types.is_struct(data_type):
        return all(knows(field.type) for field in data_type)
    if pa.types.is_map(data_type):
        return knows(data_type.key_type) and knows(data_type.item_type)
    kinds = [pa.types.is_boolean, pa.types.is_integer, pa.types.is_float32, pa.types.is_float64, pa.types.is_null]
    kinds += [pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view]
    kinds += [pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary]
    kinds += [pa.types.is_date, pa.types.is_time, pa.types.is_timestamp, pa.types.is_duration, pa.types.is_decimal128]
    return any(kind(data_type) for kind in kinds)


def write(rng, path, frame):
    """Writes the rows in one of Polars' ways; says which."""
    options = {"compression": rng.choice(["uncompressed", "lz4", "zstd"]), "compat_level": rng.choice([polars.CompatLevel.oldest(), polars.CompatLevel.newest()])}
    stream = rng.random() < 0.5
    (frame.write_ipc_stream if stream else frame.write_ipc)(path, **options)
    return f"{'stream' if stream else 'file'} of Polars {options}"


def read(data):
    if data.startswith(b"ARROW1"):
        return polars.read_ipc(data, use_pyarrow=False, memory_map=False, rechunk=False)
    return polars.read_ipc_stream(data, use_pyarrow=False, rechunk=False)


def stumbles(data, table):
    """Whether Polars ends with a panic over a compressed file or stream, which is right and has this in it."""
    return any(lacks_length(part) or is_unaligned(data, part) for column in table.columns for chunk in column.chunks for part in parts(chunk))


def lacks_length(array):
    """Whether Polars 1.35 looks for the length of a buffer that is empty, and so has none: here as in pyarrow, which has one for views that are all short."""
    if is_view(array.type):
        return any(data is None or data.size == 0 for data in array.buffers()[2:])
    return pa.types.is_boolean(array.type) and len(array) == 0


def is_unaligned(data, array):
    """Whether values of 16 bytes are not compressed, since that does not pay: Polars 1.35 takes them from where they are, eight bytes behind what is aligned."""
    if not (is_view(array.type) or pa.types.is_decimal128(array.type)) or len(array) == 0:
        return False
    return NOT_COMPRESSED + array.buffers()[1].to_pybytes() in data


def is_view(data_type):
    return pa.types.is_string_view(data_type) or pa.types.is_binary_view(data_type)


def parts(array):
    """The array, and those within it."""
    yield array
    if pa.types.is_dictionary(array.type):
        inner = [array.dictionary]
    elif pa.types.is_struct(array.type):
        inner = [array.field(index) for index in range(array.type.num_fields)]
    elif pa.types.is_map(array.type):
        inner = [array.keys, array.items]
    else:
        inner = [array.values] if is_any_list(array.type) else []
    for each in inner:
        yield from parts(each)
