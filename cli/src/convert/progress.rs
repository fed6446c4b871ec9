//! How far a conversion has come, on standard error.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::store::CountingStore;
use crate::units;

const LINE: &str = "{bar:30} {percent:>3}%  {bytes} of {total_bytes}  {msg}  {bytes_per_sec}  {eta} left";

/// A bar over the bytes of the input, which are known for every format; gone when dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    store: Arc<CountingStore>,
    rows: AtomicU64,
}

impl Progress {
    /// A bar of `bytes`; hidden when `quiet`, and by itself where standard error is no terminal.
    pub(crate) fn new(bytes: u64, store: Arc<CountingStore>, quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(bytes), target);
        if let Ok(style) = ProgressStyle::with_template(LINE) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, store, rows: AtomicU64::new(0) }
    }

    /// Counts rows that were read.
    pub(crate) fn add_rows(&self, rows: usize) {
        let rows = rows as u64;
        let total = self.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        if !self.bar.is_hidden() {
            self.bar.set_position(self.store.bytes_read().min(self.bar.length().unwrap_or(u64::MAX)));
            self.bar.set_message(format!("{} rows", units::grouped(total)));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
