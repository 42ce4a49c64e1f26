//! Checks of this machine for the class scheduler.

use crate::ctx::Ctx;
use millpond_machine::facets::{SchedulerCheck, SchedulerOutcome};
use millpond_machine::{Absent, Machine};
use millpond_model::printable;
use schemars::JsonSchema;
use serde::Serialize;

/// Checks for `millpond schedd`.
#[derive(Serialize, JsonSchema)]
pub(super) struct ClassScheduler {
    /// Whether it can be started or is running.
    can_run: bool,
    checks: Vec<SchedulerCheck>,
}

impl ClassScheduler {
    /// Checks a machine.
    pub(super) fn of(machine: &dyn Machine) -> Result<ClassScheduler, Absent> {
        let checks = machine.dispatcher()?.scheduler_checks()?;
        let can_run = checks.iter().all(|check| check.outcome != SchedulerOutcome::Prevents);
        Ok(ClassScheduler { can_run, checks })
    }

    /// A line with the verdict, and one for each check.
    pub(super) fn print(&self, ctx: &mut Ctx<'_>) {
        let verdict = if self.can_run { "can run here" } else { "cannot run here" };
        ctx.out.line(format_args!("class scheduler (millpond schedd): {verdict}"));
        for SchedulerCheck { name, outcome, is, remedy } in &self.checks {
            let mark = match outcome {
                SchedulerOutcome::Good => "good",
                SchedulerOutcome::Ignored => "ignored",
                SchedulerOutcome::Ends => "ends it",
                SchedulerOutcome::Prevents => "prevents",
                SchedulerOutcome::Unknown => "not told",
            };
            ctx.out.line(format_args!("  {name:<19}  {mark:<8}  {}", printable(is)));
            if let Some(remedy) = remedy {
                ctx.out.line(format_args!("  {:<19}  {:<8}  hint: {}", "", "", printable(remedy)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_session::Output;

    fn check(name: &str, outcome: SchedulerOutcome, remedy: Option<&str>) -> SchedulerCheck {
        SchedulerCheck { name: name.into(), outcome, is: "x".into(), remedy: remedy.map(Into::into) }
    }

    #[test]
    fn each_check_has_a_line_and_a_remedy_another() {
        let checks = vec![
            check("sched_ext", SchedulerOutcome::Good, None),
            check("real-time threads", SchedulerOutcome::Ends, Some("y\u{1b}")),
        ];
        let mut bytes = Vec::new();
        {
            let mut ctx = Ctx::new(Output::to(&mut bytes), Output::to(Vec::new()));
            ClassScheduler { can_run: true, checks }.print(&mut ctx);
            ctx.out.flush();
        }
        let lines = String::from_utf8(bytes).unwrap();
        assert_eq!(
            lines.lines().collect::<Vec<_>>(),
            [
                "class scheduler (millpond schedd): can run here",
                "  sched_ext            good      x",
                "  real-time threads    ends it   x",
                "                                 hint: y\\u001b",
            ]
        );
    }
}
