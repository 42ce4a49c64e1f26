//! The listings of `priocntl`, and the words that it accepts.

use millpond_model::{Class, ClassParams, Pid, Quantum};

/// `-l`: the classes with their ranges of user priorities. Several lines with newlines.
#[must_use]
pub fn listing(classes: &[Class]) -> String {
    let one = |class: &Class| {
        // The text for FX differs from that of `dispadmin`, as on Solaris.
        let what = match class {
            Class::Sys => "System Class",
            Class::Ts => "Time Sharing",
            Class::Fx => "Fixed priority",
            Class::Rt => "Real Time",
            Class::Ia => "Interactive",
            Class::Fss => "Fair Share",
        };
        let range = class.user_priorities().map(|range| {
            format!("\tConfigured {class} User Priority Range: {} through {}\n", range.start(), range.end())
        });
        format!("\n{class} ({what})\n{}", range.unwrap_or_default())
    };
    let rows: String = classes.iter().map(one).collect();
    format!("CONFIGURED CLASSES\n==================\n{rows}")
}

/// The lines above the processes of a class in `-d`, with newlines. Empty for SYS.
#[must_use]
pub fn heading(class: Class) -> &'static str {
    match class {
        Class::Sys => "",
        Class::Ts => "TIME SHARING PROCESSES:\n    PID    TSUPRILIM    TSUPRI\n",
        Class::Ia => "INTERACTIVE CLASS PROCESSES:\n    PID    IAUPRILIM    IAUPRI    IAMODE\n",
        Class::Rt => "REAL TIME PROCESSES:\n    PID   RTPRI       TQNTM    TQSIG\n",
        Class::Fx => "FIXED PRIORITY PROCESSES:\n    PID    FXUPRILIM    FXUPRI      FXTQNTM\n",
        Class::Fss => "FAIR SHARING PROCESSES:\n    PID    FSSUPRILIM    FSSUPRI\n",
    }
}

/// A process in `-d`, on a machine with `hz` ticks per second. Slices are in milliseconds.
#[must_use]
pub fn row(pid: Pid, params: &ClassParams, hz: u32) -> String {
    let slice = |quantum: Quantum, class: Class| match quantum {
        Quantum::Infinite => format!("    {class}_TQINF"),
        Quantum::Ticks(ticks) => {
            let ms = (u64::from(ticks) * 1000).div_ceil(u64::from(hz.max(1)));
            format!(" {ms:11}")
        }
    };
    let pid = pid.0;
    match *params {
        ClassParams::Sys => format!("{pid:7}"),
        ClassParams::Ts { uprilim, upri } | ClassParams::Fss { uprilim, upri } => {
            format!("{pid:7}    {uprilim:5}       {upri:5}")
        }
        ClassParams::Ia { uprilim, upri, foreground } => {
            format!("{pid:7}    {uprilim:5}       {upri:5}     {:5}", u8::from(foreground))
        }
        ClassParams::Fx { uprilim, upri, quantum } => {
            format!("{pid:7}    {uprilim:5}       {upri:5}{}", slice(quantum, Class::Fx))
        }
        ClassParams::Rt { pri, quantum, tqsig } => {
            format!("{pid:7}   {pri:5}{}      {tqsig:3}", slice(quantum, Class::Rt))
        }
    }
}

millpond_model::words! {
    /// The criterion by which processes are selected.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum IdType {
        /// Process.
        Pid = "pid",
        /// Parent process.
        Ppid = "ppid",
        /// Process group.
        Pgid = "pgid",
        /// Session.
        Sid = "sid",
        /// Class, by name.
        Class = "class",
        /// Effective user.
        Uid = "uid",
        /// Effective group.
        Gid = "gid",
        /// Project.
        Projid = "projid",
        /// Task.
        Taskid = "taskid",
        /// Zone.
        Zoneid = "zoneid",
        /// Process contract.
        Ctid = "ctid",
        /// Every process.
        All = "all",
    }
    else NoSuchIdType, NoSuchIdType
}

/// A word that is not a type of ID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is none of pid, ppid, pgid, sid, class, uid, gid, projid, taskid, zoneid, ctid and all")]
pub struct NoSuchIdType(pub String);

/// Signals in the order of their numbers on Solaris, from 1.
const SIGNALS: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "EMT", "FPE", "KILL", "BUS", "SEGV", "SYS", "PIPE", "ALRM",
    "TERM", "USR1", "USR2", "CHLD", "PWR", "WINCH", "URG", "POLL", "STOP", "TSTP", "CONT", "TTIN", "TTOU",
    "VTALRM", "PROF", "XCPU", "XFSZ",
];

/// The highest signal number.
const SIGNAL_MAX: u8 = 72;

/// The number of a signal given as a number, or as a name with or without `SIG`; 0 for none.
#[must_use]
pub fn signal(word: &str) -> Option<u8> {
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        return word.parse().ok().filter(|number| *number <= SIGNAL_MAX);
    }
    let name = word.strip_prefix("SIG").unwrap_or(word);
    (1..).zip(SIGNALS).find(|(_, signal)| *signal == name).map(|(number, _)| number)
}

/// A slice of `units` of 1/`res` second in whole clock ticks, rounded up; `None` if it is 0 or too long.
#[must_use]
pub fn quantum(units: u32, res: u32, hz: u32) -> Option<Quantum> {
    let ticks = crate::dispadmin::to_ticks(units, res, hz)?;
    (ticks > 0).then_some(Quantum::Ticks(ticks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::CLASSES;

    #[test]
    fn the_listing_has_the_range_of_each_class_but_the_system_s() {
        assert_eq!(
            listing(&CLASSES),
            "CONFIGURED CLASSES\n==================\n\nSYS (System Class)\n\n\
             TS (Time Sharing)\n\tConfigured TS User Priority Range: -60 through 60\n\n\
             FX (Fixed priority)\n\tConfigured FX User Priority Range: 0 through 60\n\n\
             RT (Real Time)\n\tConfigured RT User Priority Range: 0 through 59\n\n\
             IA (Interactive)\n\tConfigured IA User Priority Range: -60 through 60\n\n\
             FSS (Fair Share)\n\tConfigured FSS User Priority Range: -60 through 60\n"
        );
    }

    #[test]
    fn each_class_has_its_columns() {
        let shown = |pid, params: &str| row(Pid(pid), &params.parse().unwrap(), 100);
        assert_eq!(shown(4711, "TS 0 0"), "   4711        0           0");
        assert_eq!(shown(812, "RT 10 8 0"), "    812      10          80        0");
        assert_eq!(shown(812, "RT 59 infinite 16"), "    812      59    RT_TQINF       16");
        assert_eq!(shown(9, "IA 60 -60 foreground"), "      9       60         -60         1");
        assert_eq!(shown(9, "FSS 10 -5"), "      9       10          -5");
        assert_eq!(shown(9, "FX 60 1 20"), "      9       60           1         200");
        assert_eq!(shown(9, "FX 0 0 infinite"), "      9        0           0    FX_TQINF");
        assert_eq!(
            row(Pid(1), &"FX 0 0 20".parse().unwrap(), 1000),
            "      1        0           0          20"
        );
        assert_eq!(heading(Class::Rt), "REAL TIME PROCESSES:\n    PID   RTPRI       TQNTM    TQSIG\n");
    }

    #[test]
    fn words_are_understood_or_not() {
        for idtype in IdType::ALL {
            assert_eq!(idtype.word().parse(), Ok(idtype));
        }
        assert!("PID".parse::<IdType>().is_err());
        assert_eq!([signal("0"), signal("9"), signal("USR1"), signal("SIGXCPU")], [0, 9, 16, 30].map(Some));
        assert_eq!([signal("73"), signal("usr1"), signal(""), signal("-1")], [None; 4]);
    }

    #[test]
    fn a_slice_is_rounded_up_to_ticks() {
        assert_eq!(quantum(7, 1000, 100), Some(Quantum::Ticks(1)));
        assert_eq!(quantum(3, 1, 100), Some(Quantum::Ticks(300)));
        assert_eq!(quantum(0, 1000, 100), None);
    }
}
