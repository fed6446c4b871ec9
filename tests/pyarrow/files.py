"""Files that pyarrow writes, that this crate writes again, and that pyarrow reads."""

import pathlib
import subprocess
import sys
import typing

import pyarrow as pa
import pyarrow.ipc


class Tools(typing.NamedTuple):
    """Programs of this crate, and a folder for what they read and write."""

    rewrite: pathlib.Path
    shell: pathlib.Path
    scratch: pathlib.Path


def random_words(rng):
    """One of the ways in which examples/rewrite.rs writes."""
    return [word for word in map(rng.choice, [["", "stream"], ["", "arrow"], ["", "lz4", "zstd"]]) if word]


def rewrite(tools, source, target, words, said):
    done = subprocess.run([tools.rewrite, source, target, *words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{said}\n{done.stderr}")


def random_cuts(rng, rows):
    """The rows of each of up to three batches."""
    cuts = sorted(rng.randint(0, rows) for _ in range(rng.choice([0, 2])))
    return list(zip([0, *cuts], [*cuts, rows]))


def random_options(rng, stream, schema):
    options = {"compression": rng.choice([None, "lz4", "zstd"])}
    if stream and rng.random() < 0.3:
        options["use_legacy_format"] = True
    if rng.random() < 0.2 and not any(pa.types.is_union(field.type) for field in schema):
        # What pyarrow compresses in this version it cannot read.
        options = {"metadata_version": pa.ipc.MetadataVersion.V4}
    return options


def write(rng, path, batch):
    """Writes the rows in one of pyarrow's ways, in up to three batches; says which."""
    stream = rng.random() < 0.5
    options = random_options(rng, stream, batch.schema)
    cuts = random_cuts(rng, batch.num_rows)
    with new(path, stream, batch.schema, options) as writer:
        for start, end in cuts:
            writer.write_batch(batch.slice(start, end - start))
    return f"{'stream' if stream else 'file'} {options} cut into {cuts}"


def new(path, stream, schema, options, **more):
    return (pa.ipc.new_stream if stream else pa.ipc.new_file)(path, schema, options=pa.ipc.IpcWriteOptions(**options), **more)


def read(path):
    return opened(path).read_all()


def opened(path):
    data = arrow_bytes(path)
    if data.startswith(b"ARROW1"):
        return pa.ipc.open_file(pa.py_buffer(data))
    return pa.ipc.open_stream(pa.py_buffer(data))


def arrow_bytes(path):
    """A file or a stream, with Arrow's magic if it has any."""
    data = path.read_bytes()
    if data.startswith(b"ALKAID1"):
        # Six bytes at the end, where Alkaid has seven.
        return b"ARROW1\0\0" + data[8:-7] + b"ARROW1"
    return data
