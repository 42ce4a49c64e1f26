//! The CPU resources of `zonecfg`: its commands and its listings.
//!
//! ```text
//! add capped-cpu; set ncpus=1.5; end          a cap of one CPU and a half
//! add dedicated-cpu; set ncpus=2-4; set importance=10; end
//! select capped-cpu; set ncpus=2; end         the same resource with another value
//! remove dedicated-cpu
//! set cpu-shares=20; clear cpu-shares
//! set pool=web; clear pool                    the pool that the zone runs in
//! info; info capped-cpu; export
//! ```
//!
//! Commands are separated by line ends or semicolons; `#` begins a comment.

millpond_model::words! {
    /// A resource of a zone.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Resource {
        /// A limit on CPU time.
        CappedCpu = "capped-cpu",
        /// CPUs that are dedicated to the zone.
        DedicatedCpu = "dedicated-cpu",
    }
}

/// The parts of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Info {
    /// Everything.
    All,
    /// One resource.
    Of(Resource),
    /// The shares.
    Shares,
    /// The pool.
    Pool,
    /// The commands that give all resources to a zone (`export`).
    Commands,
}

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Show.
    Info(Info),
    /// Set a cap, in percent of one CPU.
    Cap {
        /// The cap.
        percent: u32,
        /// Whether an existing cap is changed (`select`).
        selected: bool,
    },
    /// Dedicate CPUs.
    Dedicate {
        /// The minimum and the maximum; `None` keeps the present value of an existing resource.
        ncpus: Option<(u64, u64)>,
        /// The importance of the pool; `None` keeps the present value of an existing resource.
        importance: Option<i64>,
        /// Whether an existing resource is changed (`select`).
        selected: bool,
    },
    /// Remove a resource.
    Remove(Resource),
    /// Set the shares; `None` removes them.
    Shares(Option<u32>),
    /// Bind the zone to a pool; `None` ends the binding.
    Pool(Option<String>),
    /// Commands without an effect here: verify, commit, exit.
    Nothing,
}

/// An error with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("command {at}, `{text}`: {why}")]
pub struct ScriptError {
    /// The number of the command, from 1.
    pub at: usize,
    /// The command as given.
    pub text: String,
    /// The error, as half a sentence.
    pub why: String,
}

/// A resource between `add` or `select` and `end`.
struct Open {
    resource: Resource,
    selected: bool,
    percent: Option<u32>,
    ncpus: Option<(u64, u64)>,
    importance: Option<i64>,
}

/// Parses commands.
///
/// # Errors
/// [`ScriptError`] for the first invalid command, or for a resource without `end`.
pub fn parse(script: &str) -> Result<Vec<Command>, ScriptError> {
    let (mut commands, mut open) = (Vec::new(), None::<Open>);
    let (mut at, mut last) = (0, "");
    for line in script.lines() {
        let line = line.split('#').next().unwrap_or_default();
        for text in line.split(';').map(str::trim).filter(|text| !text.is_empty()) {
            at += 1;
            last = text;
            let error = |why: String| ScriptError { at, text: text.escape_debug().to_string(), why };
            commands.extend(command(text, &mut open).map_err(error)?);
        }
    }
    match open {
        Some(open) => Err(ScriptError {
            at,
            text: last.escape_debug().to_string(),
            why: format!("{} has no end: add `; end`", open.resource),
        }),
        None => Ok(commands),
    }
}

fn command(text: &str, open: &mut Option<Open>) -> Result<Option<Command>, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (verb, rest) = words.split_first().unwrap_or((&"", &[]));
    let one = |rest: &[&str]| match rest {
        [word] => Ok((*word).to_owned()),
        _ => Err(format!("{verb} takes one word")),
    };
    match (*verb, open.as_mut()) {
        ("set", Some(open)) => set(open, &rest.concat()).map(|()| None),
        ("end", Some(_)) => open.take().map_or(Ok(None), |open| end(&open).map(Some)),
        ("cancel", Some(_)) => {
            *open = None;
            Ok(None)
        }
        (_, Some(open)) => Err(format!("within {} there are set, end and cancel", open.resource)),
        ("add" | "select", None) => {
            let (resource, selected) = (resource(&one(rest)?)?, *verb == "select");
            *open = Some(Open { resource, selected, percent: None, ncpus: None, importance: None });
            Ok(None)
        }
        ("remove", None) => {
            let words: Vec<&str> = rest.iter().copied().filter(|word| *word != "-F").collect();
            Ok(Some(Command::Remove(resource(&one(&words)?)?)))
        }
        ("info", None) => Ok(Some(Command::Info(match rest {
            [] => Info::All,
            ["cpu-shares"] => Info::Shares,
            ["pool"] => Info::Pool,
            [word] => Info::Of(resource(word)?),
            _ => return Err("info takes one word".into()),
        }))),
        ("export", None) if rest.is_empty() => Ok(Some(Command::Info(Info::Commands))),
        ("export", None) => Err("export writes to the output: it takes no file".into()),
        ("set", None) => {
            let text = rest.concat();
            if let Some(name) = text.strip_prefix("pool=") {
                let name = name.trim_matches('"');
                return match name.is_empty() {
                    true => Err("pool= needs a name; clear pool ends a binding".into()),
                    false => Ok(Some(Command::Pool(Some(name.to_owned())))),
                };
            }
            let value = text.strip_prefix("cpu-shares=").ok_or_else(|| only(&text))?;
            let shares =
                value.parse().map_err(|_| format!("`{}` is no number of shares", value.escape_debug()))?;
            Ok(Some(Command::Shares(Some(shares))))
        }
        ("clear", None) => match one(rest)?.as_str() {
            "cpu-shares" => Ok(Some(Command::Shares(None))),
            "pool" => Ok(Some(Command::Pool(None))),
            other => Err(only(other)),
        },
        ("verify" | "commit" | "exit", None) => Ok(Some(Command::Nothing)),
        ("end" | "cancel", None) => Err("no resource was begun: add or select one".into()),
        _ => {
            Err("the commands are add, select, remove, set, clear, info, export, verify, commit and exit"
                .into())
        }
    }
}

fn only(what: &str) -> String {
    if what.split('=').next() == Some("scheduling-class") {
        return "priocntl -s -c CLASS -i zoneid ZONE sets the class of a zone's processes".into();
    }
    format!("of `{}` nothing is known here: there are pool and cpu-shares", what.escape_debug())
}

fn resource(word: &str) -> Result<Resource, String> {
    match word {
        "capped-cpu" => Ok(Resource::CappedCpu),
        "dedicated-cpu" => Ok(Resource::DedicatedCpu),
        other => Err(format!("`{}` is no resource here: capped-cpu, dedicated-cpu", other.escape_debug())),
    }
}

fn set(open: &mut Open, text: &str) -> Result<(), String> {
    let (name, value) = text.split_once('=').ok_or("it is NAME=VALUE")?;
    let value = value.trim_matches('"');
    match (name, open.resource) {
        ("ncpus", Resource::CappedCpu) => open.percent = Some(percent(value)?),
        ("ncpus", Resource::DedicatedCpu) => open.ncpus = Some(range(value)?),
        ("importance", Resource::DedicatedCpu) => {
            let wrong = |_| format!("`{}` is no importance, which is a whole number", value.escape_debug());
            open.importance = Some(value.parse().map_err(wrong)?);
        }
        (_, Resource::CappedCpu) => return Err("capped-cpu has ncpus".into()),
        (_, Resource::DedicatedCpu) => return Err("dedicated-cpu has ncpus and importance".into()),
    }
    Ok(())
}

fn end(open: &Open) -> Result<Command, String> {
    let selected = open.selected;
    match open.resource {
        Resource::CappedCpu => {
            let percent = open.percent.ok_or("ncpus is not set: set ncpus=1.5")?;
            Ok(Command::Cap { percent, selected })
        }
        Resource::DedicatedCpu if open.ncpus.is_none() && !selected => {
            Err("ncpus is not set: set ncpus=2".into())
        }
        Resource::DedicatedCpu => {
            Ok(Command::Dedicate { ncpus: open.ncpus, importance: open.importance, selected })
        }
    }
}

/// `1.5` CPUs are 150 percent of one.
fn percent(text: &str) -> Result<u32, String> {
    let wrong =
        || format!("`{}` is no number of CPUs: a decimal with two places at most", text.escape_debug());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 2 {
        return Err(wrong());
    }
    let hundredths = format!("{fraction:0<2}").parse::<u32>().map_err(|_| wrong())?;
    let whole: u32 = whole.parse().map_err(|_| wrong())?;
    let percent =
        whole.checked_mul(100).and_then(|percent| percent.checked_add(hundredths)).ok_or_else(wrong)?;
    if percent == 0 { Err("a cap is 0.01 CPUs at least".into()) } else { Ok(percent) }
}

/// `2`, or `1-3`.
fn range(text: &str) -> Result<(u64, u64), String> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse::<u64>().ok().filter(|n| (1..=65_536).contains(n));
    match (number(least), number(most)) {
        (Some(least), Some(most)) if least <= most => Ok((least, most)),
        _ => Err(format!("`{}` is no number of CPUs, nor a range of them (2, 1-3)", text.escape_debug())),
    }
}

/// The resources of a zone, for `info`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ZoneContents {
    /// Percent of one CPU.
    pub cap: Option<u32>,
    /// The minimum and the maximum number of CPUs, and the importance of the pool.
    pub dedicated: Option<((u64, u64), i64)>,
    /// Shares.
    pub shares: Option<u32>,
    /// The pool.
    pub pool: Option<String>,
}

impl ZoneContents {
    /// The resources after a command.
    #[must_use]
    pub fn after(self, command: &Command) -> ZoneContents {
        match *command {
            Command::Cap { percent, .. } => ZoneContents { cap: Some(percent), ..self },
            Command::Shares(shares) => ZoneContents { shares, ..self },
            Command::Pool(ref pool) => ZoneContents { pool: pool.clone(), ..self },
            Command::Remove(Resource::CappedCpu) => ZoneContents { cap: None, ..self },
            Command::Remove(Resource::DedicatedCpu) => ZoneContents { dedicated: None, ..self },
            Command::Dedicate { ncpus, importance, .. } => {
                let (had, counted) = self.dedicated.unwrap_or(((1, 1), 1));
                let dedicated = (ncpus.unwrap_or(had), importance.unwrap_or(counted));
                ZoneContents { dedicated: Some(dedicated), ..self }
            }
            Command::Info(_) | Command::Nothing => self,
        }
    }

    /// The commands that give these resources to a zone without any, one per line; empty for none.
    #[must_use]
    pub fn commands(&self) -> String {
        let mut text = self.shares.map(|shares| format!("set cpu-shares={shares}\n")).unwrap_or_default();
        if let Some(((least, most), importance)) = self.dedicated {
            let ncpus = if least == most { least.to_string() } else { format!("{least}-{most}") };
            text += &format!("add dedicated-cpu\nset ncpus={ncpus}\nset importance={importance}\nend\n");
        }
        if let Some(cap) = self.cap {
            text += &format!("add capped-cpu\nset ncpus={}.{:02}\nend\n", cap / 100, cap % 100);
        }
        // The pool comes last: if it no longer exists, the zone has the other resources.
        text += &self.pool.as_ref().map(|pool| format!("set pool={pool}\n")).unwrap_or_default();
        text
    }
}

/// The lines of `info`, with newlines.
#[must_use]
pub fn info(name: &str, has: &ZoneContents, which: Info) -> String {
    let mut text = String::new();
    if which == Info::Commands {
        return has.commands();
    }
    if which == Info::All {
        text += &format!("zonename: {name}\n");
    }
    if which == Info::Pool || (which == Info::All && has.pool.is_some()) {
        text += &format!("pool: {}\n", has.pool.as_deref().unwrap_or_default());
    }
    if let (Info::All | Info::Shares, Some(shares)) = (which, has.shares) {
        text += &format!("[cpu-shares: {shares}]\n");
    }
    if let (Info::All | Info::Of(Resource::DedicatedCpu), Some(((least, most), importance))) =
        (which, has.dedicated)
    {
        let ncpus = if least == most { least.to_string() } else { format!("{least}-{most}") };
        text += &format!("dedicated-cpu:\n\tncpus: {ncpus}\n\timportance: {importance}\n");
    }
    if let (Info::All | Info::Of(Resource::CappedCpu), Some(cap)) = (which, has.cap) {
        text += &format!("capped-cpu:\n\t[ncpus: {}.{:02}]\n", cap / 100, cap % 100);
    }
    if which == Info::All {
        let rctl = |name: &str, limit: u32, action: &str| {
            format!("rctl:\n\tname: {name}\n\tvalue: (priv=privileged,limit={limit},action={action})\n")
        };
        text += &has.cap.map(|cap| rctl("zone.cpu-cap", cap, "deny")).unwrap_or_default();
        text += &has.shares.map(|shares| rctl("zone.cpu-shares", shares, "none")).unwrap_or_default();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_added_changed_and_removed() {
        assert_eq!(
            parse("add capped-cpu; set ncpus=1.5; end; commit"),
            Ok(vec![Command::Cap { percent: 150, selected: false }, Command::Nothing])
        );
        assert_eq!(
            parse("add dedicated-cpu\nset ncpus=1-3\n set importance = 10 # more than others\nend\n"),
            Ok(vec![Command::Dedicate { ncpus: Some((1, 3)), importance: Some(10), selected: false }])
        );
        assert_eq!(
            parse("select dedicated-cpu; set importance=2; end; remove -F capped-cpu; info"),
            Ok(vec![
                Command::Dedicate { ncpus: None, importance: Some(2), selected: true },
                Command::Remove(Resource::CappedCpu),
                Command::Info(Info::All),
            ])
        );
        assert_eq!(parse("add capped-cpu; cancel; set cpu-shares=20"), Ok(vec![Command::Shares(Some(20))]));
        for (text, is) in [("0.05", 5), ("3", 300), ("3.5", 350), ("1.25", 125)] {
            assert_eq!(percent(text), Ok(is), "{text}");
        }
    }

    #[test]
    fn mistakes_are_told_with_their_command() {
        let said = |script: &str| parse(script).unwrap_err().to_string();
        assert_eq!(
            said("info; add net; end"),
            "command 2, `add net`: `net` is no resource here: capped-cpu, dedicated-cpu"
        );
        assert_eq!(said("add capped-cpu; end"), "command 2, `end`: ncpus is not set: set ncpus=1.5");
        assert_eq!(said("add capped-cpu"), "command 1, `add capped-cpu`: capped-cpu has no end: add `; end`");
        assert!(said("set zonepath=/zones/web").contains("there are pool and cpu-shares"));
        assert!(said("set scheduling-class=FSS").contains("priocntl -s -c CLASS -i zoneid ZONE"));
        assert!(said("set pool=").contains("pool= needs a name"));
        assert!(said("create").contains("the commands are add, select"));
        assert!(said("add capped-cpu; set ncpus=1-3; end").contains("a decimal with two places at most"));
        assert!(said("add dedicated-cpu; set ncpus=3-1; end").contains("nor a range of them"));
        assert!(said("end").contains("no resource was begun"));
    }

    #[test]
    fn a_zone_is_shown_as_solaris_shows_it() {
        let has = ZoneContents { cap: Some(50), shares: Some(20), ..ZoneContents::default() };
        assert_eq!(info("web", &has, Info::Of(Resource::CappedCpu)), "capped-cpu:\n\t[ncpus: 0.50]\n");
        assert_eq!(
            info("web", &has, Info::All),
            "zonename: web\n[cpu-shares: 20]\ncapped-cpu:\n\t[ncpus: 0.50]\n\
             rctl:\n\tname: zone.cpu-cap\n\tvalue: (priv=privileged,limit=50,action=deny)\n\
             rctl:\n\tname: zone.cpu-shares\n\tvalue: (priv=privileged,limit=20,action=none)\n"
        );
        let has = ZoneContents { dedicated: Some(((1, 3), 2)), ..ZoneContents::default() };
        assert_eq!(
            info("web", &has, Info::Of(Resource::DedicatedCpu)),
            "dedicated-cpu:\n\tncpus: 1-3\n\timportance: 2\n"
        );
    }

    #[test]
    fn what_a_zone_has_is_said_by_commands_that_give_it() {
        let has = ZoneContents { cap: Some(125), shares: Some(20), ..ZoneContents::default() };
        assert_eq!(has.commands(), "set cpu-shares=20\nadd capped-cpu\nset ncpus=1.25\nend\n");
        let dedicated = ZoneContents { dedicated: Some(((1, 3), 2)), ..ZoneContents::default() };
        assert_eq!(dedicated.commands(), "add dedicated-cpu\nset ncpus=1-3\nset importance=2\nend\n");
        for has in [
            has,
            dedicated,
            ZoneContents { cap: Some(5), ..ZoneContents::default() },
            ZoneContents { pool: Some("web".into()), cap: Some(5), ..ZoneContents::default() },
            ZoneContents::default(),
        ] {
            let again =
                parse(&has.commands()).unwrap().iter().fold(ZoneContents::default(), ZoneContents::after);
            assert_eq!(again, has);
        }
        let script = "select dedicated-cpu; set importance=7; end; remove capped-cpu; clear cpu-shares; info";
        let before = ZoneContents { cap: Some(5), dedicated: Some(((1, 3), 2)), shares: Some(1), pool: None };
        let after = parse(script).unwrap().iter().fold(before, ZoneContents::after);
        assert_eq!(after, ZoneContents { dedicated: Some(((1, 3), 7)), ..ZoneContents::default() });
    }

    #[test]
    fn a_pool_is_set_cleared_and_shown() {
        let after = |script: &str| {
            parse(script).unwrap().iter().fold(ZoneContents::default(), ZoneContents::after).pool
        };
        assert_eq!(after("set pool=web").as_deref(), Some("web"));
        assert_eq!(after("set pool=\"web\"; clear pool"), None);
        let has = ZoneContents { pool: Some("web".into()), shares: Some(20), ..ZoneContents::default() };
        assert_eq!(info("zone1", &has, Info::Pool), "pool: web\n");
        assert_eq!(info("zone1", &ZoneContents::default(), Info::Pool), "pool: \n");
        assert_eq!(
            info("zone1", &has, Info::All).lines().take(3).collect::<Vec<_>>(),
            ["zonename: zone1", "pool: web", "[cpu-shares: 20]"]
        );
        assert_eq!(info("zone1", &has, Info::Commands), "set cpu-shares=20\nset pool=web\n");
        assert_eq!(parse("export"), Ok(vec![Command::Info(Info::Commands)]));
    }

    #[test]
    fn fuzz_commands_of_zonecfg() {
        let seeds =
            ["add capped-cpu; set ncpus=1.5; end", "select dedicated-cpu\nset ncpus=1-3\nend\ninfo\n"];
        millpond_fuzz::check_text("formats-zonecfg", &seeds, |text| match parse(text) {
            Ok(commands) => assert!(commands.iter().all(|c| !matches!(c, Command::Cap { percent: 0, .. }))),
            Err(error) => assert!(error.at > 0 && !error.why.is_empty()),
        });
    }
}
