//! The CPUs that the calling thread may use, on machines of any size.

use crate::Error;
use std::io;

/// 64 times the largest mask of present kernels (8,192 CPUs).
const MASK_BYTES_MAX: usize = 1 << 16;

/// The CPUs that the calling thread may run on, ascending, by the kernel's numbers.
///
/// Uses the raw system call with a growing buffer: the C library's set ends at 1,024 CPUs, and the kernel returns `EINVAL` for a
/// buffer smaller than its own mask.
///
/// # Errors
///
/// [`Error::ReadAllowedCpus`] when the kernel refuses for any other reason (a system call filter).
pub fn allowed_cpus() -> Result<Vec<u32>, Error> {
    let mut mask = vec![0_u64; 16];
    loop {
        match read_affinity(&mut mask) {
            Ok(bytes) => return Ok(cpus_of(&mask[..bytes.div_ceil(8)])),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && mask.len() * 8 < MASK_BYTES_MAX => {
                mask = vec![0; mask.len() * 2];
            }
            Err(source) => return Err(Error::ReadAllowedCpus { source }),
        }
    }
}

/// Number of CPUs that the calling thread may run on: at least one.
pub(crate) fn allowed_cpu_count() -> Result<usize, Error> {
    Ok(allowed_cpus()?.len().max(1))
}

/// Fills `mask` and returns the number of bytes that the kernel wrote.
fn read_affinity(mask: &mut [u64]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most the given length, which is that of the slice; every bit pattern is a valid u64; pid 0 is the
    // calling thread.
    let bytes =
        unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size_of_val(mask), mask.as_mut_ptr()) };
    usize::try_from(bytes).map_err(|_| io::Error::last_os_error())
}

/// The indices of set bits, in words of native byte order, as the kernel stores them.
fn cpus_of(mask: &[u64]) -> Vec<u32> {
    let bits = (0_u32..).zip(mask.iter().flat_map(|word| (0..64).map(move |bit| word >> bit & 1 == 1)));
    bits.filter_map(|(cpu, is_set)| is_set.then_some(cpu)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_calling_thread_may_use_at_least_one_processor_and_the_list_ascends() {
        let cpus = allowed_cpus().unwrap();
        assert!(!cpus.is_empty());
        assert!(cpus.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn the_list_agrees_with_the_standard_library_about_the_count() {
        // The standard library also considers quotas, so it may return less, never more.
        assert!(std::thread::available_parallelism().unwrap().get() <= allowed_cpu_count().unwrap());
    }

    #[test]
    fn a_buffer_that_is_too_small_is_refused_with_einval_which_the_growth_relies_on() {
        let error = read_affinity(&mut []).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }

    proptest! {
        #[test]
        fn every_set_of_processors_beyond_1024_reads_back_as_itself(cpus in prop::collection::btree_set(0_u32..4096, 0..64)) {
            let mut mask = vec![0_u64; 64];
            for cpu in &cpus {
                mask[*cpu as usize / 64] |= 1 << (cpu % 64);
            }
            prop_assert_eq!(cpus_of(&mask).into_iter().collect::<BTreeSet<_>>(), cpus);
        }
    }
}
