//! Dialogs for changes: question, plan, confirmation.

/// A requested change, before its target is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Move a CPU to another set.
    Move {
        /// The CPU.
        cpu: u32,
        /// Its present set.
        from: u32,
    },
    /// Bind a process.
    Bind {
        /// The process.
        pid: u32,
        /// Its present set.
        from: u32,
    },
    /// Change the scheduling class or priority of a process.
    Class {
        /// The process.
        pid: u32,
    },
    /// Fence CPUs.
    Fence,
}

/// A set as a target, with its pool's name while pools are enabled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its id.
    pub set: u32,
    /// Its name in the pool configuration.
    pub name: Option<String>,
    /// Its pool.
    pub pool: Option<String>,
}

/// A command and its undo command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The command.
    pub words: Vec<String>,
    /// The undo command; empty where it depends on the machine's state: see [`crate::Screen::planned`].
    pub undo: Vec<String>,
}

fn words(text: &[&str]) -> Vec<String> {
    text.iter().map(|word| (*word).to_owned()).collect()
}

impl Change {
    /// The question to the user.
    pub fn question(&self) -> String {
        match self {
            Change::Move { cpu, from } => format!("move CPU {cpu} from set {from} to set: "),
            Change::Bind { pid, from } => format!("bind process {pid}, now in set {from}, to set: "),
            Change::Class { pid } => format!("class of process {pid}, as CLASS [PRIORITY] (RT 5, TS -10): "),
            Change::Fence => "fence, as NAME CPUS (trading 2-5): ".to_owned(),
        }
    }

    /// The commands for an answer.
    ///
    /// # Errors
    /// The error in the answer.
    pub fn edit(&self, answer: &str, targets: &[Target]) -> Result<Edit, String> {
        let answer = answer.trim();
        let target = |number: u32| targets.iter().find(|target| target.set == number);
        let wanted = || {
            let named = targets.iter().find(|t| {
                [&t.name, &t.pool].into_iter().flatten().any(|name| name == answer)
                    || t.set.to_string() == answer
            });
            named.ok_or_else(|| {
                let known: Vec<String> = targets.iter().map(|t| t.set.to_string()).collect();
                format!("there is no set `{answer}`; there are {}", known.join(", "))
            })
        };
        match self {
            Change::Move { cpu, from } => {
                let (to, back) = (wanted()?, target(*from));
                if to.set == *from {
                    return Err(format!("CPU {cpu} is in set {from} already"));
                }
                let step = |to: Option<&Target>| {
                    let cpu = cpu.to_string();
                    match to {
                        Some(Target { name: Some(name), pool: Some(_), .. }) => {
                            words(&["poolcfg", "-d", "-c", &format!("transfer to pset {name} (cpu {cpu})")])
                        }
                        Some(Target { set: set @ 1.., .. }) => {
                            words(&["psrset", "-a", &set.to_string(), &cpu])
                        }
                        _ => words(&["psrset", "-r", &cpu]),
                    }
                };
                Ok(Edit { words: step(Some(to)), undo: step(back) })
            }
            Change::Bind { pid, from } => {
                let (to, back) = (wanted()?, target(*from));
                if to.set == *from {
                    return Err(format!("process {pid} is in set {from} already"));
                }
                let step = |to: Option<&Target>| {
                    let pid = pid.to_string();
                    match to {
                        Some(Target { pool: Some(pool), .. }) => words(&["poolbind", "-p", pool, &pid]),
                        Some(Target { set: set @ 1.., .. }) => {
                            words(&["psrset", "-b", &set.to_string(), &pid])
                        }
                        _ => words(&["psrset", "-u", &pid]),
                    }
                };
                Ok(Edit { words: step(Some(to)), undo: step(back) })
            }
            Change::Class { pid } => {
                let classed = |class: &str, more: &[&str]| {
                    let (class, pid) = (class.to_uppercase(), pid.to_string());
                    let command = [&["priocntl", "-s", "-c", &class], more, &["-i", "pid", &pid]].concat();
                    Ok(Edit { words: words(&command), undo: Vec::new() })
                };
                match answer.split_whitespace().collect::<Vec<_>>()[..] {
                    [class] if class.chars().all(char::is_alphabetic) => classed(class, &[]),
                    [class, priority] => classed(class, &["-p", priority]),
                    _ => Err("a class is needed, and may have a priority: RT 5".to_owned()),
                }
            }
            Change::Fence => match answer.split_whitespace().collect::<Vec<_>>()[..] {
                [name, cpus] => Ok(Edit {
                    words: words(&["fence", "--name", name, cpus]),
                    undo: words(&["fence", "--off", name]),
                }),
                _ => Err("a fence needs a name and CPUs: trading 2-5".to_owned()),
            },
        }
    }
}

/// A dialog, which gets the keys instead of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// Input of the filter's text.
    Filter(String),
    /// Input of a change's target.
    Target(Change, String),
    /// The plan of a change is being computed.
    Planning(Edit),
    /// The plan is shown and awaits confirmation.
    Confirm(Edit, Vec<String>),
    /// The change is being executed.
    Doing(Edit, bool),
    /// A message; any key closes it.
    Message(Vec<String>),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(number: u32) -> Target {
        Target { set: number, name: None, pool: None }
    }

    fn in_pool(number: u32, name: &str) -> Target {
        Target { set: number, name: Some(format!("{name}_set")), pool: Some(name.to_owned()) }
    }

    fn told(change: &Change, answer: &str, targets: &[Target]) -> Result<[String; 2], String> {
        change.edit(answer, targets).map(|edit| [edit.words.join(" "), edit.undo.join(" ")])
    }

    #[test]
    fn each_change_is_a_command_and_the_one_that_takes_it_back() {
        let sets = [set(0), set(1), set(2)];
        let moved = Change::Move { cpu: 3, from: 1 };
        assert_eq!(told(&moved, "2", &sets), Ok(["psrset -a 2 3".into(), "psrset -a 1 3".into()]));
        assert_eq!(told(&moved, " 0 ", &sets), Ok(["psrset -r 3".into(), "psrset -a 1 3".into()]));
        let bound = Change::Bind { pid: 77, from: 0 };
        assert_eq!(told(&bound, "1", &sets), Ok(["psrset -b 1 77".into(), "psrset -u 77".into()]));
        let class = Change::Class { pid: 7 };
        assert_eq!(
            told(&class, "rt 5", &sets),
            Ok(["priocntl -s -c RT -p 5 -i pid 7".into(), String::new()])
        );
        assert_eq!(told(&class, "TS", &sets), Ok(["priocntl -s -c TS -i pid 7".into(), String::new()]));
        assert_eq!(
            told(&Change::Fence, "trading 2-5", &sets),
            Ok(["fence --name trading 2-5".into(), "fence --off trading".into()])
        );
    }

    #[test]
    fn while_pools_are_enabled_the_commands_are_those_of_pools() {
        let pools = [in_pool(0, "pool_default"), in_pool(1, "web")];
        assert_eq!(
            told(&Change::Move { cpu: 3, from: 0 }, "web", &pools),
            Ok([
                "poolcfg -d -c transfer to pset web_set (cpu 3)".into(),
                "poolcfg -d -c transfer to pset pool_default_set (cpu 3)".into()
            ])
        );
        assert_eq!(
            told(&Change::Bind { pid: 7, from: 1 }, "0", &pools),
            Ok(["poolbind -p pool_default 7".into(), "poolbind -p web 7".into()])
        );
    }

    #[test]
    fn a_wrong_answer_is_told_with_what_there_is() {
        let sets = [set(0), set(1)];
        let moved = Change::Move { cpu: 3, from: 1 };
        assert_eq!(told(&moved, "9", &sets), Err("there is no set `9`; there are 0, 1".into()));
        assert_eq!(told(&moved, "1", &sets), Err("CPU 3 is in set 1 already".into()));
        let class = Change::Class { pid: 7 };
        for answer in ["", "5", "RT 5 6"] {
            assert_eq!(
                told(&class, answer, &sets),
                Err("a class is needed, and may have a priority: RT 5".into())
            );
        }
        assert!(told(&Change::Fence, "2-5", &sets).unwrap_err().contains("a name and CPUs"));
    }
}
