//! Counters of given threads, without tracing them.

use super::catalogue::Code;
use super::group::{Group, Whom};
use super::refused;
use millpond_machine::facets::{LwpCounting, LwpReading};
use millpond_machine::{Refusal, Subject};
use millpond_model::Lwp;

/// Their counters. Dropping the value closes them.
pub(super) struct Lwps(Vec<(Lwp, Group)>);

impl Lwps {
    /// Opens and starts the counters. Threads that have ended are left out.
    pub(super) fn begin(lwps: &[Lwp], codes: &[Code]) -> Result<Self, Refusal> {
        let mut counted = Vec::with_capacity(lwps.len());
        for lwp in lwps {
            let mut group = match Group::open(Whom::Thread(lwp.lwp.0), codes) {
                Ok(group) => group,
                Err((_, error)) if error.raw_os_error() == Some(libc::ESRCH) => continue,
                Err((at, error)) => return Err(refused(Subject::Thread(*lwp), codes, at, &error)),
            };
            if group.start().is_ok() {
                counted.push((*lwp, group));
            }
        }
        Ok(Lwps(counted))
    }
}

impl LwpCounting for Lwps {
    fn read(&mut self) -> Vec<LwpReading> {
        let reading = |(lwp, group): &(Lwp, Group)| {
            let counted = group.read().ok()?;
            Some(LwpReading { lwp: *lwp, tick: counted.wanted.0, counted })
        };
        self.0.iter().filter_map(reading).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::find;
    use super::super::pmu::Pmus;
    use super::*;
    use millpond_model::{LwpId, Pid};

    #[test]
    fn who_is_there_is_counted_and_who_is_gone_is_left_out() {
        let code = find("page-faults", &Pmus::default()).unwrap();
        let own = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let lwp = |tid| Lwp { pid: Pid(std::process::id()), lwp: LwpId(tid) };
        // No thread has the largest possible id.
        let mut counting = match Lwps::begin(&[lwp(own), lwp(i32::MAX.cast_unsigned())], &[code]) {
            Ok(counting) => counting,
            Err(refusal) => {
                return println!("skipped: who_is_there_is_counted_and_who_is_gone_is_left_out: {refusal}");
            }
        };
        let touched = std::hint::black_box(vec![1_u8; 64 << 20]);
        let readings = counting.read();
        assert_eq!(readings.iter().map(|r| r.lwp).collect::<Vec<_>>(), [lwp(own)]);
        assert!(readings[0].counted.values[0] > 0, "{readings:?} {}", touched.len());
    }
}
