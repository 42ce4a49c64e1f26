//! Programs that only see the CPUs that they may use. A thread starts the program in a view, and updates the view.
//!
//! Notices of the program's pool wake the thread. Without notices it polls.

use crate::output::reason;
use crate::process::own_pid;
use crate::{Kind, Session};
use millpond_linux::{CpuView, Root};
use millpond_machine::Absent;
use millpond_member::{MemberError, Subscription};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Polling interval without notices.
const LOOK: Duration = Duration::from_millis(250);
/// Interval for updating the times, and for polling in any case: the program may have moved to another pool, and a CPU may have gone
/// off-line.
const REFRESH: Duration = Duration::from_secs(1);

/// A prepared view in which nothing runs yet. Dropping it removes it.
pub struct View {
    state: PathBuf,
    orders: Sender<Order>,
    answers: Receiver<Result<Child, String>>,
}

/// The program to start, the source of its pool's notices, and the end of the pipe that shows that the view is no longer needed.
struct Order {
    command: Command,
    notices: Option<Subscription>,
    end: OwnedFd,
}

/// A view in which a program runs. Dropping it ends the updates; running programs keep the view unchanged.
#[derive(Debug)]
pub(crate) struct Shown {
    _end: OwnedFd,
}

impl Session {
    /// Prepares a view for a program. It is not visible from outside.
    ///
    /// # Errors
    /// [`Absent`] on a machine whose programs read no files, and where the kernel or missing privileges prevent it.
    pub fn view(&self) -> Result<View, Absent> {
        let state = match (self.kind(), self.state_dir()) {
            (Kind::Real, Some(state)) => state.to_path_buf(),
            _ => {
                let why =
                    format!("programs of machine {} are simulated, and read no files", self.machine().name());
                return Err(Absent::with_help(why, "they have their size without --view"));
            }
        };
        let root = Root::live(state.clone());
        let ((laid, is_laid), (orders, ordered), (answer, answers)) = (channel(), channel(), channel());
        let serve = move || match CpuView::lay(&root) {
            Ok(lens) => {
                let _ = laid.send(Ok(()));
                serve(lens, &ordered, &answer);
            }
            Err(absent) => {
                let _ = laid.send(Err(absent));
            }
        };
        let cannot = |why: String| Absent::because(format!("the view cannot be laid: {why}"));
        std::thread::Builder::new().spawn(serve).map_err(|error| cannot(reason(&error)))?;
        is_laid.recv().unwrap_or_else(|_| Err(cannot("its thread ended".into())))?;
        Ok(View { state, orders, answers })
    }
}

impl View {
    /// Starts a program in the view. The view follows the notices of the named pool, if there are any.
    ///
    /// # Errors
    /// The system's reason, in words, when the program cannot be started.
    pub(crate) fn start(self, command: Command, pool: &str) -> Result<(Child, Shown), String> {
        let (end, held) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| reason(&error.into()))?;
        let notices = notices(&self.state, pool);
        let gone = |_| "the view ended".to_owned();
        self.orders.send(Order { command, notices, end }).map_err(|_| gone(()))?;
        let child = self.answers.recv().map_err(|_| gone(()))??;
        Ok((child, Shown { _end: held }))
    }
}

/// A subscription to a pool's notices, if the pool has any.
fn notices(state: &Path, pool: &str) -> Option<Subscription> {
    let mut notices = Subscription::in_dir(state, pool).ok()?;
    // From here on a change wakes the subscription.
    notices.size().ok()?;
    Some(notices)
}

/// The thread in the view: starts the program, and updates the view until the other end is closed.
fn serve(mut view: CpuView, ordered: &Receiver<Order>, answer: &Sender<Result<Child, String>>) {
    let Ok(Order { mut command, mut notices, end }) = ordered.recv() else { return };
    follow(&mut view, own_pid().0);
    let started = command.spawn().map_err(|error| reason(&error));
    let pid = started.as_ref().ok().map(Child::id);
    if answer.send(started).is_err() {
        return;
    }
    let Some(pid) = pid else { return };
    let mut refreshed = Instant::now();
    loop {
        let next = REFRESH.saturating_sub(refreshed.elapsed());
        let pause = if notices.is_some() { next } else { next.min(LOOK) };
        if !pauses(&end, notices.as_ref(), pause) {
            return;
        }
        if notices.as_mut().is_some_and(|notices| matches!(notices.size(), Err(MemberError::Ended(_)))) {
            notices = None;
        }
        follow(&mut view, pid);
        if refreshed.elapsed() >= REFRESH {
            // On a read error the old contents remain.
            let _ = view.refresh();
            refreshed = Instant::now();
        }
    }
}

/// Waits for a notice or the end of the pause; `false` when the view is no longer needed.
fn pauses(end: &OwnedFd, notices: Option<&Subscription>, pause: Duration) -> bool {
    let mut fds = vec![PollFd::new(end, PollFlags::IN)];
    fds.extend(notices.map(|notices| PollFd::new(notices, PollFlags::IN)));
    let pause = Timespec::try_from(pause).ok();
    match poll(&mut fds, pause.as_ref()) {
        Ok(_) => fds[0].revents().is_empty(),
        Err(error) => io::Error::from(error).kind() == io::ErrorKind::Interrupted,
    }
}

/// Shows what the program may use now.
fn follow(view: &mut CpuView, pid: u32) {
    if let Some(cpus) = view.allowed(pid) {
        // On failure, try again at the next change.
        let _ = view.show(&cpus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;
    use crate::supervise::{Program, supervise};
    use std::ffi::OsString;

    fn real() -> Session {
        Session::open(&OpenOptions::default()).unwrap()
    }

    /// A view on the real machine; `None`, with a message, where views are impossible.
    fn view(test: &str) -> Option<View> {
        real().view().map_err(|absent| println!("skipped: {test}: {absent}")).ok()
    }

    fn run(view: View, words: &[&str]) -> Result<u8, String> {
        let words: Vec<OsString> = words.iter().map(Into::into).collect();
        let environment = vec![("MILLPOND_POOL", "web".into())];
        let program = Program { words: &words, environment, view: Some((view, "web")) };
        supervise(Some(program), None, &mut |text| panic!("{text}"))
    }

    fn shell(view: View, script: &str) -> u8 {
        run(view, &["sh", "-c", script]).unwrap()
    }

    #[test]
    fn a_simulated_machine_has_nothing_to_show_to_programs() {
        let options = OpenOptions { machine: "t2000".parse().unwrap(), ..OpenOptions::default() };
        let session = Session::open(&options).unwrap();
        let Err(absent) = session.view() else { panic!("it was laid") };
        assert_eq!(absent.why, "programs of machine t2000 are simulated, and read no files");
    }

    #[test]
    fn the_status_is_the_programs() {
        let Some(one) = view("the_status_is_the_programs") else { return };
        assert_eq!(shell(one, "exit 7"), 7);
        let two = view("the_status_is_the_programs").unwrap();
        assert_eq!(shell(two, "kill -TERM $$"), 143);
        let three = view("the_status_is_the_programs").unwrap();
        assert_eq!(run(three, &["/nonexistent/program"]).unwrap_err(), "No such file or directory");
    }

    #[test]
    fn the_program_has_the_mask_of_signals_that_we_had_and_its_pool_in_its_environment() {
        let test = "the_program_has_the_mask_of_signals_that_we_had_and_its_pool_in_its_environment";
        let Some(view) = view(test) else { return };
        let script = "grep -q '^SigBlk:[[:space:]]*0*$' /proc/self/status && test $MILLPOND_POOL = web";
        assert_eq!(shell(view, script), 0);
    }

    #[test]
    fn the_program_sees_as_many_processors_as_it_may_use() {
        let Some(view) = view("the_program_sees_as_many_processors_as_it_may_use") else { return };
        let script = "test $(getconf _NPROCESSORS_ONLN) = $(grep -c '^processor' /proc/cpuinfo)";
        assert_eq!(shell(view, script), 0);
    }
}
