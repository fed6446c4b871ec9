//! Where files are cut for partitions that read them side by side: between stripes, if that is near.
//!
//! The engine cuts files into even ranges of bytes. A stripe that is cut is read by two partitions: both decode its dictionaries, and the pages at the cut.

use std::ops::Range;

use datafusion::common::HashMap;
use datafusion::datasource::listing::{FileRange, PartitionedFile};
use datafusion::datasource::physical_plan::FileGroup;
use object_store::path::Path;

use super::io::byte_range;

/// One in so many bytes of a stripe are about what is read twice if it is cut: no farther is a cut moved, ...
const STRIPE_PART: u64 = 4;
/// ... or to the nearer end of the stripe, where partitions share what is left, so that it does not matter that ranges are not even.
const SHARED_STRIPE_PART: u64 = 2;
/// No more does a range grow or shrink for one.
const RANGE_PART: u64 = 8;

/// Moves the cuts of files to where stripes begin, as `stripes_of` tells them: in their order, and none where they are not known.
pub(super) fn between_stripes(groups: Vec<FileGroup>, are_shared: bool, stripes_of: impl Fn(&PartitionedFile) -> Vec<Range<u64>>) -> Vec<FileGroup> {
    let stripe_part = if are_shared { SHARED_STRIPE_PART } else { STRIPE_PART };
    let mut pieces: HashMap<&Path, (&PartitionedFile, Vec<Range<u64>>)> = HashMap::new();
    for file in groups.iter().flat_map(FileGroup::iter) {
        let Some(range) = &file.range else { continue };
        pieces.entry(&file.object_meta.location).or_insert((file, Vec::new())).1.push(byte_range(range));
    }
    let cut = pieces.into_iter().filter(|(_, (_, ranges))| ranges.len() > 1);
    let cuts_of: HashMap<Path, HashMap<u64, u64>> =
        cut.map(|(path, (file, ranges))| (path.clone(), moved_cuts(&ranges, &stripes_of(file), stripe_part))).collect();
    let moved = |file: &PartitionedFile| {
        let (range, cuts) = file.range.as_ref().zip(cuts_of.get(&file.object_meta.location))?;
        let Range { start, end } = byte_range(range);
        let place = |cut: u64, was: i64| cuts.get(&cut).and_then(|cut| i64::try_from(*cut).ok()).unwrap_or(was);
        Some(FileRange { start: place(start, range.start), end: place(end, range.end) }).filter(|moved| moved != range)
    };
    let with_moved = |mut file: PartitionedFile| {
        file.range = moved(&file).or(file.range);
        file
    };
    // What is known of the rows of a group is true of it as long as it is the same.
    let of_group = |group: FileGroup| {
        let is_moved = group.iter().any(|file| moved(file).is_some());
        if is_moved { group.into_inner().into_iter().map(with_moved).collect() } else { group }
    };
    groups.into_iter().map(of_group).collect()
}

/// Of each place where one range ends and another begins, where both are to do so instead.
fn moved_cuts(ranges: &[Range<u64>], stripes: &[Range<u64>], stripe_part: u64) -> HashMap<u64, u64> {
    let ends = ranges.iter().map(|range| range.end).filter(|end| ranges.iter().any(|range| range.start == *end));
    ends.filter_map(|cut| {
        let stripe = stripes.iter().find(|stripe| (stripe.start..=stripe.end).contains(&cut))?;
        let place = if cut - stripe.start <= stripe.end - cut { stripe.start } else { stripe.end };
        let beside = ranges.iter().filter(|range| range.start == cut || range.end == cut).map(|range| range.end.saturating_sub(range.start)).min()?;
        let is_near = place.abs_diff(cut) <= ((stripe.end - stripe.start) / stripe_part).min(beside / RANGE_PART);
        is_near.then_some((cut, place))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Schema;
    use datafusion::common::Statistics;

    use super::*;

    fn group(files: &[(&str, i64, i64)]) -> FileGroup {
        files.iter().map(|(name, start, end)| PartitionedFile::new(*name, 1000).with_range(*start, *end)).collect()
    }

    fn ranges(groups: &[FileGroup]) -> Vec<Vec<(String, i64, i64)>> {
        let range = |file: &PartitionedFile| {
            let range = file.range.as_ref().map_or((-1, -1), |range| (range.start, range.end));
            (file.object_meta.location.to_string(), range.0, range.1)
        };
        groups.iter().map(|group| group.iter().map(range).collect()).collect()
    }

    fn check(before: &[&[(&str, i64, i64)]], after: &[&[(&str, i64, i64)]]) {
        check_shared(false, before, after);
    }

    fn check_shared(are_shared: bool, before: &[&[(&str, i64, i64)]], after: &[&[(&str, i64, i64)]]) {
        let groups = before.iter().map(|files| group(files)).collect();
        let stripes = |file: &PartitionedFile| match file.object_meta.location.as_ref() {
            "a" => vec![8..200, 200..420, 420..700, 700..980],
            "b" => vec![8..504, 504..980],
            "d" => (0..10).map(|stripe| 100 * stripe..100 * (stripe + 1)).collect(),
            _ => Vec::new(),
        };
        let expected: Vec<_> = after.iter().map(|files| group(files)).collect();
        assert_eq!(ranges(&between_stripes(groups, are_shared, stripes)), ranges(&expected));
    }

    #[test]
    fn cuts_move_to_near_ends_of_stripes() {
        check(&[&[("a", 0, 450)], &[("a", 450, 1000)]], &[&[("a", 0, 420)], &[("a", 420, 1000)]]);
        check(&[&[("a", 0, 400)], &[("a", 400, 1000)]], &[&[("a", 0, 420)], &[("a", 420, 1000)]]);
        // In the order of the groups, whatever that is, and file by file.
        check(
            &[&[("a", 500, 1000), ("b", 0, 500)], &[("b", 500, 1000), ("a", 0, 500)]],
            &[&[("a", 500, 1000), ("b", 0, 504)], &[("b", 504, 1000), ("a", 0, 500)]],
        );
    }

    #[test]
    fn cuts_of_shared_files_move_farther() {
        let far: [&[_]; 2] = [&[("d", 0, 440)], &[("d", 440, 1000)]];
        check(&far, &far);
        check_shared(true, &far, &[&[("d", 0, 400)], &[("d", 400, 1000)]]);
        // 140 bytes are more than an eighth of a range.
        let too_far: [&[_]; 2] = [&[("a", 0, 560)], &[("a", 560, 1000)]];
        check_shared(true, &too_far, &too_far);
    }

    #[test]
    fn cuts_stay_where_stripes_end_far_away_or_nobody_knows() {
        for before in [
            [&[("a", 0, 560)], &[("a", 560, 1000)]],
            // 50 bytes are a quarter of no stripe.
            [&[("a", 0, 370)], &[("a", 370, 1000)]],
            [&[("c", 0, 500)], &[("c", 500, 1000)]],
            // Not the same place of a file.
            [&[("a", 0, 410)], &[("b", 410, 1000)]],
        ] {
            check(&before.map(|group| &group[..]), &before.map(|group| &group[..]));
        }
        // Ranges so small that a stripe away would double them.
        let small: Vec<[(&str, i64, i64); 1]> = (0..10).map(|range| [("b", 100 * range, 100 * (range + 1))]).collect();
        let small: Vec<&[(&str, i64, i64)]> = small.iter().map(|group| &group[..]).collect();
        let mut after = small.clone();
        (after[4], after[5]) = (&[("b", 400, 504)], &[("b", 504, 600)]);
        check(&small, &after);
    }

    #[test]
    fn a_file_that_is_there_twice_is_cut_twice_at_the_same_place() {
        let twice: [&[_]; 2] = [&[("a", 0, 450), ("a", 0, 450)], &[("a", 450, 1000), ("a", 450, 1000)]];
        check(&twice, &[&[("a", 0, 420), ("a", 0, 420)], &[("a", 420, 1000), ("a", 420, 1000)]]);
    }

    #[test]
    fn what_is_known_of_a_group_is_kept_if_it_stays_the_same() {
        let known = |files| group(files).with_statistics(Statistics::new_unknown(&Schema::empty()).into());
        let stripes = |_: &PartitionedFile| vec![8..420, 420..980];
        let groups = vec![known(&[("a", 0, 450)]), known(&[("a", 450, 1000)]), known(&[("b", 0, 700)]), known(&[("b", 700, 1000)])];
        let moved = between_stripes(groups, false, stripes);
        let are_known: Vec<bool> = moved.iter().map(|group| group.file_statistics(None).is_some()).collect();
        assert_eq!(are_known, [false, false, true, true]);
    }

    #[test]
    fn a_file_that_is_not_cut_stays_as_it_is() {
        let groups = vec![vec![PartitionedFile::new("a", 1000)].into_iter().collect::<FileGroup>()];
        assert_eq!(ranges(&between_stripes(groups, false, |_| vec![8..500, 500..980])), [[("a".to_owned(), -1, -1)]]);
    }
}
