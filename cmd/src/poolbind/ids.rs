//! Operands of `poolbind`: parses words of each type as processes and zones.

use crate::failure::{Complaint, Failure};
use millpond_cli::Parsed;
use millpond_machine::Machine;
use millpond_machine::facets::Member;
use millpond_model::Pid;
use millpond_session::{Kind as MachineKind, Session};
use std::fmt;

/// The number of digits of a container's id in its zone name.
const CONTAINER_DIGITS: usize = 12;

/// The type of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Process,
    Task,
    Project,
    Zone,
    Unit,
    Container,
    Group,
}

/// An operand of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    kind: Kind,
    word: String,
}

impl Kind {
    /// The operands of long options, sorted by kind.
    pub fn named(parsed: &Parsed) -> Vec<Chosen> {
        let longs = [("unit", Kind::Unit), ("container", Kind::Container), ("cgroup", Kind::Group)];
        let all = longs.into_iter().flat_map(|(long, kind)| {
            parsed.long_values(long).into_iter().map(move |word| Chosen { kind, word })
        });
        all.collect()
    }

    fn word(self) -> &'static str {
        match self {
            Kind::Process => "pid",
            Kind::Task => "taskid",
            Kind::Project => "projid",
            Kind::Zone => "zoneid",
            Kind::Unit => "unit",
            Kind::Container => "container",
            Kind::Group => "cgroup",
        }
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.word(), self.word)
    }
}

/// The words after `-i TYPE`.
///
/// # Errors
/// [`Failure::Usage`] for an unknown type.
pub fn read(kind: Option<String>, words: &[String]) -> Result<Vec<Chosen>, Failure> {
    let kind = match kind.as_deref() {
        None | Some("pid") => Kind::Process,
        Some("taskid") => Kind::Task,
        Some("projid" | "project") => Kind::Project,
        Some("zoneid") => Kind::Zone,
        Some(other) => {
            let why =
                format!("`{other}` is no type of ids; there are pid, taskid, projid, project and zoneid");
            return Err(Failure::Usage(why));
        }
    };
    Ok(words.iter().map(|word| Chosen { kind, word: word.clone() }).collect())
}

impl Chosen {
    /// The type of the id.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The process id.
    ///
    /// # Errors
    /// [`Complaint`] with the text of Solaris alone.
    pub fn pid(&self) -> Result<Pid, Complaint> {
        self.word.parse().map_err(|_| self.invalid("a process is named by its number"))
    }

    /// The processes of a project on a simulated machine. For any other type, the operand itself.
    ///
    /// # Errors
    /// [`Complaint`] for an unknown project.
    pub fn spread(&self, session: &Session) -> Result<Vec<Chosen>, Complaint> {
        let Some(simulation) = session.simulation().filter(|_| self.kind == Kind::Project) else {
            return Ok(vec![self.clone()]);
        };
        let pids = simulation.pids_of_project(&self.word);
        let pids = pids.ok_or_else(|| self.invalid("projects -l lists the projects"))?;
        Ok(pids.into_iter().map(|pid| Chosen { kind: Kind::Process, word: pid.to_string() }).collect())
    }

    /// The member that the machine binds.
    ///
    /// # Errors
    /// [`Complaint`] with the text of Solaris for an unknown id.
    pub fn member(&self, machine: &dyn Machine, on: MachineKind) -> Result<Member, Complaint> {
        let word = &self.word;
        if self.kind == Kind::Process {
            return self.pid().map(Member::Process);
        }
        if on == MachineKind::Simulated && !matches!(self.kind, Kind::Zone) {
            let what = match self.kind {
                Kind::Task => "tasks",
                Kind::Unit => "units",
                Kind::Container => "containers",
                _ => "cgroups",
            };
            return Err(self.invalid(&format!(
                "simulated machines have no {what}; they have zones (-i zoneid) and projects (-i projid)"
            )));
        }
        let zones = machine.zones().map_err(Into::into).and_then(|zones| zones.list());
        let zones = zones.map_err(|refusal| self.invalid(&refusal.to_string()))?;
        let is_number = word.bytes().all(|b| b.is_ascii_digit()) && !word.is_empty();
        let name = match self.kind {
            Kind::Zone if is_number && zones.iter().all(|zone| zone.name != *word) => {
                let id: Option<u32> = word.parse().ok();
                let found = zones.iter().find(|zone| id == Some(zone.id));
                found.map(|zone| zone.name.clone()).ok_or_else(|| self.unknown())?
            }
            Kind::Task if is_number => format!("session-{word}.scope"),
            Kind::Project if is_number => format!("user-{word}.slice"),
            Kind::Project if !word.ends_with(".slice") => format!("{word}.slice"),
            Kind::Container
                if word.len() > CONTAINER_DIGITS && word.bytes().all(|b| b.is_ascii_hexdigit()) =>
            {
                word[..CONTAINER_DIGITS].to_owned()
            }
            _ => word.clone(),
        };
        // A group may be named by its path, which the list does not contain.
        let known = name.starts_with('/') || zones.iter().any(|zone| zone.name == name);
        if known { Ok(Member::Zone(name)) } else { Err(self.unknown()) }
    }

    /// The complaint about an unknown id.
    pub fn unknown(&self) -> Complaint {
        self.invalid("millpond zones lists what can be named")
    }

    /// A complaint: `invalid zone 'x'`.
    fn invalid(&self, hint: &str) -> Complaint {
        let noun = match self.kind {
            Kind::Zone => "zone",
            other => other.word(),
        };
        Complaint::new(format!("invalid {noun} '{}'", self.word), "").hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_one_of_those_of_solaris() {
        let kind = |word: &str| read(Some(word.into()), &["7".into()]).map(|all| all[0].to_string());
        for (word, shown) in
            [("pid", "pid 7"), ("taskid", "taskid 7"), ("project", "projid 7"), ("zoneid", "zoneid 7")]
        {
            assert_eq!(kind(word).as_deref(), Ok(shown));
        }
        assert!(matches!(kind("uid"), Err(Failure::Usage(_))));
    }

    #[test]
    fn long_options_may_be_repeated() {
        let words: Vec<_> = ["--unit", "a.service", "--cgroup=/x", "--unit=b.service"].map(Into::into).into();
        let parsed = millpond_cli::parse(&super::super::COMMAND.spec, &words).unwrap();
        let shown: Vec<String> = Kind::named(&parsed).iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["unit a.service", "unit b.service", "cgroup /x"]);
    }
}
