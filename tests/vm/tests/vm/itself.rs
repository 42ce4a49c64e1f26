//! Tests of the harness itself: cases that fail in each possible way, and the expected reports.

use std::path::Path;

use millpond_vm::{Case, CaseError, CaseResult, Report, Verdict, VmError};

use crate::groups::Check;

/// One boot that ends in a panic.
pub fn cases() -> Result<Vec<Case>, CaseError> {
    let scripts = [
        ("passes", "echo out; echo err >&2; echo text >$OUT/file; mkdir $OUT/dir; echo more >$OUT/dir/file"),
        ("wants", "want 1 2 number"),
        ("stops", "true\nfalse\necho not reached"),
        ("fails_in_a_subshell", "( fail inside ) || true"),
        ("misspells", "no-such-command"),
        ("is_no_shell", "if"),
        ("skips", "skip 'no such thing here'; fail not reached"),
        ("runs_a_host_program", "itself --help >$OUT/help"),
        ("never_ends", "# limit_s: 1\nwhile :; do :; done"),
        (
            "leaves_much",
            "sleep 1000 &\necho 0 >/sys/devices/system/cpu/cpu1/online\necho +cpuset >/sys/fs/cgroup/cgroup.subtree_control\n\
             mkdir -p /sys/fs/cgroup/a/b\necho $! >/sys/fs/cgroup/a/b/cgroup.procs\nmount -t tmpfs x /root\n\
             echo 1 >/proc/irq/default_smp_affinity\n# leaves: nothing",
        ),
        (
            "finds_all_put_back",
            "want 0-1 $(cat /sys/devices/system/cpu/online)\nwant '' \"$(ls -d /sys/fs/cgroup/*/ 2>/dev/null)\"",
        ),
        ("panics", "echo c >/proc/sysrq-trigger"),
        ("comes_after_a_panic", "true"),
    ];
    scripts.iter().map(|(name, script)| Case::new(name, *script)).collect()
}

/// The expected reports.
pub const CHECKS: [Check; 9] = [
    ("a_good_case_brings_its_output_and_files", |report| {
        let case = result(report, "passes")?;
        same(&case.verdict, &Verdict::Passed)?;
        same(&(case.stdout.as_str(), case.stderr.as_str()), &("out\n", "err\n"))?;
        same(&case.text("file"), &Some("text\n".to_owned()))?;
        same(&case.text("dir/file"), &Some("more\n".to_owned()))?;
        same(&case.left, &Vec::new())
    }),
    ("a_failure_tells_what_was_wanted", |report| {
        fails(report, "wants", "number: want `1`, got `2`")?;
        fails(report, "stops", "a command ended with status 1")?;
        fails(report, "misspells", "a command ended with status 127")?;
        same(&result(report, "stops")?.stdout.as_str(), &"")
    }),
    ("a_failure_that_the_script_overlooks_still_counts", |report| {
        fails(report, "fails_in_a_subshell", "inside")?;
        match &result(report, "is_no_shell")?.verdict {
            Verdict::Failed(_) => Ok(()),
            other => Err(format!("a syntax error is {other:?}")),
        }
    }),
    ("a_skip_tells_why", |report| {
        same(&result(report, "skips")?.verdict, &Verdict::Skipped("no such thing here".to_owned()))
    }),
    ("a_host_built_program_runs_in_the_guest", |report| {
        let case = result(report, "runs_a_host_program")?;
        same(&case.verdict, &Verdict::Passed)?;
        let help = case.text("help").unwrap_or_default();
        if help.contains("--test-threads") { Ok(()) } else { Err(format!("its help is {help:?}")) }
    }),
    ("a_case_that_never_ends_is_ended", |report| {
        same(&result(report, "never_ends")?.verdict, &Verdict::TimedOut)
    }),
    ("what_a_case_leaves_is_told_and_put_back", |report| {
        let case = result(report, "leaves_much")?;
        let told = [
            "cpu 1 off-line",
            "cgroup /sys/fs/cgroup/a/b",
            "cgroup /sys/fs/cgroup/a",
            "controller cpuset in /sys/fs/cgroup",
            "/proc/irq/default_smp_affinity 1, was 3",
            "mount /root",
        ];
        for line in told {
            if !case.left.iter().any(|l| l == line) {
                return Err(format!("{line:?} is not told: {:?}", case.left));
            }
        }
        if !matches!(&case.verdict, Verdict::Failed(why) if why.starts_with("it left behind: ")) {
            return Err(format!("it must leave nothing, and is {:?}", case.verdict));
        }
        same(&result(report, "finds_all_put_back")?.verdict, &Verdict::Passed)
    }),
    ("a_panic_is_told_with_its_log_and_its_case", |report| {
        match &report.trouble {
            Some(VmError::Panic { stage, log }) if stage == "in case panics" && log.contains("sysrq") => {}
            other => return Err(format!("the trouble is {other:?}")),
        }
        same(&result(report, "panics")?.verdict, &Verdict::Lost)?;
        same(&result(report, "comes_after_a_panic")?.verdict, &Verdict::Lost)
    }),
    ("a_program_of_the_workspace_is_found_as_this_test_was_built", |_| {
        let found = millpond_vm::cargo_test_binary("vm").map_err(|e| e.to_string())?;
        // Not compared by the whole name: a dependency may have changed since, and then there is a new file in the same
        // directory.
        let place = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (path.parent().map(Path::to_owned), name.split('-').next().map(str::to_owned))
        };
        same(&place(&found), &place(&std::env::current_exe().map_err(|e| e.to_string())?))
    }),
];

fn result<'a>(report: &'a Report, name: &str) -> Result<&'a CaseResult, String> {
    report.cases.iter().find(|c| c.name == name).ok_or_else(|| format!("there is no result of {name}"))
}

fn fails(report: &Report, name: &str, why: &str) -> Result<(), String> {
    same(&result(report, name)?.verdict, &Verdict::Failed(why.to_owned()))
}

fn same<T: PartialEq + std::fmt::Debug>(got: &T, want: &T) -> Result<(), String> {
    if got == want { Ok(()) } else { Err(format!("want {want:?}\n got {got:?}")) }
}
