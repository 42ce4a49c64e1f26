//! Sets, pools, fences and packages with a real systemd: version 252 as process 1, on a kernel with both kinds of partition. Only
//! with `MILLPOND_VM=all`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use std::path::{Path, PathBuf};
use std::process::Command;

use millpond_vm::{
    Cache, Case, CaseResult, Cgroup, Guest, Image, Kernel, KernelId, Series, Shape, Verdict, available,
    cargo_binary, is_required, obtain, obtain_debian, obtain_systemd,
};

/// The data shared by all guests.
struct Ground {
    kernel: Kernel,
    userland: PathBuf,
    cache: Cache,
}

impl Ground {
    /// `None`, with the reason printed, if these tests were not requested or cannot run.
    fn of(series: Series) -> Option<Ground> {
        if std::env::var("MILLPOND_VM").is_ok_and(|v| v == "all") {
            let note = |line: &str| println!("vm: {line}");
            let ready = available().and_then(|()| Cache::from_environment()).and_then(|cache| {
                let kernel = obtain(KernelId::cloud(series), &cache, &note)?;
                Ok(Ground { kernel, userland: obtain_systemd(&cache, &note)?, cache })
            });
            match ready {
                Ok(ground) => return Some(ground),
                Err(why) if is_required() => panic!("{why}"),
                Err(why) => println!("vm: systemd: skipped: {why}"),
            }
        } else {
            println!("vm: systemd: skipped: only with MILLPOND_VM=all");
        }
        None
    }

    /// Boots a guest with our commands and the files of the image, and runs the cases, which must all pass.
    fn boot(&self, more: &Image, cases: &[Case]) -> Vec<CaseResult> {
        let millpond = cargo_binary("millpond").unwrap();
        let mut image = Image::new().program("millpond", &millpond).unwrap();
        let names = [
            "psrset", "psrinfo", "pbind", "pooladm", "poolcfg", "poolbind", "poolstat", "poold", "prctl",
            "zonecfg",
        ];
        for name in names {
            image = image.link(Path::new("/usr/local/bin").join(name), "millpond");
        }
        self.boot_bare(&self.userland, &image.with(more.clone()), cases)
    }

    /// The same without our commands, with another userland.
    fn boot_bare(&self, userland: &Path, image: &Image, cases: &[Case]) -> Vec<CaseResult> {
        let series = self.kernel.id.series;
        let words = Image::new().copy("/systemd-words.sh", directory("systemd").join("words"), 0o644);
        let guest =
            Guest::new(self.kernel.clone(), Shape::flat(8, 2).unwrap()).cgroup(Cgroup::V2).memory_mb(1280);
        let guest = guest.systemd(userland).unwrap().image(&words).image(image);
        let report = guest.run_cases(cases, &self.cache).unwrap();
        for case in &report.cases {
            println!("vm: systemd: {series:?}: {}: {:?}", case.name, case.verdict);
            println!("{}{}", case.stdout, case.stderr);
        }
        assert!(report.trouble.is_none(), "{:?}", report.trouble);
        let bad = report.cases.iter().filter(|c| c.verdict != Verdict::Passed);
        let bad: Vec<&str> = bad.map(|c| c.name.as_str()).collect();
        assert!(bad.is_empty(), "{series:?}: {bad:?}");
        report.cases
    }
}

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases").join(name)
}

#[test]
fn systemd_and_our_sets_and_pools_live_on_one_machine() {
    for series in [Series::V6_17, Series::V7_2] {
        let Some(ground) = Ground::of(series) else { return };
        ground.boot(&Image::new(), &Case::all_in(&directory("systemd")).unwrap());
    }
}

/// Two services. The first one sets its own affinity when it starts.
fn members() -> Image {
    let unit = |before: &str| {
        format!(
            "[Unit]\nDefaultDependencies=no\nAfter=basic.target\n[Service]\nType=exec\n{before}\
             ExecStart=/bin/busybox sleep 100000\nStandardOutput=null\nStandardError=null\n"
        )
    };
    let says = "ExecStartPre=/bin/busybox sh -c \"/bin/busybox awk '/^Cpus_allowed_list/ {print $$2}' \
                /proc/self/status >/run/shop.began\"\n";
    Image::new().file("/etc/systemd/system/shop.service", unit(says), 0o644).file(
        "/etc/systemd/system/store.service",
        unit(""),
        0o644,
    )
}

/// The same, with all units that start at boot.
fn turned_on() -> Image {
    let at = |text: &str| text.replace("@BINDIR@", "/usr/local/bin");
    let target = "[Unit]\nDescription=Cases\nDefaultDependencies=no\nWants=basic.target dbus.service millpond-pools.service \
                  poold.service shop.service store.service millpond-vm.service\n";
    members()
        // Here the bus starts at its usual time.
        .file("/etc/systemd/system/dbus.service.d/early.conf", "", 0o644)
        .file("/etc/systemd/system/dbus.socket.d/early.conf", "", 0o644)
        // systemd reloads a service with this program, which every host has.
        .link("/bin/kill", "/bin/busybox")
        .file("/etc/systemd/system/millpond-vm.target", target, 0o644)
        .file(
            "/etc/systemd/system/millpond-pools.service",
            at(include_str!("../../../units/millpond-pools.service")),
            0o644,
        )
        .file("/etc/systemd/system/poold.service", at(include_str!("../../../units/poold.service")), 0o644)
}

#[test]
fn fences_come_back_when_the_machine_is_turned_on_again() {
    let Some(ground) = Ground::of(Series::V6_17) else { return };
    let unit = include_str!("../../../units/millpond-fences.service").replace("@BINDIR@", "/usr/local/bin");
    let target = "[Unit]\nDescription=Cases\nDefaultDependencies=no\nWants=basic.target dbus.service millpond-fences.service \
                  shop.service millpond-vm.service\n";
    let kept = "{\"cpus\": \"2-3\", \"profile\": \"low-latency\", \"shelter\": {\"others\": \"isolated\", \
                \"interrupts\": true, \"kernel_threads\": true, \"watchdog\": true}}\n";
    let image = members()
        .file("/etc/systemd/system/dbus.service.d/early.conf", "", 0o644)
        .file("/etc/systemd/system/dbus.socket.d/early.conf", "", 0o644)
        .file("/etc/systemd/system/millpond-vm.target", target, 0o644)
        .file("/etc/systemd/system/millpond-fences.service", unit, 0o644)
        .file("/etc/millpond/fences/trading.json", kept, 0o644)
        .file("/etc/millpond/fences/wrong.json", "{\"cpus\": 2}\n", 0o644);
    let all = Case::all_in(&directory("systemd-fences")).unwrap();
    ground.boot(&image, &all);
}

#[test]
fn pools_come_back_when_the_machine_is_turned_on_again() {
    let Some(ground) = Ground::of(Series::V6_17) else { return };
    let case = |name: &str| {
        let all = Case::all_in(&directory("systemd-boot")).unwrap();
        all.into_iter().filter(|case| case.name().contains(name)).collect::<Vec<_>>()
    };
    let made = ground.boot(&members(), &case("pools_are_made"));
    // The files that a disk would keep while the machine is off.
    let mut kept = turned_on();
    for (path, bytes) in &made[0].files {
        kept = kept.file(Path::new("/").join(path), bytes.clone(), 0o644);
    }
    assert!(made[0].files.contains_key("etc/pooladm.conf"), "{:?}", made[0].files.keys());
    ground.boot(&kept, &case("pools_come_back"));
    let bad = "<?xml version=\"1.0\"?>\n<!DOCTYPE system PUBLIC \"x\" \"y\">\n<pool/>\n";
    let broken = kept.file("/etc/pooladm.conf", bad, 0o644);
    ground.boot(&broken, &case("a_bad_configuration"));
}

/// Runs a program and checks its exit status.
fn done(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

/// Packages of this tree in `first`, and in `second` the next release of the suite, which differs only in its version number.
fn packages(dir: &Path) -> Image {
    let (first, second) = (dir.join("first"), dir.join("second"));
    let program = cargo_binary("millpond").unwrap();
    done(Command::new("cargo").args(["build", "--package", "millpond-member-c"]));
    let mut of_rt = Command::new("cargo");
    of_rt.args(["build", "--package", "millpond-rt", "--package", "millpond-rt-malloc", "--manifest-path"]);
    done(of_rt.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../rt/Cargo.toml")));
    let mut xtask = Command::new(cargo_binary("millpond-xtask").unwrap());
    xtask.args(["packages", "--program"]).arg(&program);
    done(xtask.arg("--libraries").arg(program.parent().unwrap()).arg("--to").arg(&first));
    let is_wanted =
        |name: &str| name.ends_with(".deb") && !name.contains("dbgsym") && !name.contains("-dev_");
    let mut image = Image::new();
    for entry in std::fs::read_dir(&first).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !is_wanted(&name) {
            continue;
        }
        image = image.copy(Path::new("/packages").join(&name), first.join(&name), 0o644);
        if name.starts_with("millpond_") {
            done(Command::new("dpkg-deb").arg("--raw-extract").arg(first.join(&name)).arg(&second));
        }
    }
    let control = second.join("DEBIAN/control");
    let text = std::fs::read_to_string(&control).unwrap();
    let next = text.lines().map(|line| match line.strip_prefix("Version: ") {
        Some(version) => format!("Version: {version}.1\n"),
        None => format!("{line}\n"),
    });
    std::fs::write(&control, next.collect::<String>()).unwrap();
    let newer = dir.join("newer.deb");
    done(Command::new("dpkg-deb").args(["--root-owner-group", "-Zgzip", "--build"]).arg(&second).arg(&newer));
    image.copy("/newer.deb", newer, 0o644)
}

#[test]
fn packages_are_installed_upgraded_and_removed() {
    let Some(ground) = Ground::of(Series::V6_17) else { return };
    let debian = obtain_debian(&ground.cache, &|line| println!("vm: {line}")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let image = packages(dir.path())
        // Database entries for Debian packages that are present without a record.
        .file("/var/lib/dpkg/status", installed(&["libc6", "libgcc-s1"]), 0o644)
        .link("/bin/kill", "/bin/busybox")
        .copy("/packages-words.sh", directory("systemd-packages").join("words"), 0o644);
    ground.boot_bare(&debian, &image, &Case::all_in(&directory("systemd-packages")).unwrap());
}

/// Entries of a package database, with versions that satisfy all dependencies.
fn installed(names: &[&str]) -> String {
    let entry = |name: &&str| {
        format!(
            "Package: {name}\nStatus: install ok installed\nMaintainer: nobody <nobody@localhost>\nArchitecture: amd64\n\
             Multi-Arch: same\nVersion: 99\nDescription: stand-in\n\n"
        )
    };
    names.iter().map(entry).collect()
}
