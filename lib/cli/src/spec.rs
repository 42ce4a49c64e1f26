//! The description of a command: plain constants.

/// What a value or an operand is. Completions offer it, help names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// Any text.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One or more of these words, with commas between them.
    Words(&'static [&'static str]),
    /// A whole number, from the first to the second.
    Count(u64, u64),
    /// One or more whole numbers in that range, with commas between them.
    Counts(u64, u64),
    /// A time: see [`crate::units::time`].
    Time,
    /// CPUs: numbers, ranges and lists.
    Cpus,
    /// The number of a processor set.
    Pset,
    /// The name of a pool.
    Pool,
    /// The name of a zone.
    Zone,
    /// A unit of the service manager.
    Unit,
    /// A container.
    Container,
    /// A process, or some of its threads.
    Process,
    /// The name of a scheduling class.
    Class,
    /// The number of an lgroup.
    Lgroup,
    /// A machine: real, a simulated one, or the file of one.
    Machine,
    /// A workload of simulated machines, or a load.
    Load,
    /// A command of Millpond.
    Name,
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A program and its words: everything from here on is that program's.
    Program,
}

/// The value of a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value {
    /// How help shows it: `zone`.
    pub name: &'static str,
    /// What it is.
    pub kind: ValueKind,
}

/// Operands in order; the last kind repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operands {
    /// How help shows them: `set cpu ...`.
    pub shown: &'static str,
    /// What they are.
    pub kinds: &'static [ValueKind],
}

impl Operands {
    /// None.
    pub const NONE: Operands = Operands { shown: "", kinds: &[] };

    /// What the operand at this place is, from 0.
    #[must_use]
    pub fn kind(&self, at: usize) -> Option<ValueKind> {
        self.kinds.get(at).or(self.kinds.last()).copied()
    }
}

/// An option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag {
    /// Its letter.
    pub letter: Option<char>,
    /// Its long name, without dashes.
    pub long: Option<&'static str>,
    /// Its value, if it takes one.
    pub value: Option<Value>,
    /// The operands of the command when this option is given, where they differ from [`Spec::operands`].
    pub operands: Option<Operands>,
    /// What it does, in one line without a full stop.
    pub help: &'static str,
    /// The version that brought it.
    pub since: &'static str,
    /// Whether it may be given more than once, each time with an effect.
    pub repeats: bool,
    /// Options that cannot be given with it: letters or long names.
    pub conflicts: &'static [&'static str],
    /// The heading above it in the list of options, where a new part begins.
    pub heading: Option<&'static str>,
}

impl Flag {
    const fn new(letter: Option<char>, long: Option<&'static str>, help: &'static str) -> Flag {
        Flag {
            letter,
            long,
            value: None,
            operands: None,
            help,
            since: "0.1",
            repeats: false,
            conflicts: &[],
            heading: None,
        }
    }

    /// An option with a letter.
    #[must_use]
    pub const fn letter(letter: char, help: &'static str) -> Flag {
        Flag::new(Some(letter), None, help)
    }

    /// An option with a long name.
    #[must_use]
    pub const fn long(long: &'static str, help: &'static str) -> Flag {
        Flag::new(None, Some(long), help)
    }

    /// An option with a letter and a long name.
    #[must_use]
    pub const fn both(letter: char, long: &'static str, help: &'static str) -> Flag {
        Flag::new(Some(letter), Some(long), help)
    }

    /// It takes a value.
    #[must_use]
    pub const fn value(self, name: &'static str, kind: ValueKind) -> Flag {
        Flag { value: Some(Value { name, kind }), ..self }
    }

    /// The command takes these operands when it is given.
    #[must_use]
    pub const fn operands(self, shown: &'static str, kinds: &'static [ValueKind]) -> Flag {
        Flag { operands: Some(Operands { shown, kinds }), ..self }
    }

    /// It came with this version.
    #[must_use]
    pub const fn since(self, version: &'static str) -> Flag {
        Flag { since: version, ..self }
    }

    /// Each time that it is given counts.
    #[must_use]
    pub const fn repeats(self) -> Flag {
        Flag { repeats: true, ..self }
    }

    /// It cannot be given together with these letters or long names.
    #[must_use]
    pub const fn conflicts(self, others: &'static [&'static str]) -> Flag {
        Flag { conflicts: others, ..self }
    }

    /// A part of the list of options begins with it.
    #[must_use]
    pub const fn under(self, heading: &'static str) -> Flag {
        Flag { heading: Some(heading), ..self }
    }

    /// Whether `name` (a letter or a long name, without dashes) is this option.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.long == Some(name) || self.letter.is_some_and(|letter| name.chars().eq([letter]))
    }

    /// Each way to write it, without its value: `-n`, `--count`.
    #[must_use]
    pub fn spellings(&self) -> Vec<String> {
        let letter = self.letter.map(|letter| format!("-{letter}"));
        letter.into_iter().chain(self.long.map(|long| format!("--{long}"))).collect()
    }

    /// How it is written, without its value: `-n`, `--count`, or `-n, --count`.
    #[must_use]
    pub fn names(&self) -> String {
        self.spellings().join(", ")
    }

    /// How it is written, with its value and its operands: `-a set cpu ...`.
    #[must_use]
    pub fn form(&self) -> String {
        let value = self.value.map(|value| value.name);
        let operands = self.operands.map(|operands| operands.shown).filter(|shown| !shown.is_empty());
        let behind = value.into_iter().chain(operands);
        std::iter::once(self.names()).chain(behind.map(str::to_owned)).collect::<Vec<_>>().join(" ")
    }
}

/// The options that every command takes.
pub const COMMON: &[Flag] = &[
    Flag::long("machine", "the machine: real (the default), a simulated one, like-host, or a machine file")
        .value("name", ValueKind::Machine),
    Flag::long("state", "the simulated machine that this file keeps; the first change makes it")
        .value("file", ValueKind::File),
    Flag::long("root", "a captured machine: the directory that millpond capture made")
        .value("dir", ValueKind::Directory),
    Flag::long("json", "print JSON"),
    Flag::long("dry-run", "print each step of the change, and take none"),
    Flag::long("help", "print this help"),
    Flag::long("version", "print the version"),
];

/// The question that a command answers: the parts of `millpond help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// CPUs for a program alone.
    Isolate,
    /// Interrupts, kernel threads and latency.
    Noise,
    /// Use of CPUs, and what threads wait for.
    Slow,
    /// Pools, shares and caps.
    Divide,
    /// Recordings.
    Past,
    /// Scheduling classes.
    Classes,
    /// The hardware and the kernel.
    Machine,
    /// Simulated machines, experiments and loads.
    Try,
    /// Everything else.
    Other,
}

impl Group {
    /// All, in the order of help.
    pub const ALL: [Group; 9] = [
        Group::Isolate,
        Group::Noise,
        Group::Slow,
        Group::Divide,
        Group::Past,
        Group::Classes,
        Group::Machine,
        Group::Try,
        Group::Other,
    ];

    /// Its heading.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Group::Isolate => "Isolate CPUs for a program",
            Group::Noise => "What interrupts it?",
            Group::Slow => "Why is it slow?",
            Group::Divide => "Divide CPUs among programs, and limit them",
            Group::Past => "What happened at 09:41?",
            Group::Classes => "Which thread runs first?",
            Group::Machine => "What machine is this, and what does it support?",
            Group::Try => "Try it without risk, and measure it",
            Group::Other => "Other",
        }
    }
}

/// How a command answers misuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misused {
    /// A message with the command's name, then the usage of the form that fits. Exit status 2.
    Ours,
    /// The usage as Solaris prints it, then a hint. Exit status 2.
    Solaris,
    /// The same with exit status 1.
    SolarisRefusal,
}

/// A command line and what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Example {
    /// The words behind the command's name.
    pub words: &'static str,
    /// What it does, without a full stop.
    pub what: &'static str,
}

/// The description of a command or a service.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// What it is called.
    pub name: &'static str,
    /// Whether it can be called by that name alone.
    pub applet: bool,
    /// What it does, in one line without a full stop.
    pub summary: &'static str,
    /// The section of its manual page: 1, or 8 where it changes the machine.
    pub section: u8,
    /// Where help lists it.
    pub group: Group,
    /// Its forms, without the name in front.
    pub forms: &'static [&'static str],
    /// Its options.
    pub flags: &'static [Flag],
    /// Options that it shares with its family: the other loads, the other experiments.
    pub shared: &'static [Flag],
    /// The options that it shares with the other commands.
    pub common: &'static [Flag],
    /// Its operands, where no option says otherwise.
    pub operands: Operands,
    /// Whether options may stand behind operands.
    pub permutes: bool,
    /// How it answers misuse.
    pub misused: Misused,
    /// Whether the shell of the simulator has it.
    pub in_shell: bool,
    /// Command lines to begin with.
    pub examples: &'static [Example],
    /// Files that it reads or writes, each with what it is for.
    pub files: &'static [(&'static str, &'static str)],
    /// Exit status beside the usual, each with its meaning.
    pub status: &'static [Status],
    /// Commands to read about next.
    pub see_also: &'static [&'static str],
    /// The source of the module whose head is the text of the manual.
    pub prose: &'static str,
}

/// An exit status and its meaning.
pub type Status = (&'static str, &'static str);

/// The status of commands that report until they are interrupted.
pub const INTERRUPTED: Status = ("0", "done, also when interrupted");

/// The status of a command line that cannot be understood.
pub const MISUSED: Status = ("2", "the command line is wrong; nothing was done");

/// What exit statuses mean, where a command does not say otherwise.
pub const STATUS: &[Status] =
    &[("0", "everything was done"), ("1", "something was refused; what could be done was done"), MISUSED];

impl Spec {
    /// A description to begin with: a command of section 1 without options.
    pub const NEW: Spec = Spec {
        name: "",
        applet: false,
        summary: "",
        section: 1,
        group: Group::Other,
        forms: &[],
        flags: &[],
        shared: &[],
        common: COMMON,
        operands: Operands::NONE,
        permutes: false,
        misused: Misused::Ours,
        in_shell: false,
        examples: &[],
        files: &[],
        status: STATUS,
        see_also: &[],
        prose: "",
    };

    /// What stands before its messages.
    #[must_use]
    pub fn prog(&self) -> String {
        if self.applet { self.name.to_owned() } else { format!("millpond {}", self.name) }
    }

    /// The name of its manual page, without the section.
    #[must_use]
    pub fn page(&self) -> String {
        if self.applet { self.name.to_owned() } else { format!("millpond-{}", self.name) }
    }

    /// Its own options, then those of its family.
    pub fn own_flags(&self) -> impl Iterator<Item = &'static Flag> {
        self.flags.iter().chain(self.shared)
    }

    /// All options: its own, those of its family, then the common ones.
    pub fn all_flags(&self) -> impl Iterator<Item = &'static Flag> {
        self.own_flags().chain(self.common)
    }

    /// The option with that letter or long name.
    #[must_use]
    pub fn flag(&self, name: &str) -> Option<&'static Flag> {
        self.all_flags().find(|flag| flag.is(name))
    }
}
