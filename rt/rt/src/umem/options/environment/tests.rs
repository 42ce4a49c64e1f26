//! The environment of real processes: the tests start themselves with variables, and print the settings that they read.

use super::*;
use crate::umem::options::Options;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set in the processes that these tests start.
const READS: &str = "MILLPOND_READS";

/// The hooks of this program. `tests/umem_hooks.rs` tests how the linker finds those of other programs.
pub(super) fn hook(variable: Variable) -> Option<Hook> {
    match variable {
        Variable::Debug => Some(says_guards),
        Variable::Logging => Some(says_nothing),
        Variable::Options => None,
    }
}

unsafe extern "C" fn says_guards() -> *const c_char {
    c"guards,audit=7".as_ptr()
}

unsafe extern "C" fn says_nothing() -> *const c_char {
    std::ptr::null()
}

fn told(
    first: impl Fn(Variable) -> Option<&'static [u8]>,
    second: impl Fn(Variable) -> Option<&'static [u8]>,
) -> (Settings, Vec<String>) {
    let mut said = Vec::new();
    let settings =
        put_together(first, second, &mut |line| said.push(String::from_utf8(line.to_vec()).unwrap()));
    (settings, said)
}

#[test]
fn a_variable_that_is_set_wins_over_the_hook_even_with_nothing_in_it() {
    let hook = |_| Some(b"guards".as_slice());
    let (settings, _) = told(|_| None, hook);
    assert!(settings.debug.guards);
    let (settings, said) = told(|_| Some(b""), hook);
    assert_eq!((settings, said), (Settings::STANDARD, vec![]));
    let one = |variable| (variable == Variable::Debug).then_some(b"lite".as_slice());
    let (settings, said) = told(one, hook);
    assert!(settings.debug.lite && !settings.debug.guards);
    assert_eq!(said, ["UMEM_LOGGING: 'guards' not recognized", "UMEM_OPTIONS: 'guards' not recognized"]);
}

#[test]
fn logs_without_audit_are_told_to_be_useless() {
    let texts = |debug: &'static [u8]| {
        move |variable| match variable {
            Variable::Debug => Some(debug),
            Variable::Logging => Some(b"fail".as_slice()),
            Variable::Options => None,
        }
    };
    let (settings, said) = told(texts(b"guards"), |_| None);
    assert_eq!(settings.logs.fail, Some(65536));
    assert_eq!(said, ["UMEM_LOGGING: has no effect without audit in UMEM_DEBUG"]);
    assert_eq!(told(texts(b"default"), |_| None).1, [""; 0]);
}

/// Has an effect only when the tests below start it.
#[test]
fn a_child_reads() {
    if std::env::var_os(READS).is_some() {
        let mut complaints = 0;
        let Settings { debug, logs, options } = Settings::read(&mut |_| complaints += 1);
        let (audit, guards, slab) = (debug.audit, debug.guards, logs.slab);
        let Options { no_magazines, .. } = options;
        println!("read: {audit:?} {guards} {slab:?} {no_magazines} {complaints}");
    }
}

/// The settings that a child printed: frames, guards, log of slabs, no magazines, complaints.
fn read_in(program: &Path, variable: Option<(&str, &str)>, user: Option<u32>) -> String {
    let mut command = Command::new(program);
    command.args(["--exact", "umem::options::environment::tests::a_child_reads", "--nocapture"]);
    for name in ["UMEM_DEBUG", "UMEM_LOGGING", "UMEM_OPTIONS"] {
        command.env_remove(name);
    }
    command.env(READS, "1").envs(variable);
    if let Some(user) = user {
        command.uid(user).current_dir("/");
    }
    let out = String::from_utf8(command.output().unwrap().stdout).unwrap();
    out.lines().find_map(|line| line.split_once("read: ")).unwrap().1.to_owned()
}

#[test]
fn the_environment_is_read_and_hooks_are_asked_for_what_is_not_there() {
    let this = std::env::current_exe().unwrap();
    for (variable, expected) in [
        (None, "Some(7) true None false 0"),
        (Some(("UMEM_DEBUG", "xyz")), "None false None false 1"),
        (Some(("UMEM_DEBUG", "")), "None false None false 0"),
        (Some(("UMEM_LOGGING", "slab=1k")), "Some(7) true Some(1024) false 0"),
        (Some(("UMEM_OPTIONS", "nomagazines")), "Some(7) true None true 0"),
    ] {
        assert_eq!(read_in(&this, variable, None), expected, "{variable:?}");
    }
}

#[test]
fn a_program_with_rights_of_another_user_does_not_listen_to_the_environment() {
    const NOBODY: u32 = 65534;
    let name = "a_program_with_rights_of_another_user_does_not_listen_to_the_environment";
    // SAFETY: the call has no effect.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: {name}: only root can make a program that runs as root");
    }
    let place = Place::new();
    let program = place.0.join("program");
    // By another process. A child that another test forks now could keep the file open for writing, and then it cannot be executed.
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status();
    assert!(copied.unwrap().success());
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    if !is_root_for(&program, NOBODY) {
        return println!("skipped: {name}: programs are not given rights here (nosuid, no_new_privs)");
    }
    let variable = Some(("UMEM_DEBUG", "audit=3,xyz"));
    assert_eq!(read_in(&program, variable, Some(NOBODY)), "Some(7) true None false 0");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(read_in(&program, variable, Some(NOBODY)), "Some(3) false None false 1");
}

/// Whether a set-user-ID program runs as root when that user starts it: the file system and this process must allow it.
fn is_root_for(program: &Path, user: u32) -> bool {
    let mut command = Command::new(program);
    command.args(["--exact", "umem::options::environment::tests::a_child_says_who_it_is", "--nocapture"]);
    let out = command.env(READS, "1").uid(user).current_dir("/").output().unwrap();
    String::from_utf8(out.stdout).unwrap().contains("effective user: 0\n")
}

/// Has an effect only when the test above starts it.
#[test]
fn a_child_says_who_it_is() {
    if std::env::var_os(READS).is_some() {
        // SAFETY: the call has no effect.
        println!("effective user: {}", unsafe { libc::geteuid() });
    }
}

/// A temporary directory that other users can enter.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        let place = Place(std::env::temp_dir().join(format!("millpond-rt-rights-{}", std::process::id())));
        std::fs::create_dir_all(&place.0).unwrap();
        std::fs::set_permissions(&place.0, std::fs::Permissions::from_mode(0o755)).unwrap();
        place
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
