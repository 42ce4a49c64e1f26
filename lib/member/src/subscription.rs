//! Subscriptions: an inotify watch on the directory of notices, and the latest size.

use crate::{MemberError, own};
use millpond_model::PoolId;
use millpond_model::pools::{PoolNotice, PoolSize, notice_file};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::fs;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Buffer size for several events: one has at most 16 bytes and a name of 256.
const EVENTS_BYTES: usize = 4096;

/// Maximum size of a notice: thousands of zones with the longest possible paths.
const NOTICE_BYTES_MAX: u64 = 16 << 20;

/// The directory of notices in a state directory.
const DIR: &str = "pools";

/// A subscription to one pool. See the head of the crate.
///
/// One thread uses it at a time. The child of a fork shares the watch with its parent, and each takes events from the other: the child should
/// create its own.
#[derive(Debug)]
pub struct Subscription {
    watch: OwnedFd,
    file: PathBuf,
    name: String,
    notice: PoolNotice,
    /// The serial that the caller knows.
    told: Option<u64>,
    /// The file changed after it was last read.
    is_stale: bool,
    has_ended: bool,
}

impl Subscription {
    /// Follows the pool of that name.
    ///
    /// # Errors
    /// [`MemberError`] if there is no such pool, or the system does not allow watching it.
    pub fn to(pool: &str) -> Result<Subscription, MemberError> {
        Subscription::in_dir(&own::state_dir(), pool)
    }

    /// Follows the pool of this process.
    ///
    /// # Errors
    /// As for [`Subscription::to`].
    pub fn of_own() -> Result<Subscription, MemberError> {
        if let Some(pool) = own::named() {
            return Subscription::to(&pool);
        }
        let cgroups =
            own::cgroups().map_err(|source| MemberError::System { what: "read the own cgroup", source })?;
        Subscription::of_cgroups(&own::state_dir(), &cgroups)
    }

    /// Follows a pool of another state directory.
    ///
    /// # Errors
    /// As for [`Subscription::to`].
    pub fn in_dir(state: &Path, pool: &str) -> Result<Subscription, MemberError> {
        Subscription::begin(watch(&state.join(DIR))?, &state.join(DIR), pool)
    }

    /// The current number and size of a pool of another state directory. It sets up no watch, because removing one takes Linux some ten milliseconds.
    ///
    /// # Errors
    /// As for [`Subscription::to`].
    pub fn look(state: &Path, pool: &str) -> Result<(PoolId, PoolSize), MemberError> {
        let dir = state.join(DIR);
        match find(&dir, pool) {
            Err(MemberError::NoSuchPool(_)) if !dir.is_dir() => Err(MemberError::NoPools(dir)),
            found => found.map(|notice| (notice.pool, notice.size)),
        }
    }

    fn of_cgroups(state: &Path, cgroups: &[String]) -> Result<Subscription, MemberError> {
        let dir = state.join(DIR);
        // Watch before reading, so that no change in between is missed.
        let watch = watch(&dir)?;
        let cannot = |source| MemberError::System { what: "list the pools", source };
        let (mut names, mut notices) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(&dir).map_err(cannot)? {
            let name = entry.map_err(cannot)?.file_name().to_string_lossy().into_owned();
            // A notice that is removed meanwhile, or is invalid, is not that of this process.
            if let Ok(notice) = read(&dir.join(&name), &name) {
                names.push(name);
                notices.push(notice);
            }
        }
        let own = own::pool_of(cgroups, &notices);
        let mine = notices.iter().position(|notice| notice.pool == own);
        let name = mine.map(|at| names.swap_remove(at));
        let name = name.ok_or_else(|| MemberError::NoSuchPool(format!("with number {own}")))?;
        Subscription::begin(watch, &dir, &name)
    }

    fn begin(watch: OwnedFd, dir: &Path, pool: &str) -> Result<Subscription, MemberError> {
        let (file, name) = (dir.join(notice_file(pool)), pool.to_owned());
        let notice = find(dir, pool)?;
        Ok(Subscription { watch, file, name, notice, told: None, is_stale: false, has_ended: false })
    }

    /// The name of the pool.
    #[must_use]
    pub fn pool(&self) -> &str {
        &self.name
    }

    /// Whether it is the default pool, which has all processes that are in no other.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.notice.pool == PoolId::DEFAULT
    }

    /// A descriptor that is readable when the size may have changed: for poll, select and epoll. Do not read from it. [`Subscription::size`] does,
    /// and then it is not readable until the next change of any pool.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }

    /// The current size of the pool. [`Subscription::wait`] then waits for another one.
    ///
    /// # Errors
    /// [`MemberError::Ended`] if the pool is gone, then and in all later calls. After other errors, the next call tries again.
    pub fn size(&mut self) -> Result<PoolSize, MemberError> {
        self.catch_up()?;
        self.told = Some(self.notice.size.serial);
        Ok(self.notice.size.clone())
    }

    /// Waits until the pool has another size than the one that the caller knows, and returns it. It returns at once in the first call, or if the size
    /// changed already. `None`: timeout; without a timeout it waits for ever. A signal does not end the wait.
    ///
    /// # Errors
    /// As for [`Subscription::size`].
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<PoolSize>, MemberError> {
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            self.catch_up()?;
            if self.told != Some(self.notice.size.serial) {
                return self.size().map(Some);
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut fds = [PollFd::new(&self.watch, PollFlags::IN)];
            match poll(&mut fds, left.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(refused("wait for a change", error)),
            }
        }
    }

    /// Takes the events, and reads the notice again if one of them concerned it.
    fn catch_up(&mut self) -> Result<(), MemberError> {
        self.take_events()?;
        if !self.has_ended && self.is_stale {
            match read(&self.file, &self.name) {
                // Another pool has the name now.
                Ok(notice) if notice.pool != self.notice.pool => self.has_ended = true,
                Ok(notice) => {
                    self.notice = notice;
                    self.is_stale = false;
                }
                Err(MemberError::Ended(_)) => self.has_ended = true,
                Err(error) => return Err(error),
            }
        }
        if self.has_ended { Err(MemberError::Ended(self.name.clone())) } else { Ok(()) }
    }

    fn take_events(&mut self) -> Result<(), MemberError> {
        let mut buffer = [MaybeUninit::uninit(); EVENTS_BYTES];
        let mut events = inotify::Reader::new(&self.watch, &mut buffer);
        let file = self.file.file_name().map(std::os::unix::ffi::OsStrExt::as_bytes);
        loop {
            let event = match events.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(refused("read what has changed", error)),
            };
            let is_ours = event.file_name().map(std::ffi::CStr::to_bytes) == file;
            let (is, all_gone) =
                (event.events(), ReadFlags::IGNORED | ReadFlags::DELETE_SELF | ReadFlags::UNMOUNT);
            if is.intersects(all_gone) {
                // A new directory may exist, but this watch is on the old one.
                self.has_ended = true;
            } else if is.contains(ReadFlags::QUEUE_OVERFLOW) {
                self.is_stale = true;
            } else if is_ours && is.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
                self.has_ended = true;
            } else if is_ours {
                self.is_stale = true;
            }
        }
    }
}

impl AsFd for Subscription {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd()
    }
}

/// Begins to watch the directory of notices.
fn watch(dir: &Path) -> Result<OwnedFd, MemberError> {
    let watch =
        inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(|e| refused("watch pools", e))?;
    let events = WatchFlags::MOVED_TO
        | WatchFlags::MOVED_FROM
        | WatchFlags::DELETE
        | WatchFlags::DELETE_SELF
        | WatchFlags::ONLYDIR;
    match inotify::add_watch(&watch, dir, events) {
        Ok(_) => Ok(watch),
        Err(Errno::NOENT | Errno::NOTDIR) => Err(MemberError::NoPools(dir.to_owned())),
        Err(error) => Err(refused("watch pools", error)),
    }
}

/// Reads the notice of a pool in a directory.
fn find(dir: &Path, pool: &str) -> Result<PoolNotice, MemberError> {
    match read(&dir.join(notice_file(pool)), pool) {
        Err(MemberError::Ended(name)) => Err(MemberError::NoSuchPool(name)),
        other => other,
    }
}

/// Reads a notice. If it does not exist, the pool has ended.
fn read(file: &Path, pool: &str) -> Result<PoolNotice, MemberError> {
    let text = match read_plain(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(MemberError::Ended(pool.to_owned()));
        }
        Err(source) => return Err(MemberError::System { what: "read the size of a pool", source }),
    };
    text.parse().map_err(|source| MemberError::NoNotice { pool: pool.to_owned(), source })
}

/// The text of a file that may be of any kind: it does not wait for a FIFO or device, and reads no more than the maximum size of a notice.
fn read_plain(path: &Path) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = fs::File::from(open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    let mut text = String::new();
    file.take(NOTICE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > NOTICE_BYTES_MAX {
        let why = format!("it is longer than {NOTICE_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(text)
}

fn refused(what: &'static str, error: Errno) -> MemberError {
    MemberError::System { what, source: error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state directory in which a test writes notices as the machine's writer does.
    struct State(tempfile::TempDir);

    impl State {
        fn new() -> State {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir(dir.path().join(DIR)).unwrap();
            State(dir)
        }

        fn dir(&self) -> &Path {
            self.0.path()
        }

        fn tell(&self, pool: &str, id: u32, cpus: &str, serial: u64) {
            self.tell_with(pool, id, cpus, serial, "");
        }

        fn tell_with(&self, pool: &str, id: u32, cpus: &str, serial: u64, zone: &str) {
            let cpus: millpond_model::CpuSet = cpus.parse().unwrap();
            let zones = if zone.is_empty() { Vec::new() } else { vec![zone.to_owned()] };
            let notice = PoolNotice { pool: PoolId(id), size: PoolSize { cpus, serial }, zones };
            let new = self.dir().join("pools/.new");
            fs::write(&new, notice.to_string()).unwrap();
            fs::rename(new, self.dir().join(DIR).join(notice_file(pool))).unwrap();
        }

        fn end(&self, pool: &str) {
            fs::remove_file(self.dir().join(DIR).join(pool)).unwrap();
        }

        fn follow(&self, pool: &str) -> Subscription {
            Subscription::in_dir(self.dir(), pool).unwrap()
        }
    }

    const SHORT: Option<Duration> = Some(Duration::from_millis(20));

    fn told(size: &PoolSize) -> (String, u64) {
        (size.cpus.to_string(), size.serial)
    }

    #[test]
    fn the_size_is_that_of_now() {
        let state = State::new();
        state.tell("web", 1, "2-3", 1);
        let mut web = state.follow("web");
        assert_eq!(told(&web.size().unwrap()), ("2-3".into(), 1));
        state.tell("web", 1, "1-3", 2);
        state.tell("web", 1, "1-7", 3);
        assert_eq!(told(&web.size().unwrap()), ("1-7".into(), 3));
        assert!(!web.is_default() && web.pool() == "web");
    }

    #[test]
    fn what_stands_in_the_place_of_a_notice_and_is_none_is_refused_and_not_waited_for() {
        let state = State::new();
        state.tell("web", 1, "2-3", 1);
        let mut web = state.follow("web");
        let told_of = state.dir().join("pools/web");
        let long = state.dir().join("long");
        let fifo = state.dir().join("fifo");
        fs::File::create(&long).unwrap().set_len(30 << 30).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        for (other, why) in [(long, "it is longer than 16777216 bytes"), (fifo, "it is no file")] {
            fs::rename(other, &told_of).unwrap();
            let error = web.size().unwrap_err();
            assert_eq!(error.to_string(), format!("cannot read the size of a pool: {why}"));
        }
        state.tell("web", 1, "1-3", 2);
        assert_eq!(told(&web.size().unwrap()), ("1-3".into(), 2), "it goes on with the next notice");
    }

    #[test]
    fn a_wait_ends_with_another_size_or_with_the_time() {
        let state = State::new();
        state.tell("web", 1, "2-3", 7);
        let mut web = state.follow("web");
        assert_eq!(told(&web.wait(SHORT).unwrap().unwrap()), ("2-3".into(), 7), "nobody asked yet");
        assert_eq!(web.wait(SHORT).unwrap(), None);
        state.tell("shop", 2, "0", 1);
        state.tell_with("web", 1, "2-3", 7, "/system.slice/a.service");
        assert_eq!(web.wait(SHORT).unwrap(), None, "neither other pools nor zones are a size");
        state.tell("web", 1, "2", 8);
        assert_eq!(told(&web.wait(None).unwrap().unwrap()), ("2".into(), 8));
        assert_eq!(web.wait(Some(Duration::ZERO)).unwrap(), None);
    }

    #[test]
    fn the_descriptor_wakes_whoever_polls_and_is_quiet_after_the_size_was_asked() {
        let state = State::new();
        state.tell("web", 1, "2-3", 1);
        let mut web = state.follow("web");
        let wakes = |web: &Subscription| {
            let none = Timespec::try_from(Duration::ZERO).unwrap();
            poll(&mut [PollFd::new(&web.fd(), PollFlags::IN)], Some(&none)).unwrap() == 1
        };
        assert!(!wakes(&web));
        state.tell("web", 1, "2", 2);
        assert!(wakes(&web));
        assert_eq!(web.size().unwrap().size(), 1);
        assert!(!wakes(&web));
    }

    #[test]
    fn a_change_between_subscribing_and_the_first_look_is_not_missed() {
        let state = State::new();
        state.tell("web", 1, "2-3", 1);
        let mut web = state.follow("web");
        state.tell("web", 1, "2", 2);
        assert_eq!(told(&web.size().unwrap()), ("2".into(), 2));
        assert_eq!(web.wait(SHORT).unwrap(), None, "it was told");
    }

    #[test]
    fn a_pool_that_goes_ends_the_subscription_for_good() {
        let state = State::new();
        let ended =
            |web: &mut Subscription| matches!(web.size(), Err(MemberError::Ended(name)) if name == "web");
        state.tell("web", 1, "2-3", 1);
        let (mut one, mut two, mut three) = (state.follow("web"), state.follow("web"), state.follow("web"));
        state.end("web");
        assert!(matches!(one.wait(None), Err(MemberError::Ended(_))));
        state.tell("web", 1, "2-3", 1);
        assert!(ended(&mut one) && ended(&mut two), "although there is one of that name again");
        let mut web = state.follow("web");
        state.tell("web", 5, "2-3", 1);
        assert!(ended(&mut web), "another pool has the name");
        fs::remove_dir_all(state.dir().join(DIR)).unwrap();
        fs::create_dir(state.dir().join(DIR)).unwrap();
        state.tell("web", 1, "2-3", 1);
        assert!(ended(&mut three), "pools were disabled meanwhile");
    }

    #[test]
    fn what_is_not_there_is_told_apart() {
        let state = State::new();
        let said = |pool: &str| Subscription::in_dir(state.dir(), pool).unwrap_err().to_string();
        assert_eq!(said("web"), "there is no pool web");
        assert_eq!(said("../pools/web"), "there is no pool ../pools/web");
        fs::write(state.dir().join("pools/odd"), "half a no").unwrap();
        assert_eq!(said("odd"), "the notice of pool odd is invalid: there is no line `pool`");
        let none = Subscription::in_dir(&state.dir().join("elsewhere"), "web").unwrap_err();
        assert!(matches!(none, MemberError::NoPools(_)));
    }

    #[test]
    fn a_notice_that_makes_no_sense_is_read_again_when_it_does() {
        let state = State::new();
        state.tell("web", 1, "2-3", 1);
        let mut web = state.follow("web");
        fs::write(state.dir().join("pools/.new"), "half").unwrap();
        fs::rename(state.dir().join("pools/.new"), state.dir().join("pools/web")).unwrap();
        assert!(matches!(web.size(), Err(MemberError::NoNotice { .. })));
        assert!(matches!(web.size(), Err(MemberError::NoNotice { .. })));
        state.tell("web", 1, "3", 2);
        assert_eq!(told(&web.size().unwrap()), ("3".into(), 2));
    }

    #[test]
    fn the_own_pool_is_found_by_the_cgroup() {
        let state = State::new();
        state.tell("pool_default", 0, "0-1", 1);
        state.tell("web", 7, "2-3", 1);
        state.tell_with("shop", 8, "4", 1, "/system.slice/a.service");
        fs::write(state.dir().join("pools/odd"), "half a no").unwrap();
        let own = |path: &str| {
            let found = Subscription::of_cgroups(state.dir(), &[path.to_owned()]).unwrap();
            (found.pool().to_owned(), found.is_default())
        };
        assert_eq!(own("/mpset1/pool7+"), ("web".into(), false));
        assert_eq!(own("/system.slice/a.service"), ("shop".into(), false));
        assert_eq!(own("/"), ("pool_default".into(), true));
        let none = Subscription::of_cgroups(state.dir(), &["/mpset1/pool9+".to_owned()]).unwrap_err();
        assert_eq!(none.to_string(), "there is no pool with number 9");
    }

    /// The writer changes the pool as fast as it can. The waiting thread sees sizes in their order, and always the last one.
    #[test]
    fn no_last_change_is_ever_missed() {
        let state = State::new();
        state.tell("web", 1, "0", 1);
        let mut web = state.follow("web");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (2..=500).for_each(|serial| state.tell("web", 1, &format!("0-{}", serial % 7), serial))
            });
            let mut seen = 0;
            while seen < 500 {
                let size = web.wait(Some(Duration::from_secs(20))).unwrap().unwrap();
                assert!(size.serial > seen && size.cpus.to_string() == told_for(size.serial));
                seen = size.serial;
            }
        });
    }

    fn told_for(serial: u64) -> String {
        match serial % 7 {
            _ if serial == 1 => "0".into(),
            0 => "0".into(),
            last => format!("0-{last}"),
        }
    }
}
