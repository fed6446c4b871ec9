//! The shape of a column in a record batch: which nodes and buffers it has, and whose dictionaries.

use std::collections::HashMap;

use arrow::datatypes::{DataType, UnionMode};

/// A field and its children as record batches store them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shape {
    /// The field's type.
    pub(crate) data_type: DataType,
    /// The dictionary that its codes stand for. The children are then those of the dictionary's values, and not here.
    pub(crate) dictionary: Option<i64>,
    /// Children in the order of the file.
    pub(crate) children: Vec<Shape>,
    /// Of its values nothing is read but how many there are.
    pub(crate) is_counted: bool,
}

/// How many of each there are, or come before, in a flattened record batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    /// Field nodes.
    pub(crate) nodes: usize,
    /// Buffers, variadic ones and old bitmaps aside.
    pub(crate) buffers: usize,
    /// Fields with variadic buffers.
    pub(crate) variadic: usize,
    /// Fields that had a bitmap before V5, and have none since: unions, and what is run-end encoded.
    pub(crate) old_bitmaps: usize,
}

impl Counts {
    fn of(nodes: usize, buffers: usize) -> Self {
        Self { nodes, buffers, ..Self::default() }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            nodes: self.nodes + other.nodes,
            buffers: self.buffers + other.buffers,
            variadic: self.variadic + other.variadic,
            old_bitmaps: self.old_bitmaps + other.old_bitmaps,
        }
    }
}

impl Shape {
    /// Of the field and all below it.
    pub(crate) fn counts(&self) -> Counts {
        self.children.iter().map(Self::counts).fold(self.own_counts(), Counts::plus)
    }

    /// Of the field alone.
    pub(super) fn own_counts(&self) -> Counts {
        use DataType::{
            Binary, BinaryView, FixedSizeList, LargeBinary, LargeListView, LargeUtf8, ListView, RunEndEncoded, Struct, Union, Utf8, Utf8View,
        };
        match &self.data_type {
            DataType::Null => Counts::of(1, 0),
            RunEndEncoded(..) => Counts { old_bitmaps: 1, ..Counts::of(1, 0) },
            FixedSizeList(..) | Struct(_) => Counts::of(1, 1),
            Utf8 | LargeUtf8 | Binary | LargeBinary | ListView(_) | LargeListView(_) => Counts::of(1, 3),
            Utf8View | BinaryView => Counts { variadic: 1, ..Counts::of(1, 2) },
            Union(_, UnionMode::Sparse) => Counts { old_bitmaps: 1, ..Counts::of(1, 1) },
            Union(_, UnionMode::Dense) => Counts { old_bitmaps: 1, ..Counts::of(1, 2) },
            _ => Counts::of(1, 2),
        }
    }

    /// The dictionaries of the field and all below it, in their order.
    pub(crate) fn dictionaries(&self, found: &mut Vec<i64>) {
        found.extend(self.dictionary);
        self.children.iter().for_each(|child| child.dictionaries(found));
    }
}

/// Where the columns of a schema are in a flattened record batch.
#[derive(Debug)]
pub(crate) struct Positions {
    /// What comes before each column, and at the end the sum of all.
    before: Vec<Counts>,
}

impl Positions {
    pub(crate) fn new<'a>(columns: impl Iterator<Item = &'a Shape>) -> Self {
        let mut sum = Counts::default();
        let mut before = vec![sum];
        for column in columns {
            sum = sum.plus(column.counts());
            before.push(sum);
        }
        Self { before }
    }

    /// What comes before a column, and before the one behind it.
    pub(crate) fn of(&self, column: usize) -> Option<(Counts, Counts)> {
        Some((*self.before.get(column)?, *self.before.get(column.checked_add(1)?)?))
    }

    /// What comes before each column, and before the one behind it.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Counts, Counts)> {
        self.before.iter().copied().zip(self.before.iter().skip(1).copied())
    }

    pub(crate) fn total(&self) -> Counts {
        self.before.last().copied().unwrap_or_default()
    }
}

/// The shapes of the values of dictionaries, by id.
pub(crate) type DictionaryShapes = HashMap<i64, Shape>;
