//! Reasons why a program is not loaded or attached.

use std::io;

/// A reason, worded as the second half of a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Built without the feature `programs`.
    #[error("millpond was built without programs for the kernel")]
    NotBuilt,
    /// Missing capabilities.
    #[error("programs in the kernel need CAP_BPF and CAP_PERFMON")]
    NotPermitted,
    /// The kernel has no type information (BTF).
    #[error("this kernel does not describe its types (CONFIG_DEBUG_INFO_BTF)")]
    NoTypes,
    /// The kernel's BTF shows an argument of kfuncs that the kernel adds itself, as in Debian's 7.1 and 7.2 for trixie.
    #[error(
        "this kernel describes functions of sched_ext wrongly (its BTF has their implicit argument): another build of it is needed"
    )]
    WrongTypes,
    /// Only one sched_ext scheduler can be loaded at a time.
    #[error("another sched_ext scheduler is at work")]
    Busy,
    /// The kernel has no tracepoint of that name.
    #[error("this kernel has no such tracepoint")]
    NoSuchPlace,
    /// The kernel has no bpf() system call.
    #[error("this kernel takes no programs")]
    NoPrograms,
    /// Programs run, but the kernel cannot allocate task storage. From 7.0 on this needs a CPU with `cmpxchg16b`.
    #[error("this kernel gives programs no memory for threads")]
    NoMemory,
    /// Another error.
    #[error("the kernel refused the program: {why}")]
    Kernel {
        /// The system's error text.
        why: String,
        /// libbpf's log of the load, for debugging the program.
        log: String,
    },
}

impl Refused {
    /// Classifies the system's error and libbpf's log.
    #[cfg_attr(not(feature = "programs"), allow(dead_code, reason = "nothing is ever loaded"))]
    pub(crate) fn of(error: &io::Error, log: String) -> Refused {
        const EPERM: i32 = 1;
        const ENOENT: i32 = 2;
        const ESRCH: i32 = 3;
        const EACCES: i32 = 13;
        const EBUSY: i32 = 16;
        const EINVAL: i32 = 22;
        const ENOSYS: i32 = 38;
        /// First line of a verifier log.
        const VERIFIER: &str = "BEGIN PROG LOAD LOG";
        match error.raw_os_error() {
            // The verifier, too, returns EACCES, but with a log.
            Some(EACCES) if !log.is_empty() => Refused::Kernel { why: error.to_string(), log },
            Some(EPERM | EACCES) => Refused::NotPermitted,
            Some(EBUSY) => Refused::Busy,
            Some(EINVAL) if log.contains("func_proto") && log.contains("incompatible with vmlinux") => {
                Refused::WrongTypes
            }
            Some(ESRCH) if log.contains("BTF") => Refused::NoTypes,
            Some(ENOENT | ESRCH) => Refused::NoSuchPlace,
            Some(ENOSYS) => Refused::NoPrograms,
            None if error.kind() == io::ErrorKind::PermissionDenied && !log.contains(VERIFIER) => {
                Refused::NotPermitted
            }
            None if error.kind() == io::ErrorKind::NotFound => Refused::NoSuchPlace,
            _ => Refused::Kernel { why: error.to_string(), log },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_have_a_meaning() {
        let of = |number| Refused::of(&io::Error::from_raw_os_error(number), String::new());
        assert_eq!(of(1), Refused::NotPermitted);
        assert_eq!(of(2), Refused::NoSuchPlace);
        assert_eq!(of(16).to_string(), "another sched_ext scheduler is at work");
        assert_eq!(of(38).to_string(), "this kernel takes no programs");
        assert!(of(22).to_string().starts_with("the kernel refused the program: Invalid argument"));
    }

    #[test]
    fn wrong_types_of_functions_are_told() {
        let log = "libbpf: extern (func ksym) 'scx_bpf_create_dsq': func_proto [57] incompatible with vmlinux [35548]";
        assert_eq!(Refused::of(&io::Error::from_raw_os_error(22), log.into()), Refused::WrongTypes);
    }

    #[test]
    fn a_kind_of_error_without_a_number_has_the_same_meaning() {
        let of = |kind: io::ErrorKind, log: &str| Refused::of(&kind.into(), log.into());
        assert_eq!(of(io::ErrorKind::PermissionDenied, "libbpf: failed"), Refused::NotPermitted);
        assert_eq!(of(io::ErrorKind::NotFound, ""), Refused::NoSuchPlace);
        let refused = of(io::ErrorKind::PermissionDenied, "-- BEGIN PROG LOAD LOG --\nR1 invalid mem access");
        assert!(matches!(refused, Refused::Kernel { .. }));
    }

    #[test]
    fn what_the_verifier_says_is_no_lack_of_rights() {
        let refused = Refused::of(&io::Error::from_raw_os_error(13), "R1 invalid mem access".into());
        assert!(matches!(refused, Refused::Kernel { .. }));
    }
}
