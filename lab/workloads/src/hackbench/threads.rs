//! Tasks as threads of the calling process.

use super::channel::{Channel, Gates, open_group, take_away, take_ready};
use super::fifo::FifoGuard;
use super::task::{TaskError, block_broken_pipe_signal, receive, send, wait_for_wake};
use super::{HackbenchEvent, HackbenchResult, HackbenchSpec, Role, Task};
use crate::Error;
use crate::clock::STOP_POLL;
use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, Scope};
use std::time::Instant;

/// Stack size of a task, for a few frames. Thousands of threads with default stacks would not fit on small machines.
const STACK_BYTES: usize = 64 << 10;

/// A thread's final report: its number of received messages, or its error.
type Outcome = (Task, Result<u64, TaskError>);

/// Runs `spec` with threads.
pub(super) fn run(
    spec: &HackbenchSpec,
    tasks: u32,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(HackbenchEvent<'_>),
) -> Result<HackbenchResult, Error> {
    let gates = Gates::open(spec)?;
    let groups =
        (0..spec.groups.get()).map(|group| open_group(spec, group)).collect::<Result<Vec<_>, _>>()?;
    let is_cancelled = AtomicBool::new(false);
    let mut started = None;
    let (messages, stopped) = thread::scope(|scope| {
        let teardown = Teardown {
            groups: &groups,
            gates: &gates,
            is_cancelled: &is_cancelled,
            is_over: Cell::new(false),
        };
        let (report, outcomes) = channel();
        start_all(
            scope,
            Shared { spec, gates: &gates, is_cancelled: &is_cancelled },
            tasks,
            &groups,
            &report,
        )?;
        drop(report);
        let mut book = Book { outcomes, missing: tasks, messages: 0 };
        if !book.all_report_ready(&gates.ready.reading, stop)? {
            return Ok((0, true));
        }
        on_event(HackbenchEvent::Ready { tasks, pids: &[] });
        let _fifo = spec.fifo.then(FifoGuard::take).transpose()?;
        started = Some(Instant::now());
        gates.open_wake().map_err(|errno| Error::WaitForTasks { source: errno.into() })?;
        on_event(HackbenchEvent::Started);
        let all_ended = book.all_end(stop)?;
        teardown.is_over.set(all_ended);
        Ok((book.messages, !all_ended))
    })?;
    // The scope has joined all threads.
    let seconds = started.map_or(0.0, |started| started.elapsed().as_secs_f64());
    Ok(HackbenchResult {
        tasks,
        messages,
        bytes: messages * u64::from(spec.message_bytes.get()),
        seconds,
        stopped,
    })
}

/// Common data of all tasks.
#[derive(Clone, Copy)]
struct Shared<'a> {
    spec: &'a HackbenchSpec,
    gates: &'a Gates,
    is_cancelled: &'a AtomicBool,
}

fn start_all<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    shared: Shared<'scope>,
    tasks: u32,
    groups: &'scope [Vec<Channel>],
    report: &Sender<Outcome>,
) -> Result<(), Error> {
    for (group, channels) in (0_u32..).zip(groups) {
        for role in [Role::Receiver, Role::Sender] {
            for index in 0..shared.spec.pairs.get() {
                let (task, report) = (Task { role, group, index }, report.clone());
                let live = move || {
                    // Only fails when the main task has given up.
                    let _ = report.send((task, live(shared, task, channels)));
                };
                thread::Builder::new()
                    .stack_size(STACK_BYTES)
                    .spawn_scoped(scope, live)
                    .map_err(|source| Error::StartTask { task, of: tasks, source })?;
            }
        }
    }
    Ok(())
}

/// The code of a task.
fn live(shared: Shared<'_>, task: Task, channels: &[Channel]) -> Result<u64, TaskError> {
    let spec = shared.spec;
    let mut message = vec![0_u8; spec.message_bytes.get() as usize];
    block_broken_pipe_signal();
    wait_for_wake(shared.gates.ready.writing.as_fd(), shared.gates.wake.reading.as_fd())?;
    if shared.is_cancelled.load(Ordering::Acquire) {
        return Err(TaskError::NotWoken);
    }
    match task.role {
        Role::Sender => {
            send(channels.iter().map(|channel| &channel.writing), spec.loops.get(), &message).map(|()| 0)
        }
        Role::Receiver => {
            let messages = u64::from(spec.loops.get()) * u64::from(spec.pairs.get());
            receive(channels[task.index as usize].reading.as_fd(), messages, &mut message).map(|()| messages)
        }
    }
}

/// Ends all threads when it is dropped before the run is over, however the main task returns. Threads that wait for the wake are
/// woken, and see that the run is cancelled. (Closing the pipe is not enough: children forked by other threads may hold it open.) Threads that
/// sleep on channels lose these.
struct Teardown<'a> {
    groups: &'a [Vec<Channel>],
    gates: &'a Gates,
    is_cancelled: &'a AtomicBool,
    is_over: Cell<bool>,
}

impl Drop for Teardown<'_> {
    fn drop(&mut self) {
        if self.is_over.get() {
            return;
        }
        self.is_cancelled.store(true, Ordering::Release);
        // The pipe has room for a byte. Taking channels away needs two descriptors for a moment; if there are none, the run
        // failed for that reason before any task was woken.
        let _ = self.gates.open_wake();
        let _ = take_away(self.groups.iter().flatten());
    }
}

/// The main task's record of the other tasks.
struct Book {
    outcomes: Receiver<Outcome>,
    missing: u32,
    messages: u64,
}

impl Book {
    /// Waits until every thread has reported; false if stopped before.
    fn all_report_ready(&mut self, ready: &OwnedFd, stop: &AtomicBool) -> Result<bool, Error> {
        let mut reports = 0;
        while reports < self.missing as usize {
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            reports +=
                take_ready(ready, STOP_POLL).map_err(|errno| Error::WaitForTasks { source: errno.into() })?;
            if let Ok((task, Err(error))) = self.outcomes.try_recv() {
                return Err(failure(task, error));
            }
        }
        Ok(true)
    }

    /// Waits until every thread has ended successfully; false if stopped before. The first failure is returned; later ones are
    /// its consequences.
    fn all_end(&mut self, stop: &AtomicBool) -> Result<bool, Error> {
        while self.missing > 0 {
            match self.outcomes.recv_timeout(STOP_POLL) {
                Ok((_, Ok(messages))) => {
                    self.missing -= 1;
                    self.messages += messages;
                }
                Ok((task, Err(error))) => return Err(failure(task, error)),
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => return Ok(false),
                Err(RecvTimeoutError::Timeout) => (),
                // Every sender is gone without a report: a thread panicked, which the scope propagates.
                Err(RecvTimeoutError::Disconnected) => return Ok(true),
            }
        }
        Ok(true)
    }
}

fn failure(task: Task, error: TaskError) -> Error {
    Error::TaskFailed { task, reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::super::Transport;
    use super::*;

    /// Two readers of one channel each and a writer that fills a third, all asleep in the kernel, lose their channels.
    fn sleepers_are_woken(transport: Transport) {
        let channels: Vec<_> = (0..3).map(|_| Channel::open(transport).unwrap()).collect();
        let outcomes = thread::scope(|scope| {
            let readers = [0, 1].map(|at: usize| {
                let reading = channels[at].reading.as_fd();
                scope.spawn(move || receive(reading, 1, &mut [0; 8]))
            });
            let writing = &channels[2].writing;
            let writer = scope.spawn(move || send([writing].into_iter(), u32::MAX, &[0; 4096]));
            // The outcome is the same whether they already sleep or not.
            take_away(channels.iter()).unwrap();
            (readers.map(|reader| reader.join().unwrap()), writer.join().unwrap())
        });
        assert_eq!(outcomes.0, [Err(TaskError::EndOfFile); 2]);
        assert!(matches!(outcomes.1, Err(TaskError::Call(_))), "{:?}", outcomes.1);
    }

    #[test]
    fn tasks_that_sleep_on_sockets_end_when_these_are_taken_away() {
        sleepers_are_woken(Transport::Socket);
    }

    #[test]
    fn tasks_that_sleep_on_pipes_end_when_these_are_taken_away() {
        sleepers_are_woken(Transport::Pipe);
    }
}
