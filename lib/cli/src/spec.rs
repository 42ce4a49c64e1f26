//! The description of a command: plain constants.

/// The kind of a value or an operand, for completions and help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// Any text.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One or more of these words, separated by commas.
    Words(&'static [&'static str]),
    /// An integer in this range.
    Count(u64, u64),
    /// One or more integers in this range, separated by commas.
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
    /// A machine: real, a simulated one, or its file.
    Machine,
    /// A workload of simulated machines, or a load.
    Load,
    /// A command of Millpond.
    Name,
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A program and its arguments: all following words belong to it.
    Program,
}

/// The value of a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value {
    /// Its name in help: `zone`.
    pub name: &'static str,
    /// Its kind.
    pub kind: ValueKind,
}

/// Operands in order; the last kind repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operands {
    /// The operands in help: `set cpu ...`.
    pub shown: &'static str,
    /// Their kinds.
    pub kinds: &'static [ValueKind],
}

impl Operands {
    /// No operands.
    pub const NONE: Operands = Operands { shown: "", kinds: &[] };

    /// The kind of the operand with this index.
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
    /// The operands of the command with this option, if they differ from [`Spec::operands`].
    pub operands: Option<Operands>,
    /// A one-line description without a full stop.
    pub help: &'static str,
    /// The version that added it.
    pub since: &'static str,
    /// Whether it may be given more than once, each time with an effect.
    pub repeats: bool,
    /// Options that cannot be given with it: letters or long names.
    pub conflicts: &'static [&'static str],
    /// The heading before it in the list of options, if it starts a group.
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

    /// Adds a value.
    #[must_use]
    pub const fn value(self, name: &'static str, kind: ValueKind) -> Flag {
        Flag { value: Some(Value { name, kind }), ..self }
    }

    /// Sets the operands of the command with this option.
    #[must_use]
    pub const fn operands(self, shown: &'static str, kinds: &'static [ValueKind]) -> Flag {
        Flag { operands: Some(Operands { shown, kinds }), ..self }
    }

    /// Sets the version that added it.
    #[must_use]
    pub const fn since(self, version: &'static str) -> Flag {
        Flag { since: version, ..self }
    }

    /// Allows repetition; every occurrence has an effect.
    #[must_use]
    pub const fn repeats(self) -> Flag {
        Flag { repeats: true, ..self }
    }

    /// Excludes these letters or long names.
    #[must_use]
    pub const fn conflicts(self, others: &'static [&'static str]) -> Flag {
        Flag { conflicts: others, ..self }
    }

    /// Starts a group in the list of options.
    #[must_use]
    pub const fn under(self, heading: &'static str) -> Flag {
        Flag { heading: Some(heading), ..self }
    }

    /// Whether `name` (a letter or a long name, without dashes) is this option.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.long == Some(name) || self.letter.is_some_and(|letter| name.chars().eq([letter]))
    }

    /// All spellings without value: `-n`, `--count`.
    #[must_use]
    pub fn spellings(&self) -> Vec<String> {
        let letter = self.letter.map(|letter| format!("-{letter}"));
        letter.into_iter().chain(self.long.map(|long| format!("--{long}"))).collect()
    }

    /// All spellings as one text, without value: `-n`, `--count`, or `-n, --count`.
    #[must_use]
    pub fn names(&self) -> String {
        self.spellings().join(", ")
    }

    /// The spelling with value and operands: `-a set cpu ...`.
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
    /// All topics, in the order of help.
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

/// The reaction of a command to a wrong command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misused {
    /// A message with the name of the command, then the usage of the matching form. Exit status 2.
    Ours,
    /// The usage in the format of Solaris, then a hint. Exit status 2.
    Solaris,
    /// The same with exit status 1.
    SolarisRefusal,
}

/// A command line with its description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Example {
    /// The words after the name of the command.
    pub words: &'static str,
    /// A description without a full stop.
    pub what: &'static str,
}

/// The description of a command or a service.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// Whether it can be invoked by that name alone.
    pub applet: bool,
    /// A one-line description without a full stop.
    pub summary: &'static str,
    /// The section of its manual page: 1, or 8 if it changes the machine.
    pub section: u8,
    /// Its topic in help.
    pub group: Group,
    /// Its forms, without its name.
    pub forms: &'static [&'static str],
    /// Its options.
    pub flags: &'static [Flag],
    /// Options that it shares with its family: the other loads, the other experiments.
    pub shared: &'static [Flag],
    /// The options that it shares with the other commands.
    pub common: &'static [Flag],
    /// Its operands, unless an option has its own.
    pub operands: Operands,
    /// Whether options may follow operands.
    pub permutes: bool,
    /// Its reaction to a wrong command line.
    pub misused: Misused,
    /// Whether the shell of the simulator has it.
    pub in_shell: bool,
    /// Example command lines.
    pub examples: &'static [Example],
    /// Files that it reads or writes, with their purpose.
    pub files: &'static [(&'static str, &'static str)],
    /// Additional exit statuses, with their meaning.
    pub status: &'static [Status],
    /// Related commands.
    pub see_also: &'static [&'static str],
    /// The source of the module whose head is the text of its manual.
    pub prose: &'static str,
}

/// An exit status and its meaning.
pub type Status = (&'static str, &'static str);

/// The status of commands that report until they are interrupted.
pub const INTERRUPTED: Status = ("0", "done, also when interrupted");

/// The status for a wrong command line.
pub const MISUSED: Status = ("2", "the command line is wrong; nothing was done");

/// The default meanings of exit statuses.
pub const STATUS: &[Status] =
    &[("0", "everything was done"), ("1", "something was refused; what could be done was done"), MISUSED];

impl Spec {
    /// The basis of descriptions: a command of section 1 without options.
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

    /// The prefix of its messages.
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
