//! The view on the running machine, in threads that end with it.

use super::*;
use std::fs;
use std::process::Command;

/// Runs `then` in a thread with a view, or prints why no view is possible.
fn within(name: &str, then: impl FnOnce(&mut CpuView) + Send + 'static) {
    let thread = std::thread::spawn(move || match CpuView::lay(&Root::live(std::env::temp_dir())) {
        Ok(mut view) => {
            then(&mut view);
            true
        }
        Err(absent) => {
            println!("{absent}");
            false
        }
    });
    if !thread.join().unwrap() {
        println!("skipped: {name}: no private mount namespace can be made here");
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap()
}

fn directories() -> CpuSet {
    let names = fs::read_dir("/sys/devices/system/cpu").unwrap().map(|e| e.unwrap().file_name());
    names.filter_map(|name| texts::directory_of(&name.to_string_lossy())).collect()
}

#[test]
fn a_program_sees_the_processors_of_its_view_and_nobody_else_does() {
    let ours = || read("/proc/self/mounts").lines().filter(|line| line.starts_with("millpond ")).count();
    let outside = || (read("/sys/devices/system/cpu/online"), directories(), ours());
    let before = outside();
    within("a_program_sees_the_processors_of_its_view_and_nobody_else_does", |view| {
        let possible = read("/sys/devices/system/cpu/possible");
        let all = view.online().unwrap();
        let last = all.highest().unwrap();
        let one: CpuSet = [last].into_iter().collect();
        view.show(&one).unwrap();
        assert_eq!(read("/sys/devices/system/cpu/online"), format!("{last}\n"));
        assert_eq!(read("/sys/devices/system/cpu/present"), format!("{last}\n"));
        assert_eq!(read("/sys/devices/system/cpu/possible"), possible);
        assert_eq!(directories(), one);
        let heads = read("/proc/stat").lines().filter(|line| line.starts_with("cpu")).count();
        assert_eq!(heads, 2);
        let links = format!("/sys/devices/system/cpu/cpu{last}");
        assert!(fs::metadata(format!("{links}/topology")).unwrap().is_dir());
        assert_eq!(fs::canonicalize(format!("{links}/subsystem")).unwrap(), Path::new("/sys/bus/cpu"));
        let told = Command::new("getconf").arg("_NPROCESSORS_ONLN").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&told.stdout).trim(), "1");
        for file in ["/proc/cpuinfo", "/sys/devices/system/cpu/online", "/proc/stat"] {
            assert!(fs::OpenOptions::new().write(true).open(file).is_err(), "{file} is read-only");
        }

        view.show(&all).unwrap();
        assert_eq!(directories(), all);
        assert_eq!(read("/sys/devices/system/cpu/online"), format!("{all}\n"));
    });
    assert_eq!(outside(), before);
}

#[test]
fn everything_else_that_stands_there_is_reachable() {
    let names = |of: &Path| -> Vec<String> {
        let entries =
            fs::read_dir(of).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = entries.collect();
        names.sort();
        names
    };
    let place = Path::new("/sys/devices/system/cpu");
    let before = names(place);
    within("everything_else_that_stands_there_is_reachable", move |_| {
        assert_eq!(names(place), before, "all processors are shown at first");
        for name in before.iter().filter(|name| place.join(name).is_dir()) {
            assert!(!names(&place.join(name)).is_empty() || texts::directory_of(name).is_none(), "{name}");
        }
    });
}

#[test]
fn an_open_file_follows() {
    within("an_open_file_follows", |view| {
        let mut open = fs::File::open("/sys/devices/system/cpu/online").unwrap();
        let all = view.online().unwrap();
        let one: CpuSet = all.lowest().into_iter().collect();
        for cpus in [&one, &all, &one] {
            view.show(cpus).unwrap();
            open.rewind().unwrap();
            let mut text = String::new();
            open.read_to_string(&mut text).unwrap();
            assert_eq!(text, format!("{cpus}\n"));
        }
        view.refresh().unwrap();
    });
}

#[test]
fn files_of_a_machine_are_no_place_for_programs() {
    let dir = tempfile::tempdir().unwrap();
    let Err(absent) = CpuView::lay(&Root::captured(dir.path())) else { panic!("it was laid") };
    assert_eq!(absent.why, "programs run on the machine at hand only");
}

#[test]
fn a_refusal_says_what_would_help() {
    let said = |code| refused(io::Error::from_raw_os_error(code));
    assert_eq!(said(libc::EPERM).why, "a private mount namespace needs the capability CAP_SYS_ADMIN");
    assert_eq!(said(libc::EINVAL).why, "the kernel has no mount namespaces");
    for code in [libc::EPERM, libc::EINVAL, libc::ENOSPC] {
        assert!(said(code).what_would_help.is_some());
    }
}
