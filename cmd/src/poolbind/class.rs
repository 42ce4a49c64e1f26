//! The scheduling class that a pool gives to what is bound to it.

use super::Done;
use crate::change::Changer;
use crate::ctx::Ctx;
use millpond_machine::facets::{Member, Scheduled};
use millpond_machine::{Dispatcher, Machine};
use millpond_model::pools::Keyword;
use millpond_model::{Class, ClassRequest, Pid};
use millpond_pools::{Code, PoolError, errno};

/// The class of a pool.
pub struct PoolClass(pub Keyword<Class>);

impl PoolClass {
    /// An unknown class keeps everything out of the pool, as on Solaris.
    ///
    /// # Errors
    /// [`errno::INVAL`].
    pub fn check(&self, machine: &dyn Machine) -> Result<(), PoolError> {
        if self.0.known().is_some() {
            return Ok(());
        }
        let classes = machine.dispatcher().map(|d| d.classes()).unwrap_or_default();
        let classes: Vec<&str> = classes.iter().map(|class| class.word()).collect();
        let hint = format!(
            "pool.scheduler of the pool is {}, and this machine has the classes {}",
            self.0,
            classes.join(", ")
        );
        Err(PoolError::hinted(Code::System(errno::INVAL), hint))
    }

    /// Puts what was bound into the class. A machine that does not is told about; the binding stays.
    pub fn apply(
        &self,
        machine: &dyn Machine,
        member: &Member,
        changer: &mut Changer<'_>,
        ctx: &mut Ctx<'_>,
    ) {
        let Some(class) = self.0.known() else { return };
        let dispatcher = match machine.dispatcher() {
            Ok(dispatcher) => dispatcher,
            Err(absent) => {
                let help = absent.what_would_help;
                return changer.note(
                    ctx,
                    format!("{member} keeps its class: {}", absent.why),
                    help.as_deref(),
                );
            }
        };
        let all = dispatcher.scheduled().unwrap_or_default();
        let pids: Vec<Pid> = match member {
            Member::Process(pid) => vec![*pid],
            Member::Zone(name) => match processes_of(machine, &all, name) {
                Some(pids) => pids,
                None => {
                    let text =
                        format!("processes of {member} keep their classes: they are bound as they stand");
                    return changer.note(ctx, text, Some("put them into the class by priocntl -s"));
                }
            },
        };
        for pid in pids {
            let is = all.iter().find(|s| s.pid == pid);
            if is.is_none_or(|s| !s.kernel && s.params.class() != class) {
                put(dispatcher, pid, class, changer, ctx);
            }
        }
    }
}

/// The processes of a zone, where the machine says so.
fn processes_of(machine: &dyn Machine, all: &[Scheduled], name: &str) -> Option<Vec<Pid>> {
    let zones = machine.zones().ok()?.list().ok()?;
    let id = zones.iter().position(|zone| zone.name == name)?;
    if all.iter().all(|s| s.ids.zoneid.is_none()) {
        return None;
    }
    let inside = all.iter().filter(|s| s.ids.zoneid.is_some_and(|zone| usize::try_from(zone) == Ok(id)));
    Some(inside.map(|s| s.pid).collect())
}

fn put(dispatcher: &dyn Dispatcher, pid: Pid, class: Class, changer: &mut Changer<'_>, ctx: &mut Ctx<'_>) {
    let request = match class {
        Class::Sys => return,
        Class::Ts => ClassRequest::Ts { uprilim: None, upri: None },
        Class::Ia => ClassRequest::Ia { uprilim: None, upri: None, foreground: None },
        Class::Fx => ClassRequest::Fx { uprilim: None, upri: None, quantum: None },
        Class::Fss => ClassRequest::Fss { uprilim: None, upri: None },
        Class::Rt => ClassRequest::Rt { pri: None, quantum: None, tqsig: None },
    };
    let made = dispatcher.prepare_class(pid, &request).and_then(|change| changer.make(ctx, change));
    match made {
        Ok(Some(_)) => changer.report(ctx, None, Done::Class { pid, class }),
        Ok(None) => {}
        Err(refusal) => {
            let text = format!("process {pid} keeps its class, and does not get {class}: {}", refusal.reason);
            changer.note(ctx, text, refusal.hint.as_deref());
        }
    }
}
