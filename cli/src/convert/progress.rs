//! How far a conversion has come, on standard error.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::store::CountingStore;
use crate::units;

const OF_ALL: &str = "{bar:30} {percent:>3}%  {msg}  {eta} left";
const SO_FAR: &str = "{spinner} {msg}";

/// A bar over the rows of the input where the files say how many they have; where they do not, what was read so far. Bytes would mislead: they
/// are fetched long before they are decoded. Gone when dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    store: Arc<CountingStore>,
    rows: AtomicU64,
}

impl Progress {
    /// For so many `rows`, if that is known; hidden when `quiet`, and by itself where standard error is no terminal.
    pub(crate) fn new(rows: Option<u64>, store: Arc<CountingStore>, quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(rows, target);
        if let Ok(style) = ProgressStyle::with_template(if rows.is_some() { OF_ALL } else { SO_FAR }) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, store, rows: AtomicU64::new(0) }
    }

    /// Counts rows that were read.
    pub(crate) fn add_rows(&self, rows: usize) {
        let rows = rows as u64;
        let total = self.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        self.bar.set_position(total);
        if !self.bar.is_hidden() {
            self.bar.set_message(format!("{} rows  {} read", units::grouped(total), units::size(self.store.bytes_read())));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_moves_with_the_rows() {
        let progress = Progress::new(Some(200), Arc::default(), true);
        progress.add_rows(30);
        progress.add_rows(20);
        assert_eq!((progress.bar.position(), progress.bar.length()), (50, Some(200)));
    }

    #[test]
    fn without_a_count_there_is_no_share_to_show() {
        let progress = Progress::new(None, Arc::default(), true);
        progress.add_rows(30);
        assert_eq!((progress.bar.position(), progress.bar.length()), (30, None));
    }
}
