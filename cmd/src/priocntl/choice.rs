//! The selected processes: ids of one type.

use crate::command::tell;
use crate::ctx::Ctx;
use crate::dispadmin::read_class;
use crate::failure::Failure;
use millpond_cli::Parsed;
use millpond_formats::priocntl::IdType;
use millpond_machine::facets::Scheduled;
use millpond_model::{Class, Pid};
use millpond_session::{Kind, own_pid};
use std::collections::BTreeSet;

/// The most ids per command, as on Solaris.
const IDS_MAX: usize = 1024;

/// The parsed ids.
#[derive(Debug)]
pub(super) enum Choice {
    /// All processes.
    All,
    /// The processes in these classes.
    Classes(BTreeSet<Class>),
    /// The processes with one of these numbers. If empty, those with the same number as this command.
    Numbers(IdType, BTreeSet<u32>),
}

impl Choice {
    /// Parses type and ids. A class that does not exist is reported and left out.
    ///
    /// # Errors
    /// [`Failure::Usage`] for an invalid word.
    pub(super) fn read(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Choice, Failure> {
        let misuse = |why: String| Err(Failure::Usage(why));
        let idtype = match parsed.value('i').map(|word| word.parse::<IdType>()) {
            None => IdType::Pid,
            Some(Ok(idtype)) => idtype,
            Some(Err(error)) => return misuse(error.to_string()),
        };
        let words = parsed.words();
        if words.len() > IDS_MAX {
            return misuse(format!("there are {} ids; {IDS_MAX} are possible", words.len()));
        }
        match idtype {
            IdType::All if words.is_empty() => Ok(Choice::All),
            IdType::All => misuse("-i all takes no ids".into()),
            IdType::Class => {
                let mut classes = BTreeSet::new();
                for word in words {
                    match read_class(&word) {
                        Ok(class) => {
                            classes.insert(class);
                        }
                        Err(failure) => tell(&failure, &super::COMMAND.spec, &[], ctx),
                    }
                }
                Ok(Choice::Classes(classes))
            }
            _ => {
                let mut ids = BTreeSet::new();
                for word in words {
                    match word.parse() {
                        Ok(id) => ids.insert(id),
                        Err(_) => {
                            return misuse(format!(
                                "`{word}` is no {idtype}, which is a number from 0 to {}",
                                u32::MAX
                            ));
                        }
                    };
                }
                Ok(Choice::Numbers(idtype, ids))
            }
        }
    }

    /// Whether a process was named by its process id.
    pub(super) fn names(&self, pid: Pid) -> bool {
        matches!(self, Choice::Numbers(IdType::Pid, ids) if ids.contains(&pid.0))
    }

    /// The chosen processes, at least one.
    ///
    /// # Errors
    /// If there are none: the reason, if there is more to say.
    pub(super) fn among<'a>(
        &self,
        all: &'a [Scheduled],
        kind: Kind,
    ) -> Result<Vec<&'a Scheduled>, Option<String>> {
        let users = || all.iter().filter(|s| !s.kernel);
        let found: Vec<&Scheduled> = match self {
            Choice::All => users().collect(),
            Choice::Classes(classes) => users().filter(|s| classes.contains(&s.params.class())).collect(),
            Choice::Numbers(idtype, ids) => {
                if all.iter().all(|s| number(*idtype, s).is_none()) {
                    return Err(Some(format!("processes of this machine have no {idtype}")));
                }
                let mut ids = ids.clone();
                if ids.is_empty() {
                    if kind != Kind::Real {
                        let why = "this command is no process of the machine; name one, or choose by -i all";
                        return Err(Some(why.into()));
                    }
                    ids.extend(all.iter().find(|s| s.pid == own_pid()).and_then(|s| number(*idtype, s)));
                }
                users().filter(|s| number(*idtype, s).is_some_and(|id| ids.contains(&id))).collect()
            }
        };
        if !found.is_empty() {
            return Ok(found);
        }
        let kernel = all.iter().any(|s| s.kernel && self.names(s.pid));
        Err(kernel.then(|| "parts of the kernel are in class SYS, and are not shown or changed".into()))
    }
}

/// The number of a process for an id type. `None` if the type has no numbers.
fn number(idtype: IdType, process: &Scheduled) -> Option<u32> {
    let ids = &process.ids;
    match idtype {
        IdType::Pid => Some(process.pid.0),
        IdType::Ppid => ids.ppid,
        IdType::Pgid => ids.pgid,
        IdType::Sid => ids.sid,
        IdType::Uid => ids.uid,
        IdType::Gid => ids.gid,
        IdType::Zoneid => ids.zoneid,
        IdType::Projid => ids.projid,
        IdType::Taskid | IdType::Ctid | IdType::Class | IdType::All => None,
    }
}
