//! Workloads started as programs in a set.

use crate::machine::SimMachine;
use crate::workloads::Load;
use millpond_machine::facets::{Launch, LaunchMode, Program, ProgramExit};
use millpond_machine::{Reason, Refusal, bind_at_start};
use millpond_model::{Nanos, Pid};

/// A started workload. Dropping the value does not end it: it advances with the machine's time.
struct Started<'m> {
    machine: &'m SimMachine,
    pid: Pid,
    notes: Vec<String>,
}

impl SimMachine {
    pub(crate) fn launch_program(&self, launch: &Launch<'_>) -> Result<Box<dyn Program + '_>, Refusal> {
        let refused = |why: String| Refusal::operation(Reason::Machine(why));
        let (LaunchMode::Foreground(set) | LaunchMode::Captured(set)) = launch.mode else {
            return Err(refused("a simulated machine has no class below all others".to_owned()));
        };
        let words: Vec<String> =
            launch.words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let load = Load::parse(&words).map_err(|error| refused(error.what).hint(error.remedy))?;
        let before = self.view(Clone::clone);
        let pid = self.edit(|state| state.prepare(&load.name));
        match bind_at_start(self, pid, set) {
            Ok(bound) => {
                self.edit(|state| state.execute_load(pid, &load));
                let notes = bound.into_iter().chain(load.notes).collect();
                Ok(Box::new(Started { machine: self, pid, notes }))
            }
            Err(refusal) => {
                self.edit(|state| *state = before);
                Err(refusal)
            }
        }
    }
}

impl Program for Started<'_> {
    fn pid(&self) -> Pid {
        self.pid
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn has_ended(&self) -> bool {
        self.machine.view(|state| !state.tables.processes.contains_key(&self.pid))
    }

    fn terminate(&self) {
        if !self.has_ended() {
            self.machine.exit(self.pid);
        }
    }

    fn exit(&mut self) -> ProgramExit {
        self.terminate();
        ProgramExit::default()
    }

    fn cpu_time(&self) -> Nanos {
        self.machine.view(|state| {
            let own = state.threads.iter().filter(|(_, lwp)| lwp.pid == self.pid);
            let times = own.map(|(number, _)| state.kernel.thread(*number));
            Nanos(times.map(|thread| thread.user + thread.sys).sum())
        })
    }
}
