//! irqbalance: the daemon that redistributes interrupts over all CPUs every few seconds.
//!
//! A request through its socket sets the CPUs that it must leave alone: those that its administrator banned (its answer to the
//! first request, kept as baseline), and the shielded ones. After a restart it has only the former, so its list is compared at
//! every settling. The protocol is that of irqbalance(1): a connection per request, with the sender's credentials; `setup`
//! returns `SLEEP` with the length of a round in seconds, and `BANNED` with a mask; `settings cpus LIST` replaces the list.
//!
//! The daemon applies a new list at the beginning of its next round, and returns the old one until then. Therefore the requested
//! list is first written to the state directory and used for two rounds. After that, the daemon's answer is used.

use crate::files::{Replacing, replace_file};
use crate::knob::{LinuxKnob, list_value};
use crate::os::knob_error;
use crate::procfs::{STATE, stat_field};
use crate::state_dir::make_state_dir;
use crate::{LinuxMachine, Os, messages};
use millpond_machine::{Knob, KnobError, Step, Value};
use millpond_model::CpuSet;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, UCred, connect, sendmsg, socket_with,
};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

/// How long to wait for an answer. The daemon answers between two rounds of its work, which take milliseconds. But if the
/// connection is closed when it answers, SIGPIPE ends it.
const ANSWER: Duration = Duration::from_secs(10);

/// Length of a round, if the daemon does not report it.
const ROUND: Duration = Duration::from_secs(10);

/// The longest answer that is read: one line per banned interrupt.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// A running daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Balancer {
    pid: u32,
    socket: Socket,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Socket {
    Path(PathBuf),
    Abstract(String),
}

/// The process id in the name of a socket.
fn pid_in(name: &str) -> Option<u32> {
    name.strip_prefix("irqbalance")?.strip_suffix(".sock")?.parse().ok()
}

/// The abstract sockets of daemons, from the text of `/proc/net/unix`.
fn abstract_sockets(text: &str) -> impl Iterator<Item = Balancer> + '_ {
    text.lines().filter_map(|line| {
        let name = line.split_ascii_whitespace().last()?.strip_prefix('@')?;
        Some(Balancer { pid: pid_in(name)?, socket: Socket::Abstract(name.to_owned()) })
    })
}

/// The answer to `setup`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Answer {
    /// Length of a round.
    round: Duration,
    /// The CPUs that the daemon leaves alone.
    banned: CpuSet,
}

/// Parses an answer: `SLEEP 10 IRQ 4 … BANNED 00000000,0000000c`. `None` if it is incomplete.
fn parse(answer: &str) -> Option<Answer> {
    let after = |word: &str| {
        answer
            .split_once(word)?
            .1
            .split(|c: char| c.is_whitespace() || c == '\0')
            .next()
            .filter(|w| !w.is_empty())
    };
    let round = after("SLEEP ").and_then(|seconds| seconds.parse().ok()).map_or(ROUND, Duration::from_secs);
    Some(Answer { round, banned: CpuSet::from_mask(after("BANNED ")?).ok()? })
}

/// The last list sent to a daemon, as stored: its process, the start time of that process, and the list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Memo {
    pid: u32,
    start: u64,
    list: CpuSet,
}

impl Memo {
    fn text(&self) -> String {
        format!("{} {} {}", self.pid, self.start, self.list)
    }

    fn parse(text: &str) -> Option<Memo> {
        let mut words = text.split(' ');
        let (pid, start) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Memo { pid, start, list: words.next()?.parse().ok()? })
    }
}

/// Whether a process is stopped, from its `stat` text.
fn is_stopped(stat: &str) -> bool {
    matches!(stat_field(stat, STATE), Some("T" | "t"))
}

/// The request that sets the list.
fn request(cpus: &CpuSet) -> String {
    if cpus.is_empty() { "settings cpus NULL".to_owned() } else { format!("settings cpus {cpus}") }
}

impl Balancer {
    fn connect(&self) -> Result<OwnedFd, Errno> {
        let address = match &self.socket {
            Socket::Path(path) => SocketAddrUnix::new(path)?,
            Socket::Abstract(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
        };
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&fd, Timeout::Send, Some(ANSWER))?;
        set_socket_timeout(&fd, Timeout::Recv, Some(ANSWER))?;
        connect(&fd, &address)?;
        Ok(fd)
    }

    fn send(&self, text: &str) -> Result<OwnedFd, Errno> {
        let fd = self.connect()?;
        let us = UCred {
            pid: rustix::process::getpid(),
            uid: rustix::process::getuid(),
            gid: rustix::process::getgid(),
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        beside.push(SendAncillaryMessage::ScmCredentials(us));
        sendmsg(&fd, &[IoSlice::new(text.as_bytes())], &mut beside, SendFlags::NOSIGNAL)?;
        Ok(fd)
    }

    /// Requests the daemon's settings.
    fn asked(&self) -> Result<Answer, KnobError> {
        let fd = self.send("setup").map_err(|e| self.deaf(&knob_error(e.into()).to_string()))?;
        let mut answer = Vec::new();
        let mut file = File::from(fd).take(ANSWER_BYTES_MAX);
        let mut part = [0u8; 4096];
        // Some versions do not close the connection after the answer. The answer ends with the mask.
        while !String::from_utf8_lossy(&answer).contains("BANNED ") {
            match file.read(&mut part) {
                Ok(0) => break,
                Ok(more) => answer.extend_from_slice(&part[..more]),
                Err(error) => return Err(self.deaf(&knob_error(error).to_string())),
            }
        }
        parse(&String::from_utf8_lossy(&answer)).ok_or_else(|| self.deaf("its answer is not understood"))
    }

    fn told(&self, cpus: &CpuSet) -> Result<(), KnobError> {
        let fd = self.send(&request(cpus)).map_err(|e| self.deaf(&knob_error(e.into()).to_string()))?;
        // The daemon closes the connection after reading the request. A version that does not has read the request before the
        // next one.
        let _ = File::from(fd).read(&mut [0u8; 1]);
        Ok(())
    }

    fn deaf(&self, why: &str) -> KnobError {
        KnobError::Prevented {
            why: format!("irqbalance (process {}) cannot be told which CPUs to leave alone: {why}", self.pid),
            hint: "it will move interrupts back: stop it (systemctl stop irqbalance), or give it \
                   IRQBALANCE_BANNED_CPULIST"
                .into(),
        }
    }
}

impl Os {
    /// The daemon, if a visible one runs.
    fn balancer(&self) -> Option<Balancer> {
        let dir = self.root.run.join("irqbalance");
        let names = self.root.names(&dir).unwrap_or_default();
        let files = names
            .iter()
            .filter_map(|name| Some(Balancer { pid: pid_in(name)?, socket: Socket::Path(dir.join(name)) }));
        let text = self.root.read(&self.root.proc.join("net/unix")).ok().flatten().unwrap_or_default();
        // A killed daemon leaves its socket behind.
        let lives = |b: &Balancer| self.root.proc.join(b.pid.to_string()).exists();
        files.chain(abstract_sockets(&text)).find(lives)
    }

    /// Whether a daemon runs. It assigns each interrupt to one of the CPUs that are not banned.
    pub(crate) fn is_balanced(&self) -> bool {
        self.balancer().is_some()
    }

    /// The banned CPUs of the daemon.
    ///
    /// # Errors
    /// [`KnobError::Gone`] without a daemon; [`KnobError::Prevented`] if it does not answer.
    pub(crate) fn left_alone(&self) -> Result<CpuSet, KnobError> {
        let daemon = self.balancer().ok_or(KnobError::Gone)?;
        let answer = self.asked(&daemon)?;
        match self.memo(&daemon) {
            Some((memo, age)) if age < answer.round * 2 => Ok(memo.list),
            _ => Ok(answer.banned),
        }
    }

    /// The daemon's settings. A stopped daemon gets no request: it would answer when it continues, on a closed connection, and
    /// the resulting SIGPIPE would end it.
    fn asked(&self, daemon: &Balancer) -> Result<Answer, KnobError> {
        let stat = self.root.read(&self.root.proc.join(format!("{}/stat", daemon.pid))).ok().flatten();
        if stat.is_some_and(|text| is_stopped(&text)) {
            return Err(daemon.deaf("it is stopped"));
        }
        daemon.asked()
    }

    fn memo_file(&self) -> PathBuf {
        self.root.state.join("irqbalance")
    }

    /// The last list that this daemon process was sent, and the time since then.
    fn memo(&self, daemon: &Balancer) -> Option<(Memo, Duration)> {
        let memo = Memo::parse(&self.root.read(&self.memo_file()).ok()??)?;
        let age = fs::metadata(self.memo_file()).ok()?.modified().ok()?.elapsed().ok()?;
        let start = self.stat(daemon.pid, None).ok()??.start;
        (memo.pid == daemon.pid && memo.start == start).then_some((memo, age))
    }

    /// Sends the daemon the CPUs that it must leave alone.
    ///
    /// # Errors
    /// As for [`Os::left_alone`], and when the daemon does not accept the list.
    pub(crate) fn leave_alone(&self, cpus: &CpuSet) -> Result<(), KnobError> {
        let daemon = self.balancer().ok_or(KnobError::Gone)?;
        let answer = self.asked(&daemon)?;
        if let Some((memo, age)) = self.memo(&daemon)
            && memo.list == *cpus
            && answer.banned != *cpus
            && age >= answer.round * 2
        {
            return Err(daemon.deaf("it was told and did not take the list"));
        }
        let Some(stat) = self.stat(daemon.pid, None).map_err(knob_error)? else {
            return Err(KnobError::Gone);
        };
        let memo = Memo { pid: daemon.pid, start: stat.start, list: cpus.clone() };
        make_state_dir(&self.root.state)
            .and_then(|()| replace_file(&self.memo_file(), memo.text().as_bytes(), Replacing::default()))
            .map_err(|e| {
                daemon.deaf(&format!("what it is told cannot be written down: {}", knob_error(e)))
            })?;
        daemon.told(cpus)
    }
}

impl LinuxMachine {
    /// The step that updates the daemon's list to the shielded CPUs. `None` without a daemon, or if it does not answer.
    pub(crate) fn balancer_step(
        &self,
        shielded: &CpuSet,
        baselines: &BTreeMap<Knob, Option<Value>>,
    ) -> Option<Step> {
        let knob = LinuxKnob::IrqbalanceBanned.knob();
        let kept = baselines.get(&knob);
        if (shielded.is_empty() && kept.is_none()) || !self.os.may_administrate() {
            return None;
        }
        let is = self.os.left_alone().ok()?;
        let original: CpuSet = match kept {
            Some(list) => list.as_deref().and_then(|l| l.parse().ok()).unwrap_or_default(),
            None => is.clone(),
        };
        let want = &original | shielded;
        if want == is && (want != original || kept.is_none()) {
            return None;
        }
        let step = Step::new(knob, list_value(&is), list_value(&want)).tolerant();
        Some(if want == original { step.releasing() } else { step.keeping() })
    }

    /// Why the daemon cannot be reached, if it runs and does not answer.
    pub(crate) fn deaf_balancer(&self) -> Option<String> {
        match self.os.left_alone() {
            Ok(_) | Err(KnobError::Gone) => None,
            Err(error) => Some(error.note(&messages::called(&self.os, &LinuxKnob::IrqbalanceBanned.knob()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_the_daemon_names_the_processors_that_it_leaves_alone() {
        let list = |answer: &str| parse(answer).map(|a| (a.banned.to_string(), a.round.as_secs()));
        assert_eq!(list("SLEEP 5 BANNED 00000000,0000000c"), Some(("2-3".into(), 5)));
        assert_eq!(list("SLEEP 10 IRQ 4 LOAD 0 DIFF 0 CLASS 0 BANNED 00000001\0"), Some(("0".into(), 10)));
        assert_eq!(list("BANNED 0"), Some((String::new(), 10)));
        assert_eq!(list("SLEEP 10"), None);
        assert_eq!(list("BANNED none"), None);
    }

    #[test]
    fn what_was_told_can_be_read_again() {
        for list in ["", "2-3,7"] {
            let memo = Memo { pid: 7, start: 99, list: list.parse().unwrap() };
            assert_eq!(Memo::parse(&memo.text()), Some(memo));
        }
        assert_eq!(Memo::parse("7 x"), None);
    }

    #[test]
    fn a_list_is_sent_as_a_list_and_none_by_name() {
        assert_eq!(request(&"2-3,5".parse().unwrap()), "settings cpus 2-3,5");
        assert_eq!(request(&CpuSet::new()), "settings cpus NULL");
    }

    #[test]
    fn a_stopped_process_is_known_by_its_state() {
        assert!(is_stopped("270 (irqbalance) T 1 270 1"));
        assert!(!is_stopped("270 (a) T) S 1 270 1"));
        assert!(!is_stopped(""));
    }

    #[test]
    fn sockets_are_known_by_their_names() {
        let text = "Num RefCount Protocol Flags Type St Inode Path\n\
                    0000: 00000002 00000000 00010000 0001 01 1 /run/irqbalance/irqbalance7.sock\n\
                    0000: 00000002 00000000 00010000 0001 01 2 @irqbalance812.sock\n\
                    0000: 00000002 00000000 00010000 0001 01 3\n";
        let found: Vec<u32> = abstract_sockets(text).map(|b| b.pid).collect();
        assert_eq!(found, [812]);
        assert_eq!(pid_in("irqbalance.sock"), None);
        assert_eq!(pid_in("other812.sock"), None);
    }
}
