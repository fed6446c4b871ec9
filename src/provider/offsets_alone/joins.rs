//! What joins need of their two inputs.

use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{JoinFilter, JoinOnRef, build_join_schema};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};

use super::{Needs, has_lists};

/// A join of any kind.
struct Join<'a> {
    left: &'a Arc<dyn ExecutionPlan>,
    right: &'a Arc<dyn ExecutionPlan>,
    join_type: JoinType,
    keys: JoinOnRef<'a>,
    filter: Option<&'a JoinFilter>,
    /// Which of the columns that the join's type has are given; all if `None`.
    projection: Option<&'a [usize]>,
}

impl<'a> Join<'a> {
    fn of(plan: &'a dyn ExecutionPlan) -> Option<Self> {
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            return Some(Self {
                left: join.left(),
                right: join.right(),
                join_type: *join.join_type(),
                keys: join.on(),
                filter: join.filter(),
                projection: join.projection.as_deref(),
            });
        }
        if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
            let (left, right) = (join.left(), join.right());
            return Some(Self { left, right, join_type: join.join_type(), keys: join.on(), filter: join.filter().as_ref(), projection: None });
        }
        if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
            return Some(Self {
                left: join.left(),
                right: join.right(),
                join_type: *join.join_type(),
                keys: &[],
                filter: join.filter(),
                projection: join.projection().as_deref(),
            });
        }
        let join = plan.downcast_ref::<CrossJoinExec>()?;
        Some(Self { left: join.left(), right: join.right(), join_type: JoinType::Inner, keys: &[], filter: None, projection: None })
    }
}

/// What a join, whose own columns are needed so far, needs of its left and its right input; `None` if it is no join that is known, or there are no lists.
pub(super) fn needs_of_joined(plan: &dyn ExecutionPlan, needs: &Needs) -> Option<[Needs; 2]> {
    let join = Join::of(plan)?;
    let (left, right) = (join.left.schema(), join.right.schema());
    if !has_lists(&left) && !has_lists(&right) {
        return None;
    }
    let (joined, places) = build_join_schema(&left, &right, &join.join_type);
    let mut of_inputs = [Needs::none(&left), Needs::none(&right)];
    let mut add = |side, column, is_needed| match side {
        JoinSide::Left => of_inputs[0].add(column, is_needed),
        JoinSide::Right => of_inputs[1].add(column, is_needed),
        JoinSide::None => {}
    };
    let all: Vec<usize> = (0..joined.fields().len()).collect();
    for (index, column) in join.projection.unwrap_or(&all).iter().enumerate() {
        let place = places.get(*column)?;
        add(place.side, place.index, needs.of(index));
    }
    // It asks of columns in an order of its own, and keeps their types.
    for place in join.filter.iter().flat_map(|filter| filter.column_indices()) {
        add(place.side, place.index, true);
    }
    for (left_key, right_key) in join.keys {
        of_inputs[0].add_expr(left_key, &left);
        of_inputs[1].add_expr(right_key, &right);
    }
    Some(of_inputs)
}
