//! Command lines of loads: every spelling of an option, in one place for real and for simulated machines.
//!
//! A [`Program`] is a command that a user starts: one of our loads, or the published program that it models (`iperf`, `cg.S.x`). Its
//! [`Opt`]s have one long name each, and other spellings: short options, those of the published program, operands.
//! [`Program::canonical`] replaces all of them by the long names. Each load interprets its options itself. An option that a machine
//! does not model has no effect there, and the user gets a note.

/// A program and its options.
#[derive(Debug)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// The load that models it.
    pub load: &'static str,
    /// Its options.
    pub options: &'static [Opt],
}

/// An option with all its spellings.
#[derive(Debug)]
pub struct Opt {
    /// Its long name, without dashes.
    pub name: &'static str,
    /// Whether it takes a value.
    pub takes_value: bool,
    /// Its other spellings.
    pub forms: &'static [Form],
}

/// A spelling of an option, besides its long name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Another flag.
    Flag(&'static str),
    /// A flag that means the option with this value.
    Means(&'static str, &'static str),
    /// A word without a flag. Such words are assigned to the options with this form, in order.
    Operand,
}

/// A word of a command line, and the position of the word from which it was derived.
pub type Placed = (String, usize);

use Form::{Flag, Means, Operand};

const fn value(name: &'static str, forms: &'static [Form]) -> Opt {
    Opt { name, takes_value: true, forms }
}

const fn switch(name: &'static str, forms: &'static [Form]) -> Opt {
    Opt { name, takes_value: false, forms }
}

/// All programs. Options of published programs: NPB 3.3 (OMP_NUM_THREADS before the name), hackbench of rt-tests and the first one, iperf 2.0.
pub const PROGRAMS: &[Program] = &[
    Program {
        name: "cg",
        load: "cg",
        options: &[
            value("class", &[]),
            value("threads", &[Flag("-t")]),
            value("barrier", &[Flag("--wait")]),
            switch("malleable", &[]),
            value("seconds", &[]),
        ],
    },
    Program {
        name: "hackbench",
        load: "hackbench",
        options: &[
            value("groups", &[Flag("-g"), Operand]),
            value(
                "tasks",
                &[
                    Means("-T", "thread"),
                    Means("--threads", "thread"),
                    Means("-P", "process"),
                    Means("--process", "process"),
                    Operand,
                ],
            ),
            value("loops", &[Flag("-l"), Operand]),
            value("pairs", &[Flag("-f"), Flag("--fds")]),
            value("bytes", &[Flag("-s"), Flag("--datasize")]),
            value("transport", &[Means("-p", "pipe"), Means("--pipe", "pipe"), Means("-pipe", "pipe")]),
            switch("fifo", &[Flag("-F")]),
            switch("inet", &[Flag("-i")]),
        ],
    },
    Program {
        name: "stream",
        load: "stream",
        options: &[
            value("seconds", &[]),
            value("bytes", &[]),
            switch("spin", &[]),
            switch("namespaces", &[]),
            value("interval", &[]),
            value("server", &[]),
            value("connect", &[]),
            value("from", &[]),
            value("nic", &[]),
            value("address", &[]),
        ],
    },
    Program {
        name: "iperf",
        load: "stream",
        options: &[
            value("seconds", &[Flag("-t"), Flag("--time")]),
            value("client", &[Flag("-c")]),
            switch("dualtest", &[Flag("-d")]),
            switch("tradeoff", &[Flag("-r")]),
            switch("serve", &[Flag("-s"), Flag("--server")]),
            value("interval", &[Flag("-i")]),
            value("bytes", &[Flag("-l"), Flag("--len")]),
            value("window", &[Flag("-w")]),
            value("parallel", &[Flag("-P")]),
            value("num", &[Flag("-n")]),
            value("port", &[Flag("-p")]),
            value("listenport", &[Flag("-L")]),
            value("format", &[Flag("-f")]),
            value("bandwidth", &[Flag("-b")]),
            value("bind", &[Flag("-B")]),
            value("mss", &[Flag("-M")]),
            value("output", &[Flag("-o")]),
            value("tos", &[Flag("-S")]),
            value("ttl", &[Flag("-T")]),
            value("fileinput", &[Flag("-F")]),
            value("reportexclude", &[Flag("-x")]),
            value("reportstyle", &[Flag("-y")]),
            switch("udp", &[Flag("-u")]),
            switch("print_mss", &[Flag("-m")]),
            switch("nodelay", &[Flag("-N")]),
            switch("IPv6Version", &[Flag("-V")]),
            switch("daemon", &[Flag("-D")]),
            switch("compatibility", &[Flag("-C")]),
            switch("stdin", &[Flag("-I")]),
        ],
    },
    Program {
        name: "service",
        load: "service",
        options: &[
            value("threads", &[Flag("-t")]),
            value("rate", &[]),
            value("work", &[]),
            value("seed", &[]),
            value("settle", &[]),
            value("seconds", &[]),
        ],
    },
    Program {
        name: "spin",
        load: "spin",
        options: &[
            value("threads", &[Flag("-t")]),
            value("seconds", &[]),
            value("duty", &[]),
            value("period", &[]),
            value("interval", &[]),
            value("memory", &[]),
        ],
    },
    Program {
        name: "build",
        load: "build",
        options: &[value("jobs", &[Flag("-j")]), value("seconds", &[]), value("compiler", &[])],
    },
    Program { name: "stacks", load: "stacks", options: &[] },
];

impl Program {
    /// The program that a word starts, with the options that its name implies. Only the part after the last slash counts. Benchmarks of NPB
    /// have a class in their names, and the number of processes or `x`: `./cg.S.x`, `cg.A.4`.
    #[must_use]
    pub fn named(word: &str) -> Option<(&'static Program, Vec<String>)> {
        let last = word.rsplit('/').next().unwrap_or(word);
        let find = |name: &str| PROGRAMS.iter().find(|program| program.name == name);
        if let Some(program) = find(last) {
            return Some((program, Vec::new()));
        }
        let mut parts = last.split('.');
        let (name, class, end, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else {
            return None;
        };
        let program = find(name).filter(|program| program.option("class").is_some())?;
        if class.is_empty() {
            return None;
        }
        let mut words = vec!["--class".to_owned(), class.to_owned()];
        match end {
            "x" => {}
            processes if !processes.is_empty() && processes.bytes().all(|b| b.is_ascii_digit()) => {
                words.extend(["--threads".to_owned(), processes.to_owned()]);
            }
            _ => return None,
        }
        Some((program, words))
    }

    /// The option with this long name.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&'static Opt> {
        self.options.iter().find(|option| option.name == name)
    }

    /// The option with this flag (including its dashes), with the value that the flag implies.
    fn by_flag(&self, flag: &str) -> Option<(&'static Opt, Option<&'static str>)> {
        let long = flag.strip_prefix("--");
        let own = self.options.iter().flat_map(|option| option.forms.iter().map(move |form| (option, form)));
        let form = own.into_iter().find_map(|(option, form)| match form {
            Flag(name) if *name == flag => Some((option, None)),
            Means(name, value) if *name == flag => Some((option, Some(*value))),
            _ => None,
        });
        form.or_else(|| Some((self.option(long?)?, None)))
    }

    /// The words of a command line with all spellings replaced by the long names, each with the position of the original word. Words that are not
    /// options of this program stay unchanged; `others` returns whether their flags take a value.
    #[must_use]
    pub fn canonical(&self, words: &[String], others: &dyn Fn(&str) -> bool) -> Vec<Placed> {
        let mut out: Vec<Placed> = Vec::new();
        let mut operands = self.options.iter().filter(|option| option.forms.contains(&Operand));
        let mut words = words.iter().zip(0usize..);
        while let Some((word, at)) = words.next() {
            if !word.starts_with('-') || word == "-" {
                if let Some(option) = operands.next() {
                    out.push((format!("--{}", option.name), at));
                }
                out.push((word.clone(), at));
                continue;
            }
            let (flag, behind) = self.apart(word);
            let Some((option, means)) = self.by_flag(flag) else {
                out.push((word.clone(), at));
                if behind.is_none() && others(flag) {
                    out.extend(words.next().map(|(value, at)| (value.clone(), at)));
                }
                continue;
            };
            let name = format!("--{}", option.name);
            match (means, behind) {
                (Some(value), None) => out.extend([(name, at), (value.to_owned(), at)]),
                (None, Some(value)) if option.takes_value => out.extend([(name, at), (value.to_owned(), at)]),
                (None, None) => {
                    out.push((name, at));
                    if option.takes_value {
                        out.extend(words.next().map(|(value, at)| (value.clone(), at)));
                    }
                }
                // A value for a flag that takes none: its parser will report it.
                (_, Some(value)) => out.push((format!("{name}={value}"), at)),
            }
        }
        out
    }

    /// Splits a flag and a value in one word: `--groups=3`, `-g3`.
    fn apart<'w>(&self, word: &'w str) -> (&'w str, Option<&'w str>) {
        if let Some((flag, value)) = word.split_once('=').filter(|(flag, _)| flag.starts_with("--")) {
            return (flag, Some(value));
        }
        let short = word.char_indices().nth(2).map(|(at, _)| word.split_at(at));
        match short.filter(|_| !word.starts_with("--") && self.by_flag(word).is_none()) {
            Some((flag, value)) if self.by_flag(flag).is_some_and(|(o, m)| o.takes_value && m.is_none()) => {
                (flag, Some(value))
            }
            _ => (word, None),
        }
    }
}

impl Opt {
    /// Whether it has this flag.
    #[must_use]
    pub fn has_flag(&self, flag: &str) -> bool {
        flag.strip_prefix("--") == Some(self.name) || self.flags().any(|own| own == flag)
    }

    /// Its flags other than the long name, as they are typed.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        self.forms.iter().filter_map(|form| match form {
            Flag(flag) => Some(*flag),
            Means(..) | Operand => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let (program, mut all) = Program::named(&words[0]).unwrap();
        let rest = program.canonical(&words[1..], &|flag| flag == "--buffer");
        all.extend(rest.into_iter().map(|(word, _)| word));
        format!("{} {}", program.load, all.join(" "))
    }

    #[test]
    fn a_class_stands_in_the_name_of_a_benchmark() {
        assert_eq!(shown("./cg.S.x"), "cg --class S");
        assert_eq!(shown("/opt/npb/bin/cg.A.4 -t 2"), "cg --class A --threads 4 --threads 2");
        for none in ["cg.S", "cg..x", "cg.S.y", "cg.S.", "spin.S.x", "cg.S.x.y", "ep.S.x", "cgx", ""] {
            assert!(Program::named(none).is_none(), "{none}");
        }
    }

    #[test]
    fn published_forms_become_long_names() {
        assert_eq!(shown("hackbench 240"), "hackbench --groups 240");
        assert_eq!(
            shown("hackbench -pipe 10 thread 50"),
            "hackbench --transport pipe --groups 10 --tasks thread --loops 50"
        );
        assert_eq!(
            shown("hackbench -g10 -T -s 64 --fds=5 -F"),
            "hackbench --groups 10 --tasks thread --bytes 64 --pairs 5 --fifo"
        );
        assert_eq!(
            shown("./iperf --client HOST --time 60 --dualtest"),
            "stream --client HOST --seconds 60 --dualtest"
        );
        assert_eq!(shown("iperf -c HOST -t60 -d"), "stream --client HOST --seconds 60 --dualtest");
        assert_eq!(shown("cg -t 4 --wait=block"), "cg --threads 4 --barrier block");
    }

    #[test]
    fn what_is_not_of_the_program_stays_with_its_value() {
        assert_eq!(shown("hackbench --buffer 7 3 --odd"), "hackbench --buffer 7 --groups 3 --odd");
        assert_eq!(shown("hackbench --buffer=7 -Tx"), "hackbench --buffer=7 -Tx");
        assert_eq!(shown("cg 3 --malleable=yes"), "cg 3 --malleable=yes");
        assert_eq!(shown("cg --threads"), "cg --threads");
    }

    #[test]
    fn words_keep_their_places() {
        let words: Vec<String> = ["-T", "-g", "3"].map(str::to_owned).to_vec();
        let (program, _) = Program::named("hackbench").unwrap();
        let places: Vec<usize> =
            program.canonical(&words, &|_| false).into_iter().map(|(_, at)| at).collect();
        assert_eq!(places, [0, 0, 1, 2]);
    }

    #[test]
    fn no_flag_means_two_options() {
        for program in PROGRAMS {
            let mut flags: Vec<&str> = program
                .options
                .iter()
                .flat_map(|o| o.forms)
                .filter_map(|f| match f {
                    Flag(flag) | Means(flag, _) => Some(*flag),
                    Operand => None,
                })
                .collect();
            let all = flags.len();
            flags.sort_unstable();
            flags.dedup();
            assert_eq!(flags.len(), all, "{}", program.name);
        }
    }

    #[test]
    fn fuzz_command_lines() {
        let seeds = ["hackbench -pipe 10 thread 50", "./cg.S.x -t4", "iperf -c h --time=60 -d"];
        millpond_fuzz::check_text("workloads-options", &seeds, |text| {
            let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            let Some((program, _)) = words.first().and_then(|word| Program::named(word)) else { return };
            let once = program.canonical(&words[1..], &|_| false);
            assert!(once.iter().all(|(_, at)| *at + 1 < words.len()));
            assert!(once.is_sorted_by_key(|(_, at)| *at));
        });
    }
}
