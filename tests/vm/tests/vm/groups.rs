//! Which cases run on which kernels. A group is one boot.

use std::path::{Path, PathBuf};

use millpond_vm::{
    Accel, Cache, Case, CaseError, Cgroup, Containerd, Flavour, Guest, Image, Kernel, KernelId, Nic, Report,
    Series, Shape, ShapeError, cargo_binary, cargo_example, cargo_test_binary, obtain_containerd,
    obtain_irqbalance, obtain_rtla,
};

use crate::itself;

/// A test about a whole boot rather than one case of it.
pub type Check = (&'static str, fn(&Report) -> Result<(), String>);

/// One boot and what it proves.
pub struct Group {
    /// First half of each test's name.
    pub name: String,
    pub kernel: KernelId,
    pub shape: Shape,
    /// What else the guest is made of.
    pub refine: fn(Guest) -> Result<Guest, String>,
    pub cases: Vec<Case>,
    pub checks: Vec<Check>,
    /// Whether each case is a test by itself. If not, its verdict is for the checks to judge.
    pub judges_cases: bool,
}

impl Group {
    /// The guest to boot, once its kernel is there.
    pub fn guest(&self, kernel: Kernel) -> Result<Guest, String> {
        (self.refine)(Guest::new(kernel, self.shape.clone()))
    }
}

/// The cases of directories below `cases/`; of one that is not there, none: an empty directory does not survive a clone.
fn cases(directories: &[&str]) -> Result<Vec<Case>, CaseError> {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let mut found = Vec::new();
    for directory in directories.iter().map(|name| root.join(name)).filter(|path| path.is_dir()) {
        found.extend(Case::all_in(&directory)?);
    }
    Ok(found)
}

/// Three cards on one wire, the third with many queues, and a disk.
const CARDS: [Nic; 3] = [Nic::Virtio, Nic::Virtio, Nic::Vmxnet3];

/// Like a server: cgroup v2, interrupts remapped.
fn v2(guest: Guest) -> Result<Guest, String> {
    Ok(guest.cgroup(Cgroup::V2).nics(&CARDS).disk().interrupt_remapping())
}

/// Like a small virtual machine: v1 cpusets, no remapping.
fn v1(guest: Guest) -> Result<Guest, String> {
    Ok(guest.cgroup(Cgroup::V1Hybrid).nics(&CARDS).disk())
}

/// Our commands under their names, the laws, and the words that the cases about them share.
fn commands(guest: Guest) -> Result<Guest, String> {
    let said = |e: &dyn std::error::Error| e.to_string();
    let millpond = cargo_binary("millpond").map_err(|e| said(&e))?;
    let laws = cargo_binary("live-laws").map_err(|e| said(&e))?;
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let mut image = Image::new().program("millpond", &millpond).map_err(|e| said(&e))?;
    image = image.program("live-laws", &laws).map_err(|e| said(&e))?;
    if wants_all() {
        // What the cases of `make test-all` about live classes need.
        let classes = cargo_binary("live-classes").map_err(|e| said(&e))?;
        image = image.program("live-classes", &classes).map_err(|e| said(&e))?;
        let adversary = cargo_example("adversary").map_err(|e| said(&e))?;
        image = image.program("adversary", &adversary).map_err(|e| said(&e))?;
    }
    // Busybox has no flock here; every Debian has this one.
    image = image.program("flock", Path::new("/usr/bin/flock")).map_err(|e| said(&e))?;
    // Nor has it a chrt that knows the deadline class.
    image = image.program("chrt", Path::new("/usr/bin/chrt")).map_err(|e| said(&e))?;
    // Where the daemon or one of its libraries cannot be had, the case that needs it says so.
    let cache = Cache::from_environment().map_err(|e| said(&e))?;
    if let Ok(daemon) = obtain_irqbalance(&cache, &|note| println!("vm: {note}"))
        && let Ok(more) = image.clone().program("irqbalance", &daemon)
    {
        image = more;
    }
    // What latstat takes turns with, where it is installed.
    if let Ok(more) = image.clone().program("cyclictest", Path::new("/usr/bin/cyclictest")) {
        image = more;
    }
    let applets = [
        "psrset",
        "psradm",
        "psrinfo",
        "pbind",
        "mpstat",
        "intrstat",
        "cpustat",
        "cputrack",
        "prstat",
        "latstat",
        "lgrpinfo",
        "plgrp",
        "pginfo",
        "pgstat",
        "pooladm",
        "poolcfg",
        "poolbind",
        "poolstat",
        "poold",
        "prctl",
        "zonecfg",
        "dispadmin",
        "priocntl",
    ];
    for name in applets {
        image = image.link(Path::new("/usr/local/bin").join(name), "millpond");
    }
    for words in ["words.sh", "killing.sh", "timerlat.sh", "classes.sh"] {
        image = image.copy(Path::new("/").join(words), cases.join(words), 0o644);
    }
    Ok(guest.image(&image))
}

/// [`v2`] with our commands.
fn commands_v2(guest: Guest) -> Result<Guest, String> {
    commands(v2(guest)?)
}

/// Our commands on a kernel without modules, and so without cards and disk.
fn commands_alone(guest: Guest) -> Result<Guest, String> {
    commands(guest.cgroup(Cgroup::V2))
}

/// [`commands_v2`] with a clock that counts instructions: with one CPU, time is the same in each run.
fn commands_counted(guest: Guest) -> Result<Guest, String> {
    Ok(commands_v2(guest)?.accel(Accel::Counted))
}

/// The same where a killed command dies at each of its steps, not only at some.
fn commands_v2_thorough(guest: Guest) -> Result<Guest, String> {
    Ok(commands_v2(guest)?.image(&Image::new().file("/thorough", "", 0o644)))
}

/// The same with fewer random scripts: [`all`] has more of them on another kernel.
fn commands_v2_brief(guest: Guest) -> Result<Guest, String> {
    Ok(commands_v2(guest)?.image(&Image::new().file("/brief", "", 0o644)))
}

/// [`commands_v2`] with rtla; where it cannot be had, the case that needs it says so.
fn commands_rt(guest: Guest) -> Result<Guest, String> {
    let guest = commands_v2(guest)?;
    let cache = Cache::from_environment().map_err(|e| e.to_string())?;
    match obtain_rtla(&cache, &|note| println!("vm: {note}")) {
        Ok(tree) => Ok(guest.image(&Image::new().tree("/opt/rtla", &tree).map_err(|e| e.to_string())?)),
        Err(_) => Ok(guest),
    }
}

/// [`commands_v2`] with the test of poold over a long time. Each CPU is a thread of the host: in turn on one thread they would wait for one
/// another for tenths of a second.
fn soak(guest: Guest) -> Result<Guest, String> {
    let test = cargo_test_binary("machine").map_err(|e| e.to_string())?;
    let image = Image::new().program("poold-soak", &test).map_err(|e| e.to_string())?;
    Ok(commands_v2(guest)?.accel(Accel::TcgMulti).image(&image))
}

/// Our commands with containerd and the tests of the agent; where it cannot be had, the case says so.
fn containers(guest: Guest) -> Result<Guest, String> {
    let guest = commands_alone(guest)?.memory_mb(3072);
    let cache = Cache::from_environment().map_err(|e| e.to_string())?;
    let Ok(tools) = obtain_containerd(Containerd::Newest, &cache, &|note| println!("vm: {note}")) else {
        return Ok(guest);
    };
    let tests = cargo_test_binary("containerd").map_err(|e| e.to_string())?;
    let place = Path::new("/opt/containers");
    let mut image = Image::new().program("node-tests", &tests).map_err(|e| e.to_string())?;
    image = tools.in_image(image).map_err(|e| e.to_string())?;
    // Where somebody has built one: `kubernetes` of the slow matrix does.
    let kubelet = match std::env::var_os("MILLPOND_KUBERNETES") {
        Some(parts) => Path::new(&parts).join("bin/kubelet"),
        None => tests.ancestors().nth(3).unwrap_or(place).join("matrix/kubernetes/bin/kubelet"),
    };
    if kubelet.exists() {
        image = image.program_at(&place.join("bin/kubelet"), &kubelet).map_err(|e| e.to_string())?;
    }
    Ok(guest.image(&image))
}

/// [`v1`] with our commands.
fn commands_v1(guest: Guest) -> Result<Guest, String> {
    commands(v1(guest)?)
}

/// A small machine that carries this very test program, to see that a host-built program runs there.
fn with_this_program(guest: Guest) -> Result<Guest, String> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    Ok(guest.image(&Image::new().program("itself", &me).map_err(|e| e.to_string())?))
}

/// The same without the cases that kill commands, which take half the time: what a journal does is no kernel's business.
fn without_deaths(group: Group) -> Group {
    let cases = group.cases.into_iter().filter(|case| !case.name().contains("sigkill")).collect();
    Group { cases, ..group }
}

/// What each of the two kernels of `make test` leaves to the other, by the beginnings of names, so that both end within ten minutes: each
/// case runs on one of them at least, and on both with `make test-all`. The one with irqbalance runs only there: the daemon leaves interrupts
/// wherever it was when it ended.
const LEFT_TO_V1: &[&str] = &[
    "a_binding_to_several",
    "a_binding_under_sigkill",
    "a_commit_of_pools_under_sigkill",
    "a_full_disk",
    "a_member_goes_off_line",
    "a_process_that_ends",
    "a_processor_that_stops_under_sigkill",
    "a_read_only_tree",
    "a_set_has_its_memory",
    "a_set_is_removed_although",
    "a_set_that_is_removed_under_sigkill",
    "an_assignment_under_sigkill",
    "interrupts_that_move_under_sigkill",
    "irqbalance_",
    "latstat_bears",
    "latstat_under_sigkill",
    "many_writers",
    "nobody_else",
    "poold_under_sigkill",
    "shares_and_caps_of",
    "shares_and_caps_under_sigkill",
    "two_writers",
    "what_cannot_be_bound",
    "what_is_forked",
];
const LEFT_TO_V2: &[&str] = &[
    "a_fence_is_watched",
    "a_fence_keeps",
    "a_fence_under_sigkill",
    "a_program_sees",
    "a_promise_of_time",
    "a_set_that_is_made_under_sigkill",
    "dedicated_cpus",
    "diagnose_",
    "e1_",
    "interrupts_keep",
    "irqbalance_",
    "latstat_keeps",
    "occupancy_",
    "poold_gives",
    "poold_goes_on",
    "programs_in_the_kernel",
    "quiet_",
    "timerlat_",
    "what_a_killed_latstat",
    "what_the_kernel_counts",
];

/// The same without the cases that another group has, unless everything is wanted.
fn shared_out(group: Group, left_to_other: &[&str], wants_all: bool) -> Group {
    let stays = |case: &Case| wants_all || !left_to_other.iter().any(|name| case.name().starts_with(name));
    let cases = group.cases.into_iter().filter(stays).collect();
    Group { cases, ..group }
}

/// What a kernel for real time is looked at for, by the beginnings of names: observers, and that sets hold.
const ON_REAL_TIME: [&str; 13] = [
    "a_set_is_removed",
    "diagnose_",
    "interrupts_leave",
    "latstat_bears",
    "latstat_keeps",
    "latstat_under",
    "nobody_else",
    "programs_in_the_kernel",
    "quiet_",
    "the_laws_hold",
    "the_time_of_threads",
    "timerlat_",
    "what_the_kernel_counts",
];

/// Our commands on a kernel with `PREEMPT_RT` and the tracer timerlat.
fn on_real_time() -> Result<Group, Box<dyn std::error::Error>> {
    let wanted = |case: &Case| ON_REAL_TIME.iter().any(|name| case.name().starts_with(name));
    Ok(Group {
        name: "6.12-rt-commands".to_owned(),
        kernel: KernelId { series: Series::V6_12, flavour: Flavour::Rt },
        shape: Shape::flat(4, 2)?,
        refine: commands_rt,
        cases: cases(&["millpond", "timerlat"])?.into_iter().filter(wanted).collect(),
        checks: Vec::new(),
        judges_cases: true,
    })
}

/// The same with so many times the time for each case.
fn patient(group: Group, times: u32) -> Group {
    let cases = group.cases.into_iter().map(|case| case.patient(times)).collect();
    Group { cases, ..group }
}

/// Whether the groups of `make test-all` are wanted, too.
pub fn wants_all() -> bool {
    std::env::var("MILLPOND_VM").is_ok_and(|v| v == "all")
}

/// Whether only the group of `make test` is wanted.
pub fn wants_newest() -> bool {
    std::env::var("MILLPOND_VM").is_ok_and(|v| v == "newest")
}

/// The one group of `make test`: the laws on the newest kernel (`MILLPOND_VM=newest`).
///
/// # Errors
/// A case or a shape that cannot be: a mistake in the tests.
pub fn newest() -> Result<Vec<Group>, Box<dyn std::error::Error>> {
    Ok(vec![Group {
        name: "7.3-laws".to_owned(),
        kernel: KernelId::cloud(Series::V7_3),
        shape: Shape::flat(8, 2)?,
        refine: commands_v2_brief,
        cases: cases(&["millpond", "millpond-newest"])?
            .into_iter()
            .filter(|case| case.name().contains("law"))
            .collect(),
        checks: Vec::new(),
        judges_cases: true,
    }])
}

/// The groups of `make test-kernels`, and with `wants_all` those of `make test-all` too.
///
/// # Errors
/// A case or a shape that cannot be: a mistake in the tests.
pub fn all(wants_all: bool) -> Result<Vec<Group>, Box<dyn std::error::Error>> {
    let on_v2 =
        |name: &str, series, shape: Result<Shape, ShapeError>| -> Result<Group, Box<dyn std::error::Error>> {
            Ok(Group {
                name: name.to_owned(),
                kernel: KernelId::cloud(series),
                shape: shape?,
                refine: v2,
                cases: cases(&["any", "v2"])?,
                checks: Vec::new(),
                judges_cases: true,
            })
        };
    let commands_on_v2 = |name: &str, series, shape: Result<Shape, ShapeError>| {
        on_v2(name, series, shape).and_then(|group| {
            Ok(Group { refine: commands_v2, cases: cases(&["millpond", "millpond-v2"])?, ..group })
        })
    };
    let on_v1 = Group {
        name: "6.1-v1".to_owned(),
        kernel: KernelId::cloud(Series::V6_1),
        shape: Shape::flat(4, 1)?,
        refine: v1,
        cases: cases(&["any", "v1"])?,
        checks: Vec::new(),
        judges_cases: true,
    };
    let commands_on_v1 = Group {
        name: "6.1-v1-commands".to_owned(),
        refine: commands_v1,
        cases: cases(&["millpond", "millpond-v1"])?,
        shape: Shape::flat(4, 2)?,
        checks: Vec::new(),
        ..on_v1
    };
    let classes_on = |name: &str, series| {
        let directories: &[&str] = if wants_all { &["classes", "adversaries"] } else { &["classes"] };
        commands_on_v2(name, series, Shape::flat(4, 1))
            .and_then(|group| Ok(Group { cases: cases(directories)?, ..group }))
    };
    let counted = |name: &str, series, directories: &[&str]| -> Result<Group, Box<dyn std::error::Error>> {
        let group = commands_on_v2(name, series, Shape::flat(1, 1))?;
        Ok(Group { refine: commands_counted, cases: cases(directories)?, ..group })
    };
    let commands_on_6_17 = commands_on_v2("6.17-commands", Series::V6_17, Shape::flat(8, 2))?;
    let mut groups = vec![
        shared_out(commands_on_6_17, LEFT_TO_V1, wants_all),
        shared_out(commands_on_v1, LEFT_TO_V2, wants_all),
        on_v2("6.17", Series::V6_17, Shape::flat(8, 2))?,
        on_v1,
        classes_on("6.17-classes", Series::V6_17)?,
        Group {
            name: "itself".to_owned(),
            kernel: KernelId::cloud(Series::V6_17),
            shape: Shape::flat(2, 1)?,
            refine: with_this_program,
            cases: itself::cases()?,
            checks: itself::CHECKS.to_vec(),
            judges_cases: false,
        },
    ];
    if wants_all {
        groups.push(on_v2("6.12", Series::V6_12, Shape::flat(8, 2))?);
        groups.push(on_v2("7.2", Series::V7_2, Shape::flat(8, 2))?);
        groups.push(on_v2("7.3", Series::V7_3, Shape::flat(8, 2))?);
        groups.push(patient(on_v2("6.17-32cpus", Series::V6_17, Shape::new(4, 4, 2, 4))?, 3));
        let wide = on_v2("6.17-16cpus-commands", Series::V6_17, Shape::flat(16, 1))?;
        let wide = Group { refine: commands_v2, cases: cases(&["wide"])?, ..wide };
        groups.push(patient(wide, 2));
        groups.push(Group { refine: commands_alone, ..classes_on("7.0-classes", Series::V7_0)? });
        groups.push(classes_on("7.2-classes", Series::V7_2)?);
        groups.push(classes_on("7.3-classes", Series::V7_3)?);
        let wide = classes_on("7.3-32cpus-classes", Series::V7_3)?;
        groups.push(patient(Group { shape: Shape::new(4, 4, 2, 4)?, ..wide }, 3));
        groups.push(counted("6.17-counted", Series::V6_17, &["counted"])?);
        groups.push(counted("7.3-counted", Series::V7_3, &["counted"])?);
        groups.push(counted("6.17-shares", Series::V6_17, &["shares"])?);
        let with_containers = on_v2("6.17-containers", Series::V6_17, Shape::flat(4, 1))?;
        groups.push(Group { refine: containers, cases: cases(&["containers"])?, ..with_containers });
        let endurance = classes_on("6.17-classes-endurance", Series::V6_17)?;
        groups.push(Group { cases: cases(&["endurance"])?, ..endurance });
        let soaked = on_v2("6.17-soak", Series::V6_17, Shape::flat(8, 1))?;
        groups.push(Group { refine: soak, cases: cases(&["soak"])?, ..soaked });
        groups.push(commands_on_v2("7.2-commands", Series::V7_2, Shape::flat(8, 2))?);
        groups.push(without_deaths(commands_on_v2("7.3-commands", Series::V7_3, Shape::flat(8, 2))?));
        groups.push(without_deaths(commands_on_v2("6.12-commands", Series::V6_12, Shape::flat(8, 2))?));
        let large = commands_on_v2("6.17-32cpus-commands", Series::V6_17, Shape::new(4, 4, 2, 4))?;
        groups.push(patient(without_deaths(large), 3));
        groups.push(patient(on_real_time()?, 2));
        let thorough = commands_on_v2("6.17-commands-thorough", Series::V6_17, Shape::flat(8, 2))?;
        let thorough = Group {
            refine: commands_v2_thorough,
            cases: thorough.cases.into_iter().filter(|c| c.name().contains("sigkill")).collect(),
            ..thorough
        };
        groups.push(patient(thorough, 8));
    }
    Ok(groups)
}
