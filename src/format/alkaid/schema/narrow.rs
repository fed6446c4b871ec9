//! Reading a part of a nested column: which nodes and buffers of it are left.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Fields};

use super::shape::Shape;
use crate::format::alkaid::batch::{Node, Parts};
use crate::format::array::{listed_item, matched_fields};
use crate::format::error::{Error, Result};

impl Shape {
    /// The shape of what is left of the column when it is read as `out`; `None` if that is all of it, or if it cannot be read in parts.
    pub(crate) fn narrowed(&self, out: &DataType) -> Result<Option<Self>> {
        use DataType::{FixedSizeList, LargeList, LargeListView, List, ListView, Map, Struct};
        if self.dictionary.is_some() || self.data_type == *out {
            return Ok(None);
        }
        match (&self.data_type, out) {
            (Struct(fields), Struct(wanted)) => self.narrowed_struct(fields, wanted),
            (List(item), List(wanted)) => self.narrowed_list(item, wanted, List),
            (LargeList(item), LargeList(wanted)) => self.narrowed_list(item, wanted, LargeList),
            (ListView(item), ListView(wanted)) => self.narrowed_list(item, wanted, ListView),
            (LargeListView(item), LargeListView(wanted)) => self.narrowed_list(item, wanted, LargeListView),
            (FixedSizeList(item, size), FixedSizeList(wanted, _)) => self.narrowed_list(item, wanted, |item| FixedSizeList(item, *size)),
            // Entries without values are no entries, so what is left of a map is a list.
            (Map(item, _), List(wanted)) if listed_item(item.data_type(), wanted.data_type()).is_none() => self.narrowed_list(item, wanted, List),
            (Map(item, sorted), Map(wanted, _)) => self.narrowed_list(item, wanted, |item| Map(item, *sorted)),
            _ => Ok(None),
        }
    }

    fn narrowed_struct(&self, fields: &Fields, wanted: &Fields) -> Result<Option<Self>> {
        let (mut left, mut children) = (Vec::with_capacity(wanted.len()), Vec::with_capacity(wanted.len()));
        let mut is_whole = fields.len() == wanted.len();
        for ((field, child), out) in fields.iter().zip(&self.children).zip(matched_fields(fields, wanted)?) {
            let Some(out) = out else { continue };
            let narrowed = child.narrowed(out.data_type())?;
            is_whole &= narrowed.is_none();
            let child = narrowed.unwrap_or_else(|| child.clone());
            left.push(with_type(field, &child.data_type));
            children.push(child);
        }
        Ok((!is_whole).then(|| Self { data_type: DataType::Struct(left.into()), dictionary: None, children, is_counted: false }))
    }

    fn narrowed_list(&self, item: &FieldRef, wanted: &FieldRef, list: impl Fn(FieldRef) -> DataType) -> Result<Option<Self>> {
        let Some(child) = self.children.first() else { return Ok(None) };
        if listed_item(item.data_type(), wanted.data_type()).is_none() {
            let child = Self { data_type: DataType::Null, dictionary: None, children: Vec::new(), is_counted: true };
            return Ok(Some(Self { data_type: list(Arc::clone(wanted)), dictionary: None, children: vec![child], is_counted: false }));
        }
        let narrowed = child.narrowed(wanted.data_type())?;
        Ok(narrowed.map(|child| Self {
            data_type: list(with_type(item, &child.data_type)),
            dictionary: None,
            children: vec![child],
            is_counted: false,
        }))
    }
}

fn with_type(field: &FieldRef, data_type: &DataType) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(data_type.clone()))
}

impl Parts {
    /// What is left of the parts of a column of the shape `whole` when it is read in the shape `narrowed`.
    pub(crate) fn narrowed(&self, whole: &Shape, narrowed: &Shape, old_bitmaps: bool) -> Result<Self> {
        let (nodes, buffers, variadic) = (self.nodes.iter(), self.buffers.iter(), self.variadic.iter());
        let mut walk = Walk { nodes, buffers, variadic, old_bitmaps, left: Self::default() };
        walk.shape(whole, Some(narrowed))?;
        Ok(walk.left)
    }
}

/// Walks a shape depth first, as a record batch does.
struct Walk<'a> {
    nodes: std::slice::Iter<'a, Node>,
    buffers: std::slice::Iter<'a, Range<u64>>,
    variadic: std::slice::Iter<'a, usize>,
    old_bitmaps: bool,
    left: Parts,
}

impl Walk<'_> {
    fn shape(&mut self, whole: &Shape, wanted: Option<&Shape>) -> Result<()> {
        let own = whole.own_counts();
        let variadic: Vec<usize> = self.variadic.by_ref().take(own.variadic).copied().collect();
        let bitmaps = if self.old_bitmaps { own.old_bitmaps } else { 0 };
        let buffers = own.buffers + bitmaps + variadic.iter().sum::<usize>();
        let node = self.nodes.next().ok_or_else(|| Error::invalid_file("a batch has too few fields"))?;
        let buffers: Vec<_> = self.buffers.by_ref().take(buffers).cloned().collect();
        self.left.nodes.extend(wanted.map(|_| *node));
        let wanted = wanted.filter(|wanted| !wanted.is_counted);
        if wanted.is_some() {
            self.left.buffers.extend(buffers);
            self.left.variadic.extend(variadic);
        }
        let mut children = wanted.into_iter().flat_map(|wanted| &wanted.children);
        for (child, is_wanted) in whole.children.iter().zip(wanted_children(whole, wanted)?) {
            let wanted = if is_wanted { children.next() } else { None };
            self.shape(child, wanted)?;
        }
        Ok(())
    }
}

/// Which children of a shape are left.
fn wanted_children(whole: &Shape, wanted: Option<&Shape>) -> Result<Vec<bool>> {
    match (&whole.data_type, wanted.map(|wanted| &wanted.data_type)) {
        (_, None) => Ok(vec![false; whole.children.len()]),
        (DataType::Struct(fields), Some(DataType::Struct(wanted))) => {
            Ok(matched_fields(fields, wanted)?.into_iter().map(|field| field.is_some()).collect())
        }
        _ => Ok(vec![true; whole.children.len()]),
    }
}
