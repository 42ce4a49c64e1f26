//! A group of performance events that count together, on a CPU or in a thread.
//!
//! Hardware events form a kernel event group: all of them count, or none. Each software event is opened alone. It needs no
//! register that others could use, and some kernels do not read their clock events as members of a group.

use super::catalogue::{Code, Sort};
use millpond_model::{Counted, CpuId, Nanos};
use perf_event_open_sys as sys;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Target of the counter: a CPU or a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whom {
    /// All threads on a CPU.
    Cpu(CpuId),
    /// A thread by its id, on all CPUs; 0 is the calling thread.
    Thread(u32),
}

/// The events. Dropping the value closes them.
#[derive(Debug)]
pub(super) struct Group {
    /// Hardware events, leader first, each with its index in the set.
    hardware: Vec<(usize, OwnedFd)>,
    /// Software events.
    software: Vec<(usize, OwnedFd)>,
    /// Counts at the start.
    before: Counted,
}

impl Group {
    /// Opens the events, stopped.
    ///
    /// # Errors
    /// Index of the refused event, and the system's error.
    pub(super) fn open(whom: Whom, codes: &[Code]) -> Result<Group, (usize, io::Error)> {
        let mut group = Group { hardware: Vec::new(), software: Vec::new(), before: Counted::default() };
        for (at, code) in codes.iter().enumerate() {
            let leader = match code.sort {
                Sort::Hardware => group.hardware.first().map(|(_, fd)| fd),
                Sort::Software => None,
            };
            let fd = open_event(whom, code, leader).map_err(|error| (at, error))?;
            match code.sort {
                Sort::Hardware => group.hardware.push((at, fd)),
                Sort::Software => group.software.push((at, fd)),
            }
        }
        Ok(group)
    }

    /// Starts counting from zero.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn start(&mut self) -> io::Result<()> {
        self.before = self.read_raw()?;
        self.control(sys::ioctls::ENABLE)
    }

    /// Stops counting.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn stop(&self) -> io::Result<()> {
        self.control(sys::ioctls::DISABLE)
    }

    /// Counts since the start.
    ///
    /// # Errors
    /// The system's error; `ENODEV` if the CPU went off-line meanwhile.
    pub(super) fn read(&self) -> io::Result<Counted> {
        let now = self.read_raw()?;
        let values =
            now.values.iter().zip(&self.before.values).map(|(now, before)| now.wrapping_sub(*before));
        Ok(Counted {
            values: values.collect(),
            wanted: Nanos(now.wanted.0.saturating_sub(self.before.wanted.0)),
            counting: Nanos(now.counting.0.saturating_sub(self.before.counting.0)),
        })
    }

    fn control(&self, ask: unsafe fn(libc::c_int, libc::c_uint) -> libc::c_int) -> io::Result<()> {
        for (_, leader) in self.hardware.first().into_iter().chain(&self.software) {
            // SAFETY: these requests take a number and touch no memory of this process.
            let done = unsafe { ask(leader.as_raw_fd(), sys::bindings::PERF_IOC_FLAG_GROUP) };
            if done < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    fn read_raw(&self) -> io::Result<Counted> {
        let values = vec![0; self.hardware.len() + self.software.len()];
        let mut counted = Counted { values, ..Counted::default() };
        let mut take = |leader: &OwnedFd, places: &[usize]| {
            let (wanted, counting, values) = read_together(leader, places.len())?;
            for (place, value) in places.iter().zip(values) {
                counted.values[*place] = value;
            }
            Ok::<_, io::Error>((wanted, counting))
        };
        let mut times = None;
        if let Some((_, leader)) = self.hardware.first() {
            let places: Vec<usize> = self.hardware.iter().map(|(place, _)| *place).collect();
            times = Some(take(leader, &places)?);
        }
        for (place, fd) in &self.software {
            let own = take(fd, &[*place])?;
            times.get_or_insert(own);
        }
        (counted.wanted, counted.counting) = times.unwrap_or_default();
        Ok(counted)
    }
}

/// Reads events that count together: the time enabled, the time running, and the counts.
fn read_together(leader: &OwnedFd, count: usize) -> io::Result<(Nanos, Nanos, Vec<u64>)> {
    // The number of events and the two times precede the counts.
    const HEAD: usize = 3;
    let mut bytes = vec![0u8; (HEAD + count) * size_of::<u64>()];
    let filled = rustix::io::read(leader, &mut bytes[..])?;
    // An event whose CPU is gone returns nothing, or only the leader.
    if filled < bytes.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    let mut words = bytes.chunks_exact(size_of::<u64>()).map(|word| {
        let mut bytes = [0; size_of::<u64>()];
        bytes.copy_from_slice(word);
        u64::from_ne_bytes(bytes)
    });
    let mut next = || words.next().unwrap_or(0);
    let _count = next();
    let (wanted, counting) = (Nanos(next()), Nanos(next()));
    Ok((wanted, counting, words.collect()))
}

fn open_event(whom: Whom, code: &Code, leader: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    use sys::bindings as b;
    let mut attr = b::perf_event_attr { type_: code.type_, config: code.config[0], ..Default::default() };
    attr.size = u32::try_from(size_of_val(&attr)).unwrap_or(0);
    attr.__bindgen_anon_3.config1 = code.config[1];
    attr.__bindgen_anon_4.config2 = code.config[2];
    attr.read_format = u64::from(
        b::PERF_FORMAT_GROUP | b::PERF_FORMAT_TOTAL_TIME_ENABLED | b::PERF_FORMAT_TOTAL_TIME_RUNNING,
    );
    attr.set_disabled(u64::from(leader.is_none()));
    if code.sort == Sort::Hardware {
        attr.set_exclude_user(u64::from(!code.user));
        attr.set_exclude_kernel(u64::from(!code.sys));
        attr.set_exclude_hv(u64::from(!code.sys));
    }
    let nowhere = || io::Error::from_raw_os_error(libc::ESRCH);
    let (pid, cpu) = match whom {
        Whom::Cpu(cpu) => (-1, i32::try_from(cpu.0).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?),
        Whom::Thread(tid) => (i32::try_from(tid).map_err(|_| nowhere())?, -1),
    };
    let group = leader.map_or(-1, AsRawFd::as_raw_fd);
    let flags = libc::c_ulong::from(b::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: `attr` is a complete attribute record with its size in it, and outlives the call.
    let fd = unsafe { sys::perf_event_open(&raw mut attr, pid, cpu, group, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::super::catalogue;
    use super::super::pmu::Pmus;
    use super::*;

    fn codes(names: &[&str]) -> Vec<Code> {
        names.iter().map(|name| catalogue::find(name, &Pmus::default()).unwrap()).collect()
    }

    fn is_not_allowed(error: &io::Error) -> bool {
        matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::ENOSYS))
    }

    #[test]
    fn what_a_thread_does_is_counted_from_zero() {
        let mut group = match Group::open(Whom::Thread(0), &codes(&["page-faults", "task-clock"])) {
            Err((_, error)) if is_not_allowed(&error) => {
                println!("skipped: what_a_thread_does_is_counted_from_zero: {error}");
                return;
            }
            group => group.unwrap(),
        };
        group.start().unwrap();
        let touched: Vec<u8> = vec![1; 64 << 20];
        let first = group.read().unwrap();
        assert_eq!(touched.iter().step_by(4096).map(|b| u64::from(*b)).sum::<u64>(), 16_384);
        assert!(first.values.iter().all(|value| *value > 0), "{first:?}");
        assert!(first.counting.0 > 0 && first.counting <= first.wanted, "{first:?}");
        group.stop().unwrap();
        let (a, b) = (group.read().unwrap(), group.read().unwrap());
        assert_eq!(a.values, b.values, "it is stopped");
        group.start().unwrap();
        assert!(group.read().unwrap().values[1] < b.values[1], "it counts from zero again");
    }

    #[test]
    fn an_event_that_no_machine_has_is_refused_by_its_place() {
        let none = Code { type_: 0xffff, ..codes(&["cycles"])[0].clone() };
        let set = [codes(&["task-clock"])[0].clone(), none];
        let (at, _) = Group::open(Whom::Thread(0), &set).unwrap_err();
        assert!(at <= 1);
    }
}
