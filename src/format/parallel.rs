//! Work that is shared among a few threads.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::error::Result;

/// Something to do, and about how long it takes in comparison with others.
#[derive(Debug)]
pub(crate) struct Task<T> {
    pub(crate) weight: usize,
    pub(crate) task: T,
}

/// Does each task once; threads take the next when they are done with one. After an error or a panic, only what has been begun is done.
pub(crate) fn in_parallel<T: Send>(tasks: Vec<T>, threads: usize, work: impl Fn(T) -> Result<()> + Sync) -> Result<()> {
    let threads = threads.min(tasks.len());
    let tasks = tasks.into_iter().map(|task| Task { weight: 0, task });
    in_parallel_growing(tasks, threads, |task| work(task).map(|()| Vec::new()))
}

/// The same with tasks that lead to others. What takes longest goes first: else a thread would be busy with it when there is nothing left for the others.
pub(crate) fn in_parallel_growing<T: Send>(
    tasks: impl IntoIterator<Item = Task<T>>,
    threads: usize,
    work: impl Fn(T) -> Result<Vec<Task<T>>> + Sync,
) -> Result<()> {
    let queue = Queue::of(tasks);
    let run = || -> Result<()> {
        while let Some((task, _turn)) = queue.begin() {
            match work(task) {
                Ok(more) => queue.lock().add(more),
                Err(error) => {
                    queue.lock().give_up();
                    return Err(error);
                }
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let own = run();
        let others = helpers.into_iter().map(|helper| helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        others.fold(own, Result::and)
    })
}

/// Tasks that wait, and threads that wait for tasks.
struct Queue<T> {
    tasks: Mutex<Tasks<T>>,
    changed: Condvar,
}

impl<T> Queue<T> {
    fn of(tasks: impl IntoIterator<Item = Task<T>>) -> Self {
        let mut all = Tasks { waiting: BinaryHeap::new(), begun: 0, added: 0, is_given_up: false };
        all.add(tasks);
        Self { tasks: Mutex::new(all), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Tasks<T>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next task, waiting for one as long as others may lead to it.
    fn begin(&self) -> Option<(T, Turn<'_, T>)> {
        let is_idle = |tasks: &mut Tasks<T>| tasks.waiting.is_empty() && tasks.begun > 0;
        let mut tasks = self.changed.wait_while(self.lock(), is_idle).unwrap_or_else(PoisonError::into_inner);
        let Waiting { task, .. } = tasks.waiting.pop()?;
        tasks.begun += 1;
        Some((task.task, Turn(self)))
    }
}

struct Tasks<T> {
    waiting: BinaryHeap<Waiting<T>>,
    begun: usize,
    added: usize,
    is_given_up: bool,
}

impl<T> Tasks<T> {
    fn give_up(&mut self) {
        self.is_given_up = true;
        self.waiting.clear();
    }

    fn add(&mut self, tasks: impl IntoIterator<Item = Task<T>>) {
        for task in tasks.into_iter().take_while(|_| !self.is_given_up) {
            self.waiting.push(Waiting { task, number: self.added });
            self.added += 1;
        }
    }
}

/// A task that is done when this is dropped, however it has ended.
struct Turn<'a, T>(&'a Queue<T>);

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        let mut tasks = self.0.lock();
        tasks.begun -= 1;
        if std::thread::panicking() {
            tasks.give_up();
        }
        drop(tasks);
        self.0.changed.notify_all();
    }
}

struct Waiting<T> {
    task: Task<T>,
    number: usize,
}

impl<T> Waiting<T> {
    /// Of tasks as long as each other, the one that was added first.
    fn rank(&self) -> (usize, Reverse<usize>) {
        (self.task.weight, Reverse(self.number))
    }
}

impl<T> PartialEq for Waiting<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl<T> Eq for Waiting<T> {}

impl<T> PartialOrd for Waiting<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Waiting<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
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

    #[test]
    fn tasks_lead_to_others_and_the_longest_goes_first() {
        for threads in [1, 2, 5] {
            let order = Mutex::new(Vec::new());
            let halves = |weight: usize| match weight {
                0 | 1 => Vec::new(),
                _ => [weight / 2, weight - weight / 2].map(|weight| Task { weight, task: weight }).into(),
            };
            let tasks = [3, 64, 5].map(|weight| Task { weight, task: weight });
            in_parallel_growing(tasks, threads, |weight| {
                order.lock().unwrap().push(weight);
                Ok(halves(weight))
            })
            .unwrap();
            let mut order = order.into_inner().unwrap();
            if threads == 1 {
                assert!(order.is_sorted_by(|a, b| a >= b), "{order:?}");
            }
            order.retain(|weight| *weight == 1);
            assert_eq!(order.len(), 3 + 64 + 5, "{threads} threads");
        }
    }

    #[test]
    fn one_task_that_leads_to_two_keeps_two_threads_busy() {
        let both = std::sync::Barrier::new(2);
        in_parallel_growing([Task { weight: 0, task: true }], 2, |is_first| {
            if is_first {
                return Ok([false; 2].map(|task| Task { weight: 0, task }).into());
            }
            both.wait();
            Ok(Vec::new())
        })
        .unwrap();
    }

    #[test]
    fn after_an_error_no_more_tasks_come() {
        let both = std::sync::Barrier::new(2);
        let late = AtomicUsize::new(0);
        let tasks = [0, 1].map(|task| Task { weight: 0, task });
        let result = in_parallel_growing(tasks, 2, |task| match task {
            0 => {
                both.wait();
                // The other one has long failed when this leads to a third.
                std::thread::sleep(std::time::Duration::from_millis(50));
                Ok(vec![Task { weight: 0, task: 2 }])
            }
            1 => {
                both.wait();
                Err(Error::eof("the other"))
            }
            _ => {
                late.fetch_add(1, Relaxed);
                Ok(Vec::new())
            }
        });
        assert!(result.is_err());
        assert_eq!(late.into_inner(), 0);
    }

    #[test]
    fn who_waits_for_tasks_is_woken_by_an_error_and_by_a_panic() {
        let slow_then = |end: fn() -> Result<()>| {
            let tasks = [0, 1].map(|task| Task { weight: 0, task });
            in_parallel_growing(tasks, 2, move |task| {
                if task == 0 {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    end()?;
                }
                Ok(Vec::new())
            })
        };
        assert!(slow_then(|| Err(Error::eof("the slow one"))).is_err());
        assert!(std::panic::catch_unwind(|| slow_then(|| panic!("the slow one"))).is_err());
    }
}
