"""Dictionaries that change from batch to batch: kept, added to, replaced; alone and within others."""

import sys

import pyarrow as pa
import pyarrow.ipc

from arrays import INTEGERS, decimals, values
from files import new, random_words, read, rewrite

WORDS = ["", "a", "bee", "thirteen chars", "Ω≈ç√", "a text that is long enough to be outside of a view"]


def check(rng, tools):
    stream = rng.random() < 0.6
    # What a file's dictionary has been written with stays.
    steps = ["keep", "add", "cut", "replace"] if stream else ["keep", "add"]
    unified = not stream and rng.random() < 0.3
    makers = [column(rng, ["keep", "add", "replace"] if unified else steps, 0 if unified else 2, not unified) for _ in range(rng.randint(1, 3))]
    batches = [batch_of(makers, rng.choice([0, 1, 5, 40])) for _ in range(rng.randint(2, 5))]
    source, target = tools.scratch / "source", tools.scratch / "target"
    options = {"emit_dictionary_deltas": rng.random() < 0.7 or not (stream or unified), "unify_dictionaries": unified, "compression": rng.choice([None, "zstd"])}
    words = random_words(rng)
    said = f"{batches[0].schema}\n{len(batches)} batches in a {'stream' if stream else 'file'}, written with {options}, rewritten with {words}"
    stats = write(source, stream, batches, options)
    if stats is None:
        return {}
    rewrite(tools, source, target, words, said)
    expected, ours = pa.Table.from_batches(batches), read(target)
    ours.validate(full=True)
    if not ours.schema.equals(expected.schema, check_metadata=True) or ours.to_pylist() != expected.to_pylist():
        sys.exit(f"{said}\nis not the same:\n{expected}\n{ours}")
    added = stats.num_dictionary_deltas > 0
    return {"added to in streams": stream and added, "added to in files": not stream and added, "replaced": stats.num_replaced_dictionaries > 0, "unified": unified}


def write(path, stream, batches, options):
    """What pyarrow has written, if it can."""
    with new(path, stream, batches[0].schema, options) as writer:
        try:
            # Batches are unified if they are written together.
            writer.write_table(pa.Table.from_batches(batches))
        except pa.ArrowInvalid as error:
            # What has to be replaced within what is added to.
            if stream or "Dictionary replacement" not in str(error):
                raise
            return None
        return writer.stats


def batch_of(makers, rows):
    columns = [make(rows) for make in makers]
    return pa.RecordBatch.from_arrays(columns, [f"c{index}" for index in range(len(columns))])


def column(rng, steps, depth, holes):
    """Makes arrays of one type, with a dictionary somewhere in it."""
    return dictionary(rng, steps, depth, holes) if depth == 0 or rng.random() < 0.5 else around(rng, steps, depth, holes)


def around(rng, steps, depth, holes):
    """Makes arrays of what has a column in it."""
    inner = column(rng, steps, depth - 1, holes)
    nulls = rng.choice([0, 0.2])
    mask = lambda rows: pa.array([rng.random() < nulls for _ in range(rows)], pa.bool_())
    offsets = lambda rows: pa.array([row * 2 for row in range(rows + 1)], pa.int32())
    kind = rng.choice(["list", "pair", "map", "struct"])
    if kind == "list":
        return lambda rows: pa.ListArray.from_arrays(offsets(rows), inner(rows * 2), mask=mask(rows))
    if kind == "pair":
        return lambda rows: pa.FixedSizeListArray.from_arrays(inner(rows * 2), 2, mask=mask(rows))
    if kind == "map":
        keys = lambda rows: pa.array([rng.choice(WORDS) for _ in range(rows)], pa.string())
        return lambda rows: pa.MapArray.from_arrays(offsets(rows), keys(rows * 2), inner(rows * 2))
    other = column(rng, steps, depth - 1, holes)
    return lambda rows: pa.StructArray.from_arrays([inner(rows), other(rows)], ["a", "b"], mask=mask(rows))


def dictionary(rng, steps, depth, holes):
    """Makes arrays whose dictionary is changed by one of the steps each time."""
    integers = rng.choice([each for pair in INTEGERS.values() for each in pair])
    nulls = rng.choice([0, 0.2])
    # A field has room for one dictionary: one within another is within a list or a struct. Of three pyarrow cannot
    # add to the outermost, nor where an inner one has nulls.
    fresh = around(rng, steps, 1, False) if depth > 0 and rng.random() < 0.4 else entries(rng, holes)
    known = fresh(rng.randint(0, 5))

    def make(rows):
        nonlocal known
        known = changed(rng, rng.choice(steps), known, fresh)
        codes = values(rng, lambda: rng.randrange(len(known)), rows, nulls) if len(known) else [None] * rows
        return pa.DictionaryArray.from_arrays(pa.array(codes, integers), known)

    return make


def changed(rng, step, known, fresh):
    if step == "add":
        return pa.concat_arrays([known, fresh(rng.randint(0, 3))])
    if step == "cut":
        start = rng.randint(0, len(known))
        return known.slice(start, rng.randint(0, len(known) - start))
    return fresh(rng.randint(0, 5)) if step == "replace" else known


def entries(rng, holes):
    """Makes values of one type, that Python can compare; some of them null if there may be holes."""
    text = lambda: rng.choice(WORDS) + str(rng.randint(0, 9))
    nulls = rng.choice([0, 0.2]) if holes else 0
    data_type, value = rng.choice(
        [
            (pa.string(), text),
            (pa.large_string(), text),
            (pa.binary(), lambda: text().encode()),
            (pa.binary(3), lambda: rng.randbytes(3)),
            (pa.int8(), lambda: rng.randint(-128, 127)),
            (pa.uint64(), lambda: rng.randint(0, 2**64 - 1)),
            (pa.float64(), rng.random),
            (pa.bool_(), lambda: rng.random() < 0.5),
            (pa.decimal128(20, 3), lambda: decimals(rng, 20, 3)),
        ]
    )
    return lambda count: pa.array(values(rng, value, count, nulls), data_type)
