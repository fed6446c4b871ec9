"""Random predicates: the SQL shell finds in a file the rows that pyarrow finds in the table it wrote there.

Each table is asked twice: as pyarrow has written it, without bounds of its batches, and as the shell has written it again, in small batches with bounds.
"""

import functools
import json
import re
import subprocess
import sys
import typing

import pyarrow as pa
import pyarrow.compute as pc

from columns import arrow, columns, slots
from files import read, write

COMPARISONS = {"=": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
FORMS = ["rows", "rows", "last", "count"]


class Question(typing.NamedTuple):
    number: int
    path: str
    form: str
    where: str
    rows: list

    def sql(self):
        what = "count(*) AS row" if self.form == "count" else "row"
        end = " ORDER BY row DESC LIMIT 5" if self.form == "last" else ""
        return f"SELECT {self.number} AS number, {what} FROM '{self.path}' WHERE {self.where}{end}"

    def answer(self):
        return {"rows": self.rows, "last": self.rows[-5:], "count": [len(self.rows)]}[self.form]


def check(rng, tools):
    source, target, found = (tools.scratch / name for name in ["source.arrow", "target.ipc", "found.arrow"])
    rows = rng.choice([1, 50, 500])
    asked = columns(rng, rows)
    batch = pa.RecordBatch.from_arrays([pa.array(range(rows), pa.int64()), *(column.written for column in asked)], ["row", *(column.name for column in asked)])
    said = f"{batch.schema}\n{rows} rows, written as {write(rng, source, batch)}"
    parts = [part for column in asked for part in column.parts]
    predicates = [predicate(rng, parts, rng.randint(0, 2)) for _ in range(8)]
    questions = [question(rng, number, path, *each) for number, (path, each) in enumerate((path, each) for path in [source, target] for each in predicates)]
    where, mask = predicates[0]
    script = [
        *settings(rng),
        f"COPY (SELECT * FROM '{source}') TO '{target}' OPTIONS (batch_rows {rng.choice([7, 20])}, compression {rng.choice(['none', 'lz4'])})",
        *(question.sql() for question in questions),
        f"COPY (SELECT * FROM '{target}' WHERE {where}) TO '{found}'",
        *(f"EXPLAIN ANALYZE {question.sql()}" for question in questions[-3:]),
    ]
    lines = run(tools.shell, script, said)
    for asked in questions:
        answer = sorted(line["row"] for line in lines if line.get("number") == asked.number)
        if answer != asked.answer():
            sys.exit(f"{said}\n{asked.sql()}\nfinds {answer} instead of {asked.answer()}")
    check_rows(read(found), batch, mask, f"{said}\n{where}")
    return {"predicates": len(predicates), "batches that bounds drop": dropped(lines), "rows found": sum(len(question.rows) for question in questions)}


def question(rng, number, path, where, mask):
    return Question(number, path, rng.choice(FORMS), where, pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist())


def settings(rng):
    """What a query may be run with; rows are the same."""
    choices = ["datafusion.execution.batch_size = 64", "datafusion.execution.target_partitions = 1", "alkaid.pushdown_filters = false", "alkaid.memory_map = true"]
    return [f"SET {setting}" for setting in choices if rng.random() < 0.2]


def run(shell, script, said):
    done = subprocess.run([shell, "--quiet", "--format", "nd-json"], input=";\n".join(script), capture_output=True, text=True)
    if done.returncode != 0:
        failed = re.search(r"line (\d+):", done.stderr)
        sys.exit(f"{said}\n{script[int(failed[1]) - 1] if failed else ''}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line]


def check_rows(ours, batch, mask, said):
    """Whether these are the rows that the predicate is true of, with all that is in them."""
    ours.validate(full=True)
    rows = pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist()
    places = sorted(range(ours.num_rows), key=ours["row"].to_pylist().__getitem__)
    for name, theirs in zip(batch.schema.names, batch.columns):
        known, found = slots(theirs), [value for chunk in ours[name].chunks for value in slots(chunk)]
        expected, found = [known[row] for row in rows], [found[place] for place in places]
        # A NaN is not equal to itself, but is written as it is.
        if theirs.type != ours[name].type or repr(expected) != repr(found):
            sys.exit(f"{said}\nfinds {name} of {ours[name].type} to be\n{found}\ninstead of\n{expected}")


def dropped(lines):
    counts = [re.findall(r"stripes_pruned_statistics=(\d+) total → (\d+) matched", line.get("plan", "")) for line in lines]
    return sum(int(total) - int(matched) for found in counts for total, matched in found)


def predicate(rng, parts, depth):
    """In SQL, and the rows of which it is true, or null."""
    if depth == 0:
        sql, mask = about(rng, rng.choice(parts))
        # Not of more than one: where the engine finds that they exclude each other, it forgets that they may be null.
        return (f"NOT ({sql})", pc.invert(mask)) if rng.random() < 0.1 else (sql, mask)
    (left, left_mask), (right, right_mask) = predicate(rng, parts, depth - 1), predicate(rng, parts, depth - 1)
    word, combined = rng.choice([("AND", pc.and_kleene), ("OR", pc.or_kleene)])
    return f"({left} {word} {right})", combined(left_mask, right_mask)


def about(rng, part):
    if part.leaf is None:
        return nulls(rng, part)
    kinds = [comparison, comparison, among, between, nulls] + [like] * pa.types.is_string(part.values.type)
    return rng.choice(kinds)(rng, part)


def comparison(rng, part):
    operator = rng.choice(list(COMPARISONS))
    value = chosen(rng, part)
    return f"{part.sql} {operator} {part.leaf.literal(value)}", compared(operator, part, value)


def compared(operator, part, value):
    return COMPARISONS[operator](part.values, arrow([part.leaf.key(value)], part.values.type)[0])


def among(rng, part):
    values = [chosen(rng, part) for _ in range(rng.choice([1, 3, 6]))]
    literals = ", ".join(map(part.leaf.literal, values))
    mask = functools.reduce(pc.or_kleene, [compared("=", part, value) for value in values])
    return (f"{part.sql} IN ({literals})", mask) if rng.random() < 0.7 else (f"{part.sql} NOT IN ({literals})", pc.invert(mask))


def between(rng, part):
    low, high = sorted([chosen(rng, part), chosen(rng, part)], key=part.leaf.key)
    mask = pc.and_kleene(compared(">=", part, low), compared("<=", part, high))
    return f"{part.sql} BETWEEN {part.leaf.literal(low)} AND {part.leaf.literal(high)}", mask


def nulls(rng, part):
    return (f"{part.sql} IS NULL", part.values.is_null()) if rng.random() < 0.5 else (f"{part.sql} IS NOT NULL", part.values.is_valid())


def like(rng, part):
    value = rng.choice(part.pool)
    start, end = sorted(rng.randint(0, len(value)) for _ in range(2))
    pattern = rng.choice([f"{value[:end]}%", f"%{value[start:]}", f"%{value[start:end]}%", f"_{value[1:end]}%", value])
    mask = pc.match_like(part.values, pattern)
    literal = part.leaf.literal(pattern)
    return (f"{part.sql} LIKE {literal}", mask) if rng.random() < 0.7 else (f"{part.sql} NOT LIKE {literal}", pc.invert(mask))


def chosen(rng, part):
    """A value, but for zeros: which of the two is meant is another question."""
    return rng.choice([value for value in part.pool if value != 0 or not isinstance(value, float)] or [1.0])
