//! Files that are cut for partitions which read them side by side: one that is done goes on with what another has left.

use std::collections::HashMap;

use datafusion::datasource::listing::PartitionedFile;
use object_store::path::Path;

use super::io::byte_range;
use crate::format::share::Share;

/// Gives each range of a file that is cut its share of the file, for one execution in which any partition may have any row.
pub(super) fn shared(mut files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
    let mut ranges: HashMap<Path, Vec<usize>> = HashMap::new();
    for (index, file) in files.iter().enumerate().filter(|(_, file)| file.range.is_some()) {
        ranges.entry(file.object_meta.location.clone()).or_default().push(index);
    }
    for indices in ranges.into_values() {
        if indices.len() < 2 || !are_apart(&files, &indices) {
            continue;
        }
        let shares = Share::of_scans(indices.len());
        for (index, share) in indices.into_iter().zip(shares) {
            files[index].extensions.insert(share);
        }
    }
    files
}

/// Whether these are ranges of one file that have nothing in common: one that is there twice is read twice.
fn are_apart(files: &[PartitionedFile], indices: &[usize]) -> bool {
    let mut of_file = indices.iter().map(|index| (&files[*index].object_meta, &files[*index].partition_values));
    let first = of_file.next();
    if of_file.any(|other| Some(other) != first) {
        return false;
    }
    let mut ranges: Vec<_> = indices.iter().filter_map(|index| files[*index].range.as_ref().map(byte_range)).collect();
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    ranges.is_sorted_by(|before, after| before.end <= after.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the shares of these ranges of files, whether each has one.
    fn have_shares(files: &[(&str, Option<(i64, i64)>)]) -> Vec<bool> {
        let file = |(name, range): &(&str, Option<(i64, i64)>)| {
            let file = PartitionedFile::new(*name, 100);
            range.map_or_else(|| file.clone(), |(start, end)| file.clone().with_range(start, end))
        };
        shared(files.iter().map(file).collect()).iter().map(|file| file.extension::<Share>().is_some()).collect()
    }

    #[test]
    fn ranges_of_one_file_have_shares() {
        let files = [("a", Some((0, 50))), ("b", None), ("a", Some((50, 100))), ("c", Some((0, 50)))];
        assert_eq!(have_shares(&files), [true, false, true, false]);
    }

    #[test]
    fn what_is_told_apart_by_more_than_ranges_has_none() {
        let file = |start, year: i32| PartitionedFile::new("a", 100).with_range(start, start + 50).with_partition_values(vec![year.into()]);
        let are_shared = |files: [PartitionedFile; 2]| shared(files.into()).iter().all(|file| file.extension::<Share>().is_some());
        assert!(are_shared([file(0, 1999), file(50, 1999)]));
        assert!(!are_shared([file(0, 1999), file(50, 2000)]));
        let longer = PartitionedFile { object_meta: PartitionedFile::new("a", 200).object_meta, ..file(50, 1999) };
        assert!(!are_shared([file(0, 1999), longer]));
    }

    #[test]
    fn a_file_that_is_there_twice_has_none() {
        let files = [("a", Some((0, 50))), ("a", Some((50, 100))), ("a", Some((0, 50))), ("a", Some((50, 100)))];
        assert_eq!(have_shares(&files), [false; 4]);
    }
}
