//! The scheduling class that a pool gives to its processes.

use super::Done;
use crate::change::Changer;
use crate::ctx::Ctx;
use millpond_machine::facets::Member;
use millpond_machine::{Dispatcher, Machine, Reason, Refusal};
use millpond_model::pools::Keyword;
use millpond_model::{Class, ClassRequest, Pid};
use millpond_pools::{Code, PoolError, errno};

/// The scheduling class of a pool.
pub struct PoolClass(pub Keyword<Class>);

impl PoolClass {
    /// As on Solaris, nothing can be bound to a pool with an unknown class.
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

    /// Moves bound processes into the class. If the machine cannot, this is reported and the binding stays.
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
        let pids = match member {
            Member::Process(pid) => Ok(vec![*pid]),
            Member::Zone(name) => {
                dispatcher.live().map_err(Refusal::from).and_then(|()| machine.zones()?.processes(name))
            }
        };
        match pids {
            Ok(pids) => pids.into_iter().for_each(|pid| put(dispatcher, pid, class, changer, ctx)),
            Err(_) => {
                let text = format!("processes of {member} keep their classes: they are bound as they stand");
                changer.note(ctx, text, Some("put them into the class by priocntl -s"));
            }
        }
    }
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
    let made = dispatcher.prepare_class(pid, &request).and_then(|change| match change.steps.as_slice() {
        // The process already has the class.
        [] => Ok(None),
        _ => changer.make(ctx, change),
    });
    match made {
        Ok(Some(_)) => changer.report(ctx, None, Done::Class { pid, class }),
        Ok(None) => {}
        Err(Refusal {
            reason: Reason::NoSuchProcess | Reason::ExitedMeanwhile | Reason::KernelThread,
            ..
        }) => {}
        Err(refusal) => {
            let text = format!("process {pid} keeps its class, and does not get {class}: {}", refusal.reason);
            changer.note(ctx, text, refusal.hint.as_deref());
        }
    }
}
