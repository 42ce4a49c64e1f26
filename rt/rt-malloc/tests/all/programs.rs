//! Real, unmodified programs with the library as a replacement of malloc: their output must not change.
//!
//! Each runs once without the library, and then with it in each mode: plain, with all checks, and with walls after larger buffers. Own programs
//! (`programs/*.c`) cover cases that are rare in real ones.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Values of `UMEM_DEBUG`. `None`: not set.
const PLAIN: Option<&str> = None;
const CHECKED: Option<&str> = Some("default");
const WALLED: Option<&str> = Some("guards,firewall=1024");
const MODES: [Option<&str>; 3] = [PLAIN, CHECKED, WALLED];

/// The library, which cargo built for these tests.
fn library() -> PathBuf {
    beside("libmillpond_malloc.so")
}

fn beside(name: &str) -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name(name);
    assert!(library.is_file(), "{} was not built", library.display());
    library
}

fn source(name: &str) -> PathBuf {
    Path::new(ROOT).join("tests/programs").join(name)
}

/// Whether a program is missing, which is printed.
fn lacks(test: &str, programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has = |program: &&str| std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    let lacking = programs.iter().find(|program| !has(program));
    if let Some(program) = lacking {
        println!("skipped: {test}: there is no {program}");
    }
    lacking.is_some()
}

/// A temporary directory of one test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let dir = std::env::temp_dir().join(format!("millpond-rt-malloc-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o755)).unwrap();
        Place(dir)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A command without the library and its variables.
fn alone(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    for name in ["LD_PRELOAD", "UMEM_DEBUG", "UMEM_LOGGING", "UMEM_OPTIONS"] {
        command.env_remove(name);
    }
    // Python has its own allocator for small objects; Java prints JAVA_TOOL_OPTIONS.
    command.env("PYTHONMALLOC", "malloc").env_remove("JAVA_TOOL_OPTIONS").env("LC_ALL", "C");
    command.stdin(Stdio::null());
    command
}

/// Runs the command with the library, in a mode.
fn with_library(command: &mut Command, mode: Option<&str>) -> Output {
    command.env("LD_PRELOAD", library());
    if let Some(debug) = mode {
        command.env("UMEM_DEBUG", debug);
    }
    command.output().unwrap()
}

/// Status and output of a program, as text.
fn told(out: &Output) -> String {
    let (said, complained) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    format!("{}\n{said}{complained}", out.status)
}

/// Runs the commands of `prepare` in empty directories, without and with the library, and compares.
fn says_the_same(test: &str, modes: &[Option<&str>], prepare: impl Fn() -> Command) {
    let run = |name: &str, run: &dyn Fn(&mut Command) -> Output| {
        let place = Place::new(&format!("{test}-{name}"));
        told(&run(prepare().current_dir(&place.0)))
    };
    let wanted = run("alone", &|command| command.output().unwrap());
    assert!(wanted.starts_with("exit status: 0\n"), "without the library: {wanted}");
    for mode in modes {
        let found = run("library", &|command| with_library(command, *mode));
        assert!(found == wanted, "{mode:?}: {found}\ninstead of: {wanted}");
    }
}

#[test]
fn python_with_threads_forks_and_children() {
    const TEST: &str = "python_with_threads_forks_and_children";
    if lacks(TEST, &["python3"]) {
        return;
    }
    says_the_same(TEST, &MODES, || {
        let mut command = alone("python3");
        command.args(["-W", "ignore"]).arg(source("threads.py"));
        command
    });
}

#[test]
fn git_that_packs_with_threads() {
    const TEST: &str = "git_that_packs_with_threads";
    if lacks(TEST, &["git"]) {
        return;
    }
    says_the_same(TEST, &MODES, || {
        let mut command = alone("sh");
        command.arg(source("repository.sh"));
        command
    });
}

#[test]
fn sqlite_with_a_hundred_thousand_rows() {
    const TEST: &str = "sqlite_with_a_hundred_thousand_rows";
    if lacks(TEST, &["sqlite3"]) {
        return;
    }
    says_the_same(TEST, &MODES, || {
        let mut command = alone("sqlite3");
        command.arg("file").stdin(std::fs::File::open(source("queries.sql")).unwrap());
        command
    });
}

/// A C source with this many functions.
fn long_source(functions: usize) -> String {
    let mut text = String::from("#include <stdio.h>\n#include <string.h>\n");
    for at in 0..functions {
        let _ = writeln!(
            text,
            "int f{at}(int a, const char *s) {{ int x[16]; for (int i = 0; i < 16; i++) x[i] = a * {at} + i; \
             switch (a & 7) {{ case 0: return x[a & 15]; case 1: return (int)strlen(s) + x[3]; case 2: return printf(\"%d\", x[2]); \
             default: {{ int t = 0; for (int i = 0; i < a; i++) t += x[i & 15] ^ {at}; return t; }} }} }}"
        );
    }
    text
}

#[test]
fn a_c_compiler_that_optimises_in_two_processes() {
    const TEST: &str = "a_c_compiler_that_optimises_in_two_processes";
    if lacks(TEST, &["cc", "make", "cksum"]) {
        return;
    }
    let sources = Place::new(&format!("{TEST}-sources"));
    std::fs::write(sources.0.join("long.c"), long_source(50)).unwrap();
    let rules = "all: one.o two.o\n\t@cksum one.o two.o\n\
                 %.o: $(DIR)/long.c\n\t@$(CC) -O2 -g -fdebug-prefix-map=$$(pwd)=. -c $(DIR)/long.c -o $@\n";
    std::fs::write(sources.0.join("Makefile"), rules).unwrap();
    for compiler in ["cc", "clang", "clang-19"] {
        if compiler != "cc" && Command::new(compiler).arg("--version").output().is_err() {
            continue;
        }
        says_the_same(TEST, &MODES, || {
            let mut command = alone("make");
            command.args(["-s", "-j2", "-f"]).arg(sources.0.join("Makefile"));
            command.arg(format!("DIR={}", sources.0.display())).arg(format!("CC={compiler}"));
            command
        });
    }
}

#[test]
fn java_with_many_threads_and_each_collector() {
    const TEST: &str = "java_with_many_threads_and_each_collector";
    if lacks(TEST, &["java"]) {
        return;
    }
    says_the_same(&format!("{TEST}-version"), &[PLAIN], || {
        let mut command = alone("java");
        command.arg("-version");
        command
    });
    // A Java runtime without the JDK cannot compile a source.
    let place = Place::new(&format!("{TEST}-classes"));
    let made = Command::new("javac").arg("-d").arg(&place.0).arg(source("Work.java")).output();
    let is_made = made.is_ok_and(|out| out.status.success());
    let modules = Command::new("java").arg("--list-modules").output().unwrap();
    if !is_made && !String::from_utf8_lossy(&modules.stdout).contains("jdk.compiler") {
        println!("skipped: {TEST}: there is no compiler for Java (apt-get install default-jdk-headless)");
        return;
    }
    for collector in ["-XX:+UseG1GC", "-XX:+UseParallelGC", "-XX:+UseSerialGC"] {
        says_the_same(TEST, &[PLAIN], || {
            let mut command = alone("java");
            command.args([collector, "-Xmx256m"]);
            if is_made {
                command.arg("-cp").arg(&place.0).arg("Work");
            } else {
                command.arg(source("Work.java"));
            }
            command
        });
    }
}

#[test]
fn bash_with_arrays_and_children() {
    const TEST: &str = "bash_with_arrays_and_children";
    if lacks(TEST, &["bash"]) {
        return;
    }
    says_the_same(TEST, &MODES, || {
        let mut command = alone("bash");
        command.arg(source("shells.sh"));
        command
    });
}

#[test]
fn perl_with_long_strings_and_a_child() {
    const TEST: &str = "perl_with_long_strings_and_a_child";
    if lacks(TEST, &["perl"]) {
        return;
    }
    says_the_same(TEST, &MODES, || {
        let mut command = alone("perl");
        command.arg(source("words.pl")).env("PERL_HASH_SEED", "0");
        command
    });
}

#[test]
fn ssh_keygen_that_makes_and_reads_keys() {
    const TEST: &str = "ssh_keygen_that_makes_and_reads_keys";
    if lacks(TEST, &["ssh-keygen"]) {
        return;
    }
    says_the_same(TEST, &MODES, || {
        let mut command = alone("sh");
        let script = "for kind in ed25519 ecdsa; do
            ssh-keygen -q -t $kind -N secret -C a@b -f $kind && ssh-keygen -q -p -P secret -N '' -f $kind >/dev/null
            ssh-keygen -y -f $kind >again && cmp again $kind.pub && cut -d' ' -f1,3 $kind.pub
        done";
        command.args(["-c", script]);
        command
    });
}

/// Compiles one of the programs; `more` are further arguments of the compiler.
fn compile(place: &Place, name: &str, more: &[&str]) -> PathBuf {
    let program = place.0.join(name);
    let mut command = Command::new("cc");
    command.args(["-Wall", "-Wextra", "-Werror", "-O0", "-fno-builtin"]).arg(source(&format!("{name}.c")));
    command.arg("-I").arg(Path::new(ROOT).join("../rt/include"));
    let out = command.args(more).args(["-lpthread", "-ldl", "-o"]).arg(&program).output().unwrap();
    assert!(out.status.success(), "{name}: {}", String::from_utf8_lossy(&out.stderr));
    program
}

#[test]
fn the_family_keeps_its_promises_at_its_edges() {
    const TEST: &str = "the_family_keeps_its_promises_at_its_edges";
    if lacks(TEST, &["cc"]) {
        return;
    }
    let place = Place::new(TEST);
    let program = compile(&place, "edges", &[]);
    for mode in MODES.into_iter().chain([Some("default,firewall=1"), Some("lite"), Some("guards")]) {
        let out = with_library(&mut alone(&program), mode);
        assert_eq!(told(&out), "exit status: 0\n", "{mode:?}");
    }
    let out = with_library(alone(&program).env("UMEM_OPTIONS", "nomagazines"), PLAIN);
    assert_eq!(told(&out), "exit status: 0\n");
}

#[test]
fn memory_is_there_before_any_library_is_ready_and_after_a_plugin_is_gone() {
    const TEST: &str = "memory_is_there_before_any_library_is_ready_and_after_a_plugin_is_gone";
    if lacks(TEST, &["cc"]) {
        return;
    }
    let place = Place::new(TEST);
    let plugin = compile(&place, "plugin", &["-shared", "-fPIC"]);
    let program = compile(&place, "early", &[]);
    for mode in MODES {
        let out = with_library(alone(&program).arg(&plugin), mode);
        let wanted =
            "exit status: 0\nbefore all, at the beginning\nthe plugin came and went\nthe end\n".to_owned();
        assert_eq!(told(&out), wanted, "{mode:?}");
    }
}

#[test]
fn a_program_that_has_the_library_for_real_time_as_well() {
    const TEST: &str = "a_program_that_has_the_library_for_real_time_as_well";
    if lacks(TEST, &["cc"]) {
        return;
    }
    for extension in ["so", "a"] {
        let place = Place::new(&format!("{TEST}-{extension}"));
        let linked = place.0.join(format!("libmillpond_rt.{extension}"));
        std::fs::copy(beside(&format!("libmillpond_rt.{extension}")), &linked).unwrap();
        std::fs::copy(&linked, place.0.join("libmillpond_rt.so.0")).unwrap();
        let path = format!("-Wl,-rpath,{}", place.0.display());
        let program =
            compile(&place, "both", &[&linked.display().to_string(), &path, "-lgcc_s", "-lpthread", "-lm"]);
        for mode in MODES {
            let out = with_library(&mut alone(&program), mode);
            assert_eq!(told(&out), "exit status: 0\nchild 0, parent 0\n", "{extension} {mode:?}");
        }
    }
}

#[test]
fn rights_that_the_user_has_not_are_a_reason_not_to_listen_to_him() {
    const TEST: &str = "rights_that_the_user_has_not_are_a_reason_not_to_listen_to_him";
    // SAFETY: the call has no effect.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: {TEST}: only root can make such a program");
    }
    if lacks(TEST, &["cc"]) {
        return;
    }
    let place = Place::new(TEST);
    // It is linked with the library, because the loader ignores LD_PRELOAD for a set-user-ID program.
    let library_here = place.0.join("libmillpond_malloc.so");
    std::fs::copy(library(), &library_here).unwrap();
    let path = format!("-Wl,-rpath,{}", place.0.display());
    let program = compile(&place, "secure", &[&library_here.display().to_string(), &path]);
    let run = |debug: &str| told(&alone(&program).env("UMEM_DEBUG", debug).uid(65534).output().unwrap());
    assert_eq!(run("guards"), "exit status: 0\nchecked\n");
    assert_eq!(
        run("nonsense"),
        "exit status: 0\nnot checked\nUMEM_DEBUG: 'nonsense' not recognized\n".to_owned()
    );
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
    if is_without_rights(&place.0) {
        return println!("skipped: {TEST}: files of the temporary directory get no rights (nosuid)");
    }
    assert_eq!(run("guards"), "exit status: 0\nnot checked\n");
    assert_eq!(run("nonsense"), "exit status: 0\nnot checked\n");
}

/// Whether the file system of a directory ignores set-user-ID bits.
fn is_without_rights(place: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(place.as_os_str().as_bytes()).unwrap();
    // SAFETY: a zeroed record, which is written to; the path is zero-terminated.
    unsafe {
        let mut about: libc::statvfs = std::mem::zeroed();
        assert_eq!(libc::statvfs(path.as_ptr(), &raw mut about), 0);
        about.f_flag & libc::ST_NOSUID != 0
    }
}

#[test]
fn a_complaint_that_nobody_can_hear_does_no_harm() {
    let script = "exec 2>&-; exec sort /dev/null";
    let out = with_library(alone("sh").args(["-c", script]), Some("nonsense"));
    assert_eq!(told(&out), "exit status: 0\nUMEM_DEBUG: 'nonsense' not recognized\n");
}

#[test]
fn a_program_ends_with_its_last_thread() {
    const TEST: &str = "a_program_ends_with_its_last_thread";
    if lacks(TEST, &["cc"]) {
        return;
    }
    let place = Place::new(TEST);
    let program = compile(&place, "ends", &[]);
    let mut command = alone(&program);
    let out = with_library(command.arg("exit").env("UMEM_OPTIONS", "reap_interval=1"), PLAIN);
    assert_eq!(told(&out), "exit status: 0\n");
}

#[test]
fn a_signal_ends_a_program_whose_first_thread_has_ended() {
    const TEST: &str = "a_signal_ends_a_program_whose_first_thread_has_ended";
    if lacks(TEST, &["cc"]) {
        return;
    }
    let place = Place::new(TEST);
    let program = compile(&place, "ends", &[]);
    let mut command = alone(&program);
    command.arg("signal").env("UMEM_OPTIONS", "reap_interval=1").env("LD_PRELOAD", library());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    assert_eq!(line.trim().parse(), Ok(pid));
    // SAFETY: a child of this test that was not waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
}

#[test]
fn threads_leave_nothing_whose_last_free_is_the_c_librarys() {
    const TEST: &str = "threads_leave_nothing_whose_last_free_is_the_c_librarys";
    if lacks(TEST, &["cc"]) {
        return;
    }
    let place = Place::new(TEST);
    let program = compile(&place, "ends", &[]);
    for words in [["joined", "strsignal"], ["joined", "dlopen"], ["detached", "strsignal"]] {
        let out = with_library(alone(&program).args(words), PLAIN);
        assert_eq!(told(&out), "exit status: 0\n", "{words:?}");
    }
}

#[test]
fn a_wall_stops_the_very_write_as_far_as_alignment_allows() {
    const TEST: &str = "a_wall_stops_the_very_write_as_far_as_alignment_allows";
    if lacks(TEST, &["cc"]) {
        return;
    }
    let place = Place::new(TEST);
    let program = compile(&place, "over", &[]);
    let out = with_library(&mut alone(&program), Some("firewall=1"));
    assert_eq!(told(&out), "exit status: 0\n");
}

#[test]
fn more_buffers_than_there_can_be_walls() {
    const TEST: &str = "more_buffers_than_there_can_be_walls";
    if lacks(TEST, &["cc"]) {
        return;
    }
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    let mappings: usize = text.trim().parse().unwrap();
    if mappings > 100_000 {
        return println!("skipped: {TEST}: there can be {mappings} mappings (vm.max_map_count)");
    }
    let place = Place::new(TEST);
    let program = compile(&place, "walls", &[]);
    let out = with_library(&mut alone(&program), Some("guards,firewall=1,verbose"));
    let wanted = "exit status: 0\nall were there\numem: firewall: too many buffers for vm.max_map_count: some have no page \
                  without access behind them; raise it, or firewall=min\n";
    assert_eq!(told(&out), wanted);
}
