//! Projects of a simulated machine: `projects`, `projadd`, `projmod`, `projdel` and `newtask`.

use super::shell::{Shell, Trouble, workload};
use crate::ctx::Ctx;
use crate::start::started;
use millpond_model::{Control, ControlName, ControlSetting, ControlValues, HolderKind, Pid};
use millpond_session::Project;

/// The projects of root.
const OWN: [&str; 2] = ["user.root", "default"];

/// `projects`: the projects of root in one line; `-l`: all or the named projects in the long form.
pub fn projects(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let all = shell.simulated()?.projects();
    match words.first().map(String::as_str) {
        None => ctx.out.line(OWN.join(" ")),
        Some("-l") => {
            let names = &words[1..];
            for (name, at) in names.iter().zip(2..) {
                if !all.iter().any(|project| project.name == *name) {
                    return Err(none_such(at, format!("cannot show project {}", name.escape_debug())));
                }
            }
            all.iter()
                .filter(|project| names.is_empty() || names.contains(&project.name))
                .for_each(|project| ctx.out.text(&at_length(project)));
        }
        Some(word) => {
            return Err(Trouble::misuse(1, format!("projects does not take `{}`", word.escape_debug())));
        }
    }
    Ok(())
}

fn none_such(word: usize, what: String) -> Trouble {
    Trouble::new(word, format!("{what}: there is no such project")).remedy("projects -l lists them")
}

/// The long form of a project, as in projects(1).
fn at_length(project: &Project) -> String {
    let attribute = |control, action| {
        let value = project.kept.setting(control).value()?;
        let name = ControlName { kind: HolderKind::Project, control };
        Some(format!("{name}=(privileged,{value},{action})"))
    };
    let attributes =
        [attribute(Control::CpuCap, "deny"), attribute(Control::CpuShares, "none")].into_iter().flatten();
    let attributes: Vec<String> = attributes.collect();
    format!(
        "{}\n\tprojid : {}\n\tcomment: \"\"\n\tusers  : (none)\n\tgroups : (none)\n\tattribs: {}\n",
        project.name,
        project.id,
        attributes.join("\n\t         ")
    )
}

/// The options before the name of a project, and the name.
struct Configured<'w> {
    id: Option<u32>,
    kept: ControlValues,
    name: &'w str,
    at: usize,
}

/// Parses `[-p NUMBER] [-K ATTRIBUTE] ... NAME`.
fn configured<'w>(command: &str, words: &'w [String], had: ControlValues) -> Result<Configured<'w>, Trouble> {
    let (mut id, mut kept, mut name) = (None, had, None);
    let mut rest = words.iter().zip(1..);
    while let Some((word, at)) = rest.next() {
        match word.as_str() {
            "-p" | "-K" => {
                let Some((value, at)) = rest.next() else {
                    return Err(Trouble::misuse(at + 1, format!("{word} needs a value")));
                };
                if word == "-p" {
                    id = Some(value.parse().map_err(|_| {
                        Trouble::misuse(at, format!("`{}` is no number of a project", value.escape_debug()))
                    })?);
                } else {
                    kept.set(attribute(value).map_err(|why| Trouble::new(at, why).remedy(ATTRIBUTE))?);
                }
            }
            option if option.starts_with('-') => {
                return Err(Trouble::misuse(
                    at,
                    format!("{command} does not take {}", option.escape_debug()),
                ));
            }
            _ if name.is_none() => name = Some((word.as_str(), at)),
            _ => return Err(Trouble::misuse(at, format!("{command} takes one project"))),
        }
    }
    let (name, at) =
        name.ok_or_else(|| Trouble::misuse(words.len() + 1, format!("{command} needs a name")))?;
    Ok(Configured { id, kept, name, at })
}

const ATTRIBUTE: &str =
    "-K 'project.cpu-shares=(privileged,20,none)', -K 'project.cpu-cap=(privileged,150,deny)'";

/// Parses `project.cpu-shares=(privileged,20,none)` or `project.cpu-shares=20`. Without a value the attribute is
/// removed.
fn attribute(text: &str) -> Result<ControlSetting, String> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let name: ControlName = name.parse().map_err(|error: millpond_model::ControlError| error.to_string())?;
    if name.kind != HolderKind::Project {
        return Err(format!("{name} is no attribute of a project"));
    }
    let inside = value.strip_prefix('(').and_then(|value| value.strip_suffix(')'));
    let value = match inside.map(|inside| inside.split(',').map(str::trim).collect::<Vec<_>>()).as_deref() {
        Some(["privileged" | "priv", value, "none" | "deny"]) => (*value).to_owned(),
        Some(_) => return Err(format!("`{}` is no value of a resource control", value.escape_debug())),
        None => value.to_owned(),
    };
    if value.is_empty() {
        return Ok(ControlSetting::unset(name.control));
    }
    let number = value.parse().map_err(|_| format!("`{}` is no number", value.escape_debug()))?;
    ControlSetting::of(name.control, number).map_err(|error| error.to_string())
}

/// `projadd [-p NUMBER] [-K ATTRIBUTE] ... NAME`.
pub fn projadd(shell: &mut Shell, words: &[String], _: &mut Ctx<'_>) -> Result<(), Trouble> {
    let Configured { id, kept, name, at } = configured("projadd", words, ControlValues::default())?;
    let added = shell.simulated()?.add_project(name, id, kept);
    added
        .map(drop)
        .map_err(|why| Trouble::new(at, format!("cannot add project {}: {why}", name.escape_debug())))
}

/// `projmod -K ATTRIBUTE ... NAME`: applies to processes that enter the project later.
pub fn projmod(shell: &mut Shell, words: &[String], _: &mut Ctx<'_>) -> Result<(), Trouble> {
    let name = configured("projmod", words, ControlValues::default())?.name;
    let simulation = shell.simulated()?;
    let had =
        simulation.projects().into_iter().find(|project| project.name == name).map(|project| project.kept);
    let Configured { id, kept, name, at } = configured("projmod", words, had.unwrap_or_default())?;
    if id.is_some() || words.len() < 2 {
        return Err(Trouble::misuse(1, "projmod changes attributes"));
    }
    let done = simulation.configure_project(name, kept);
    done.map_err(|_| none_such(at, format!("cannot change project {}", name.escape_debug())))
}

/// `projdel NAME`.
pub fn projdel(shell: &mut Shell, words: &[String], _: &mut Ctx<'_>) -> Result<(), Trouble> {
    let [name] = words else { return Err(Trouble::misuse(1, "projdel needs a name")) };
    let removed = shell.simulated()?.remove_project(name);
    removed.map_err(|why| Trouble::new(1, format!("cannot remove project {}: {why}", name.escape_debug())))
}

/// `newtask -p PROJECT WORKLOAD [OPTION ...]`, `newtask -p PROJECT -c PID`.
pub fn newtask(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let (project, rest, skipped) = match words {
        [option, project, rest @ ..] if option == "-p" => (project.as_str(), rest, 2),
        [option] if option == "-p" => return Err(Trouble::misuse(2, "-p needs a project")),
        // Without a project it is, as on Solaris, a new task of the current project.
        rest => (OWN[0], rest, 0),
    };
    let simulation = shell.simulated()?;
    let refused = |what: &str, at: usize, why: String| {
        Trouble::new(at, format!("cannot {what} project {}: {why}", project.escape_debug()))
            .remedy("projects -l lists them")
    };
    if !simulation.projects().iter().any(|one| one.name == project) {
        return Err(refused("start a task in", 2, "there is no such project".into()));
    }
    match rest {
        [] => Err(Trouble::misuse(
            skipped + 1,
            "newtask needs a command; there is no shell of its own to start",
        )),
        [option, pid] if option == "-c" => {
            let pid: Pid = pid.parse().map_err(|_| {
                Trouble::misuse(skipped + 2, format!("`{}` is no process number", pid.escape_debug()))
            })?;
            simulation.enter_project(pid, project).map_err(|why| {
                Trouble::new(skipped + 2, format!("cannot move process {pid} to project {project}: {why}"))
                    .remedy("ps lists the processes")
            })
        }
        [option, ..] if option.starts_with('-') => {
            Err(Trouble::misuse(skipped + 1, format!("newtask does not take {}", option.escape_debug())))
        }
        command => {
            let load = workload("newtask", command, skipped + 1, ctx)?;
            let pid = simulation.prepare(&load.name);
            simulation
                .enter_project(pid, project)
                .map_err(|why| refused("start a task in", 2, why.to_string()))?;
            simulation.execute(pid, &load);
            ctx.out.line(started(&load.name, pid));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_written_as_in_the_file_of_projects() {
        let shown = |text: &str| attribute(text).map(|setting| (setting.control(), setting.value()));
        assert_eq!(shown("project.cpu-shares=(privileged,20,none)"), Ok((Control::CpuShares, Some(20))));
        assert_eq!(shown("project.cpu-cap=(priv, 150, deny)"), Ok((Control::CpuCap, Some(150))));
        assert_eq!(shown("project.cpu-shares=5"), Ok((Control::CpuShares, Some(5))));
        assert_eq!(shown("project.cpu-shares"), Ok((Control::CpuShares, None)));
        let why = |text: &str| attribute(text).unwrap_err();
        assert_eq!(why("zone.cpu-cap=5"), "zone.cpu-cap is no attribute of a project");
        assert_eq!(
            why("project.cpu-cap=(basic,5,deny)"),
            "`(basic,5,deny)` is no value of a resource control"
        );
        assert_eq!(why("project.cpu-cap=a"), "`a` is no number");
        assert!(why("project.pool=web").starts_with("`project.pool` is no resource control"));
        assert!(why("project.cpu-shares=65536").contains("0 to 65535"));
    }
}
