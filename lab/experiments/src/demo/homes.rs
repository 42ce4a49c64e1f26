//! CPUs of each job when the jobs are separated.

use millpond_model::{CpuId, CpuSet};

/// The place of a job when the jobs are separated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Home {
    /// A set with these CPUs.
    Set(Vec<CpuId>),
    /// The default set, which then has these CPUs.
    Default(Vec<CpuId>),
}

impl Home {
    /// Its CPUs, by number.
    #[must_use]
    pub fn cpus(&self) -> CpuSet {
        let (Home::Set(cpus) | Home::Default(cpus)) = self;
        cpus.iter().copied().collect()
    }
}

/// Homes of equal size for two jobs, from CPUs in topology order; `None` for fewer than two CPUs. From three CPUs on both
/// are sets, at opposite ends. At least one CPU remains for other programs: the first, which most likely has the
/// interrupts.
#[must_use]
pub fn plan_homes(free: &[CpuId]) -> Option<[Home; 2]> {
    match free {
        [] | [_] => None,
        [first, second] => Some([Home::Set(vec![*second]), Home::Default(vec![*first])]),
        all => {
            let size = (all.len() - 1) / 2;
            let far = all[all.len() - size..].to_vec();
            let near = all[1..=size].to_vec();
            Some([Home::Set(far), Home::Set(near)])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cpus(numbers: &[u32]) -> Vec<CpuId> {
        numbers.iter().copied().map(CpuId).collect()
    }

    #[test]
    fn with_two_processors_one_job_has_a_set_and_the_other_what_is_left() {
        let homes = plan_homes(&cpus(&[0, 1])).unwrap();
        assert_eq!(homes, [Home::Set(cpus(&[1])), Home::Default(cpus(&[0]))]);
    }

    #[test]
    fn with_more_both_have_sets_at_opposite_ends() {
        let homes = plan_homes(&cpus(&[0, 4, 1, 5, 2, 6, 3, 7])).unwrap();
        assert_eq!(homes, [Home::Set(cpus(&[6, 3, 7])), Home::Set(cpus(&[4, 1, 5]))]);
    }

    #[test]
    fn one_processor_cannot_be_shared_out() {
        assert_eq!(plan_homes(&cpus(&[])), None);
        assert_eq!(plan_homes(&cpus(&[3])), None);
    }

    proptest! {
        #[test]
        fn homes_are_of_one_size_apart_and_leave_one_for_the_others(count in 2_u32..300) {
            let all = cpus(&(0..count).collect::<Vec<_>>());
            let [a, b] = plan_homes(&all).unwrap();
            prop_assert_eq!(a.cpus().len(), b.cpus().len());
            prop_assert!(a.cpus().is_disjoint(&b.cpus()));
            let in_sets: usize = [&a, &b].iter().filter(|h| matches!(h, Home::Set(_))).map(|h| h.cpus().len()).sum();
            prop_assert!(in_sets < all.len());
        }
    }
}
