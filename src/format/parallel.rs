//! Work that is shared among a few threads.

use std::sync::{Mutex, PoisonError};

use super::error::Result;

/// Does each task once; threads take the next when they are done with one. After an error, only what has been begun is done.
pub(crate) fn in_parallel<T: Send>(tasks: Vec<T>, threads: usize, work: impl Fn(T) -> Result<()> + Sync) -> Result<()> {
    let threads = threads.min(tasks.len());
    let tasks = Mutex::new(tasks.into_iter());
    let run = || -> Result<()> {
        loop {
            let next = tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(task) = next else { return Ok(()) };
            work(task).inspect_err(|_| tasks.lock().unwrap_or_else(PoisonError::into_inner).by_ref().for_each(drop))?;
        }
    };
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let own = run();
        let others = helpers.into_iter().map(|helper| helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        others.fold(own, Result::and)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;
    use crate::format::Error;

    #[test]
    fn each_task_is_done_once_and_an_error_ends_the_work() {
        for threads in [1, 2, 5] {
            let mut numbers: Vec<usize> = (0..100).collect();
            in_parallel(numbers.iter_mut().collect(), threads, |number| {
                *number += 1000;
                Ok(())
            })
            .unwrap();
            assert_eq!(numbers, (1000..1100).collect::<Vec<_>>());
            let done = AtomicUsize::new(0);
            let fails = |task: usize| match task {
                0 => Err(Error::eof("the first")),
                _ => {
                    done.fetch_add(1, Relaxed);
                    Ok(())
                }
            };
            assert!(in_parallel((0..1000).collect(), threads, fails).is_err());
            assert!(threads > 1 || done.load(Relaxed) == 0);
        }
    }
}
