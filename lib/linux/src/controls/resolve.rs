//! Maps projects and zones to cgroups, and processes to projects and zones.

use crate::os::knob_error;
use crate::view::with_ancestors;
use crate::zones::{KUBELET, classify, manager, managers_above};
use crate::{LinuxMachine, names};
use millpond_machine::facets::Controlled;
use millpond_machine::{KnobError, Reason, Refusal, Subject};
use millpond_model::{ControlHolder, Pid, printable};

/// Maximal depth of the search. A container is at: slice, QoS class, pod, container.
const DEPTH_MAX: usize = 6;
/// The zone of the whole machine.
const GLOBAL: &str = "global";
const USER_SLICE: &str = "/user.slice/user-";

impl LinuxMachine {
    /// Every project, every zone, and every process with controls, with its cgroup.
    pub(super) fn all_holders(&self) -> Result<Vec<(ControlHolder, String)>, Refusal> {
        let mut holders = Vec::new();
        if self.is_capped_container() {
            holders.push((ControlHolder::Zone(GLOBAL.to_owned()), "/".to_owned()));
        }
        for path in self.cpu_paths()? {
            let Some((kind, name)) = classify(&path) else { continue };
            if kind == "slice" {
                holders.push((ControlHolder::Project(self.project_name(&path, &name)), path));
            } else {
                holders.push((ControlHolder::Zone(name), path));
            }
        }
        for (path, held) in self.recorded_controls() {
            let alive = held.task().is_some_and(|task| self.os.still(task).is_ok());
            if alive {
                holders.push((held.holder, path));
            }
        }
        holders.sort();
        Ok(holders)
    }

    /// Every cgroup that is not ours, parents first.
    fn cpu_paths(&self) -> Result<Vec<String>, Refusal> {
        let mut found = Vec::new();
        let mut todo = vec![(String::new(), 0)];
        while let Some((path, depth)) = todo.pop() {
            let whole = if path.is_empty() { "/" } else { &path };
            let names = self.os.cpu_groups(whole).map_err(|e| unreadable(whole, &e))?;
            for name in names {
                let below = format!("{path}/{name}");
                if names::is_control_group(&below) || names::is_scope(&below) {
                    continue;
                }
                // Cgroups of sets are not zones, but a unit that was started in one is.
                if names::owner(&below).is_none() || names::unit(&below).is_some_and(|_| depth > 0) {
                    found.push(below.clone());
                }
                if depth < DEPTH_MAX {
                    todo.push((below, depth + 1));
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// The cgroup of a project or a zone.
    pub(super) fn path_of_holder(&self, holder: &ControlHolder) -> Result<String, Refusal> {
        let refuse = |reason| Refusal::new(Subject::from(holder), reason);
        let (name, is_project) = match holder {
            ControlHolder::Project(name) => (name, true),
            ControlHolder::Zone(name) => (name, false),
            ControlHolder::Process(_) => return Err(refuse(Reason::NoSuchProcess)),
        };
        let matches = |path: &String| {
            let Some((kind, called)) = classify(path) else { return false };
            let is = path == name || called == *name;
            if is_project {
                let slice = kind == "slice" && (is || called.strip_suffix(".slice") == Some(name));
                slice || (kind == "slice" && self.project_name(path, &called) == *name)
            } else {
                is
            }
        };
        let mut found: Vec<String> = self.cpu_paths()?.into_iter().filter(matches).collect();
        // Users can choose cgroup names in their own part of the tree, so a cgroup of the system takes precedence.
        let rank = |path: &String| (path != name, managers_above(path));
        found.sort_by_key(rank);
        let mut found = found.into_iter();
        let first = found.next();
        let rival = found.next().filter(|second| first.as_ref().map(rank) == Some(rank(second)));
        match (first, rival) {
            (Some(path), None) => Ok(path),
            (Some(first), Some(second)) => {
                let (first, second) = (printable(&first), printable(&second));
                let why = format!("two groups are called so: {first} and {second}");
                Err(refuse(Reason::Machine(why)).hint("name it by its path"))
            }
            (None, _) if name == GLOBAL && !is_project && self.is_capped_container() => {
                let why = "this is a container, and its cap was set from outside";
                Err(refuse(Reason::Machine(why.into())).hint("raise the CPU limit of the container where it was started"))
            }
            (None, _) if name == GLOBAL && !is_project => {
                let why = "it is the whole machine here, which has neither shares nor a cap";
                Err(refuse(Reason::Machine(why.into())).hint("set the controls of a unit, a slice or a container"))
            }
            (None, _) if is_project => Err(refuse(Reason::NoSuchProject)
                .hint("projects are slices of systemd here (system.slice), and users (user.kim) while they are logged in")),
            (None, _) => Err(refuse(Reason::NoSuchZone).hint("millpond zones lists them")),
        }
    }

    /// Refuses cgroups whose values another manager rewrites.
    pub(super) fn may_be_controlled(&self, holder: &ControlHolder, path: &str) -> Result<(), Refusal> {
        match manager(path) {
            Some((KUBELET, _)) => {
                let reason = Reason::ManagedElsewhere(KUBELET.to_owned());
                let hint = "let the pod say it: resources.requests.cpu and resources.limits.cpu";
                Err(Refusal::new(Subject::from(holder), reason).hint(hint))
            }
            Some((other, _)) => {
                let reason = Reason::ManagedElsewhere(other.to_owned());
                let hint = "set the controls of the user's slice instead (project user.NAME)";
                Err(Refusal::new(Subject::from(holder), reason).hint(hint))
            }
            None => Ok(()),
        }
    }

    /// The holders of a process, by its cgroup.
    pub(super) fn holders_of_process(&self, pid: Pid) -> Result<Vec<ControlHolder>, Refusal> {
        let (task, _) = self.os.identify(pid, None)?;
        let recorded = self.recorded_controls();
        if recorded.values().any(|held| held.task() == Some(task)) {
            return Ok(vec![ControlHolder::Process(pid)]);
        }
        let place = self.os.cpu_place(pid.0);
        let place =
            place.map_err(|e| e.into_refusal(Subject::Process(pid), "its group"))?.unwrap_or_default();
        let (mut project, mut zone) = (None, None);
        for path in crate::view::ancestors(&place).into_iter().chain([place.clone()]) {
            match classify(&path) {
                _ if path.is_empty() || path == "/" || names::is_control_group(&path) => {}
                Some(("slice", name)) => {
                    project = Some(ControlHolder::Project(self.project_name(&path, &name)))
                }
                Some((_, name)) if names::owner(&path).is_none() => zone = Some(ControlHolder::Zone(name)),
                _ => {}
            }
        }
        Ok(project.into_iter().chain(zone).collect())
    }

    /// Whether this is a container with a cap, which sees its own cgroup as the root.
    fn is_capped_container(&self) -> bool {
        self.os.kernel_quota("/").is_ok_and(|quota| quota.is_some())
    }

    /// The caps above a process, the outermost first. Includes cgroups that are no project and no zone.
    pub(super) fn caps_above(&self, pid: Pid) -> Result<Vec<Controlled>, Refusal> {
        let (task, _) = self.os.identify(pid, None)?;
        let place = self.os.cpu_place(pid.0);
        let place =
            place.map_err(|e| e.into_refusal(Subject::Process(pid), "its group"))?.unwrap_or_default();
        let recorded = self.recorded_controls();
        let holder = |path: &str| match (recorded.get(path), classify(path)) {
            (Some(held), _) if held.task() == Some(task) => ControlHolder::Process(pid),
            (Some(held), _) => held.holder.clone(),
            (None, Some(("slice", name))) => ControlHolder::Project(self.project_name(path, &name)),
            (None, Some((_, name))) if path.len() > 1 => ControlHolder::Zone(name),
            (None, _) => ControlHolder::Zone(GLOBAL.to_owned()),
        };
        // In a container the root can have a cap, because the container sees its own cgroup as the root.
        Ok(with_ancestors(&place)
            .into_iter()
            .map(|path| self.read_controlled(holder(&path), &path))
            .filter(|one| one.cap.is_some())
            .collect())
    }

    /// The project name of a slice: `user.kim` for the slice of a user.
    fn project_name(&self, path: &str, name: &str) -> String {
        let uid = path.strip_prefix(USER_SLICE).and_then(|rest| rest.strip_suffix(".slice"));
        let user = uid.and_then(|uid| self.user_called(uid));
        user.map_or_else(|| name.to_owned(), |user| format!("user.{user}"))
    }

    /// The name of a user, from `/etc/passwd` of the root.
    fn user_called(&self, uid: &str) -> Option<String> {
        let file = self.os.root.proc.with_file_name("etc").join("passwd");
        let text = self.os.root.read(&file).map_err(knob_error).ok().flatten()?;
        let is = |line: &&str| line.split(':').nth(2) == Some(uid);
        text.lines().find(is)?.split(':').next().map(str::to_owned)
    }
}

fn unreadable(path: &str, error: &KnobError) -> Refusal {
    Refusal::operation(Reason::Machine(format!("{path} cannot be read: {error}")))
}
