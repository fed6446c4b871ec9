"""What stands beside the data: extension types, and metadata of schemas, fields, footers and messages."""

import json
import sys
import uuid

import pyarrow as pa
import pyarrow.ipc

from arrays import TEXTS, values
from files import new, random_cuts, random_options, random_words, read, rewrite


class Labelled(pa.ExtensionType):
    """A type of our own, with a parameter, of any storage."""

    def __init__(self, storage, label):
        self.label = label
        super().__init__(storage, "tests.labelled")

    def __arrow_ext_serialize__(self):
        return self.label.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls(storage, serialized.decode())

    def __eq__(self, other):
        return isinstance(other, Labelled) and (self.label, self.storage_type) == (other.label, other.storage_type)

    def __hash__(self):
        return hash(self.label)


pa.register_extension_type(Labelled(pa.null(), ""))


def check(rng, tools):
    batch = table(rng)
    source, target, back = (tools.scratch / name for name in ["source", "target", "back"])
    written, has_messages = write(rng, source, batch)
    words = random_words(rng)
    said = f"{batch.schema}\n{batch.num_rows} rows, written as {written}, rewritten with {words}"
    rewrite(tools, source, target, words, said)
    is_alkaid = "arrow" not in words
    if is_alkaid:
        check_keys(target, said)
        # Only under Arrow's keys does pyarrow know extension types.
        rewrite(tools, target, back, ["arrow"], f"{said}, and again")
    ours, expected = read(back if is_alkaid else target), pa.Table.from_batches([batch])
    ours.validate(full=True)
    if not ours.schema.equals(expected.schema, check_metadata=True) or not ours.equals(expected):
        sys.exit(f"{said}\nis not the same:\n{expected.schema.to_string(show_schema_metadata=True)}\n{expected}\n{ours}")
    return {"with keys of Alkaid": is_alkaid, "with metadata of messages": has_messages}


def check_keys(path, said):
    data = path.read_bytes()
    if b"ARROW:extension" in data or b"ALKAID:extension:name" not in data:
        sys.exit(f"{said}\nhas keys of another format")


def write(rng, path, batch):
    """Writes the rows, with metadata wherever pyarrow has a place for it; says how, and whether messages have some."""
    stream = rng.random() < 0.5
    options = random_options(rng, stream, batch.schema)
    footer = {} if stream else {"metadata": metadata(rng)}
    messages = 0
    with new(path, stream, batch.schema, options, **footer) as writer:
        for start, end in random_cuts(rng, batch.num_rows):
            # What is said of a message ends with it. In V4 it may say how the body is compressed.
            of_message = None if "metadata_version" in options else metadata(rng)
            messages += of_message is not None
            writer.write_batch(batch.slice(start, end - start), custom_metadata=of_message)
    return f"{'stream' if stream else 'file'} {options} {footer} and metadata of {messages} messages", messages > 0


def metadata(rng):
    """Some, or none."""
    keys = rng.sample(["a key", "", "Ω", "ARROW:", "pandas", "ARROW:experimental_compression"], rng.randint(0, 3))
    return {key: rng.choice(TEXTS) * rng.randint(0, 3) for key in keys} or None


def table(rng):
    rows = rng.choice([0, 1, 7, 64])
    columns = [extension(rng, rows)] + [around(rng, extension, rows, rng.randint(0, 2)) for _ in range(rng.randint(0, 3))]
    # Names are told apart by their place alone.
    names = [rng.choice(["same", "", "a.b", "Ω", 'with "quotes"']) for _ in columns]
    fields = [pa.field(name, column.type, metadata=metadata(rng)) for name, column in zip(names, columns)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata=metadata(rng)))


def around(rng, make, rows, depth):
    """An array, that deep within others, whose fields have metadata of their own."""
    if depth == 0:
        return make(rng, rows)
    field = lambda name, child: pa.field(name, child.type, metadata=metadata(rng))
    mask = pa.array([rng.random() < 0.1 for _ in range(rows)], pa.bool_())
    offsets = pa.array([row * 2 for row in range(rows + 1)], pa.int32())
    kind = rng.choice(["list", "pair", "struct", "map", "runs"])
    if kind == "struct":
        children = [around(rng, make, rows, depth - 1) for _ in range(2)]
        return pa.StructArray.from_arrays(children, fields=[field(name, child) for name, child in zip(["x", "x"], children)], mask=mask)
    if kind == "runs":
        # The fields of runs have no names of their own in pyarrow.
        return pa.RunEndEncodedArray.from_arrays(pa.array(range(1, rows + 1), pa.int32()), make(rng, rows))
    child = around(rng, make, rows * 2, depth - 1)
    if kind == "list":
        return pa.ListArray.from_arrays(offsets, child, type=pa.list_(field("entry", child)), mask=mask)
    if kind == "pair":
        return pa.FixedSizeListArray.from_arrays(child, type=pa.list_(field("entry", child), 2), mask=mask)
    keys = pa.array([f"k{row}" for row in range(rows * 2)], pa.string())
    # Other names of theirs pyarrow forgets.
    key = pa.field("key", pa.string(), nullable=False, metadata=metadata(rng))
    return pa.MapArray.from_arrays(offsets, keys, child, type=pa.map_(key, field("value", child)))


def extension(rng, rows):
    """An array of a random extension type."""
    nulls = rng.choice([0, 0.2])
    of = lambda data_type, make: pa.array(values(rng, make, rows, nulls), data_type)
    text, number = lambda: rng.choice(TEXTS), lambda: rng.randint(-100, 100)
    quad = lambda: [number() for _ in range(4)]
    label = rng.choice(["", "plain", "Ω " * 20])
    data_type, storage = rng.choice(
        [
            (pa.uuid(), of(pa.binary(16), lambda: uuid.UUID(int=rng.getrandbits(128)).bytes)),
            (pa.json_(), of(pa.string(), lambda: json.dumps([text(), number()]))),
            (pa.json_(pa.large_string()), of(pa.large_string(), lambda: json.dumps({"a": text()}))),
            (pa.bool8(), of(pa.int8(), number)),
            (pa.fixed_shape_tensor(pa.int32(), [2, 2], ["a", "b"], [1, 0]), of(pa.list_(pa.int32(), 4), quad)),
            (pa.opaque(pa.int64(), "a type", "a vendor"), of(pa.int64(), number)),
            (Labelled(pa.string(), label), of(pa.string(), text)),
            (Labelled(pa.list_(pa.int16()), label), of(pa.list_(pa.int16()), quad)),
            (Labelled(pa.dictionary(pa.int32(), pa.string()), label), of(pa.string(), text).dictionary_encode()),
            (Labelled(pa.struct({"u": pa.uuid()}), label), pa.StructArray.from_arrays([of(pa.uuid(), lambda: rng.randbytes(16))], ["u"])),
        ]
    )
    return pa.ExtensionArray.from_storage(data_type, storage)
