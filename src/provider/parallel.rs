//! Runs calls in parallel, on a few threads.

use std::convert::Infallible;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::logging;
use crate::model::LogLine;

/// The stack size of a thread, on which a TLS handshake runs. Only the pages that are touched become resident.
const CALL_STACK_BYTES: usize = 1024 * 1024;

/// Runs the tasks, at most `parallel_calls` at a time, and returns their answers in the order of the tasks.
pub(super) fn in_parallel<T: Sync, A: Send + Sync>(
    parallel_calls: usize,
    tasks: &[T],
    run: impl Fn(&T) -> A + Sync,
) -> Vec<A> {
    let Ok(answers) = try_in_parallel(parallel_calls, tasks, |task| Ok::<A, Infallible>(run(task)));
    answers
}

/// Runs the tasks like [`in_parallel`], and returns the first error in their order. After an error, no task begins.
pub(super) fn try_in_parallel<T: Sync, A: Send + Sync, E: Send + Sync>(
    parallel_calls: usize,
    tasks: &[T],
    run: impl Fn(&T) -> Result<A, E> + Sync,
) -> Result<Vec<A>, E> {
    let next = AtomicUsize::new(0);
    let answers: Vec<OnceLock<Result<A, E>>> = tasks.iter().map(|_| OnceLock::new()).collect();
    let work = || loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let (Some(task), Some(answer)) = (tasks.get(index), answers.get(index)) else { return };
        if answer.get_or_init(|| run(task)).is_err() {
            next.fetch_max(tasks.len(), Ordering::Relaxed);
        }
    };
    on_threads(parallel_calls.min(tasks.len()), &work);
    // After an error, the tasks that did not begin have no answer.
    answers.into_iter().filter_map(OnceLock::into_inner).collect()
}

/// Runs `work` on this many threads. The function is compiled only once, because it is not generic.
fn on_threads(threads: usize, work: &(dyn Fn() + Sync)) {
    thread::scope(|scope| {
        for _ in 1..threads {
            let thread = thread::Builder::new().name("call".to_owned()).stack_size(CALL_STACK_BYTES);
            // Without the thread, the tasks only take longer.
            if let Err(error) = thread.spawn_scoped(scope, work) {
                logging::debug(module_path!(), || {
                    LogLine::default().text(format!("cannot start a thread: {error}"))
                });
            }
        }
        work();
    });
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, Mutex};
    use std::time::Duration;

    use super::*;
    use crate::limits;

    /// A server that answers a call only when enough calls are waiting.
    #[test]
    fn as_many_reads_are_under_way_at_once_as_the_limit_says_and_answers_keep_their_order() {
        let (waiting, arrived) = (Mutex::new(0_usize), Condvar::new());
        let tasks: Vec<usize> = (0..2 * limits::PARALLEL_CALLS).collect();
        let answers = try_in_parallel(limits::PARALLEL_CALLS, &tasks, |task| {
            let mut count = waiting.lock().unwrap();
            *count += 1;
            arrived.notify_all();
            let enough = (*count).div_ceil(limits::PARALLEL_CALLS) * limits::PARALLEL_CALLS;
            let (count, timeout) =
                arrived.wait_timeout_while(count, Duration::from_secs(60), |count| *count < enough).unwrap();
            drop(count);
            assert!(!timeout.timed_out(), "the others never came");
            Ok::<_, Infallible>(*task)
        });
        assert_eq!(answers.unwrap(), tasks);
    }

    #[test]
    fn after_an_error_no_further_read_is_begun_and_nothing_of_the_others_is_answered() {
        let tasks: Vec<usize> = (0..100).collect();
        let begun = AtomicUsize::new(0);
        let answers = try_in_parallel(limits::PARALLEL_CALLS, &tasks, |_| {
            begun.fetch_add(1, Ordering::SeqCst);
            Err::<(), _>("no")
        });
        assert!(answers.is_err());
        assert!(begun.into_inner() <= limits::PARALLEL_CALLS);
    }
}
