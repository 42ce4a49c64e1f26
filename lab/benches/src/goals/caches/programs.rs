//! Unmodified programs with this tree's malloc and with the C library's: time and peak memory.

use super::allocators::{MALLOC, library};
use crate::line::{Goal, Line, Pairs};
use crate::trial::{Bench, Trouble, find_program, told};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const GOAL: Goal = Goal::RatioAtMost(1.05);
const PEER: &str = "the C library's malloc";

/// A program and its input.
struct Work {
    name: &'static str,
    program: &'static str,
    words: Vec<String>,
    variables: &'static [(&'static str, &'static str)],
}

/// Strings, lists and dictionaries, with malloc instead of Python's own allocator.
const PYTHON: &str = "\
d = {}
for i in range(300000):
    d[str(i)] = [i, str(i * 7), (i, i + 1)]
for i in range(0, 300000, 3):
    del d[str(i)]
s = sorted(d.values(), key=lambda v: v[1])
print(len(s), sum(len(v[1]) for v in s))
";

/// A table with two indices, a join, and deletions.
const SQL: &str = "\
create table t (a integer primary key, b text, c integer);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000)
insert into t select i, 'row ' || (i * 7919 % 200003), i % 997 from n;
create index tb on t (b);
create index tc on t (c);
select count(*), sum(x.c) from t x join t y on x.b = y.b where y.c % 3 = 0;
delete from t where c % 2 = 0;
select count(*) from t;
";

fn works(bench: &Bench) -> Result<Vec<Work>, Trouble> {
    let source = bench.scratch.join("large.c");
    let functions = (0..400).map(|at| {
        format!(
            "int f{at}(int a, int *b) {{ int s = {at}; for (int i = 0; i < a; i++) {{ s += b[i] * {at}; if (s & 1) b[i] ^= s; }} return s; }}\n"
        )
    });
    told("write a program", fs::write(&source, functions.collect::<String>()))?;
    let object = bench.scratch.join("large.o");
    Ok(vec![
        Work {
            name: "python3",
            program: "python3",
            words: vec!["-c".into(), PYTHON.into()],
            variables: &[("PYTHONMALLOC", "malloc"), ("PYTHONHASHSEED", "0")],
        },
        Work {
            name: "sqlite3",
            program: "sqlite3",
            words: vec![":memory:".into(), SQL.into()],
            variables: &[],
        },
        Work {
            name: "cc -O2",
            program: "cc",
            words: ["-O2", "-c", &source.to_string_lossy(), "-o", &object.to_string_lossy()]
                .map(String::from)
                .into(),
            variables: &[],
        },
    ])
}

pub(super) fn measure(bench: &Bench) -> Vec<Line> {
    let prepared = library(bench, MALLOC).and_then(|library| Ok((library, works(bench)?)));
    let (library, works) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => return vec![Line::unresolvable("programs with our malloc", PEER, GOAL, &why)],
    };
    works.iter().flat_map(|work| lines(bench.pairs, work, &library)).collect()
}

fn lines(pairs: usize, work: &Work, library: &Path) -> Vec<Line> {
    let names =
        [format!("{} with our malloc: time", work.name), format!("{} with our malloc: memory", work.name)];
    let mut found = [Pairs::default(), Pairs::default()];
    for trial in 0..=pairs {
        let both = run(work, Some(library)).and_then(|ours| Ok((ours, run(work, None)?)));
        match both {
            // Discard the first trial, which reads files from disk.
            Ok(_) if trial == 0 => {}
            Ok((ours, peer)) => {
                found[0].push(ours.0, peer.0);
                found[1].push(ours.1, peer.1);
            }
            Err(why) => return names.iter().map(|name| Line::unresolvable(name, PEER, GOAL, &why)).collect(),
        }
    }
    let units = ["ms", "MB"];
    let all = names.iter().zip(units).zip(&found);
    all.map(|((name, unit), pairs)| Line::of(name, PEER, unit, pairs, GOAL)).collect()
}

/// CPU time in milliseconds, and peak resident memory in megabytes, of a program and its children.
fn run(work: &Work, preload: Option<&Path>) -> Result<(f64, f64), Trouble> {
    let mut command = Command::new(find_program(work.program)?);
    command.args(&work.words).envs(work.variables.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(preload) = preload {
        command.env("LD_PRELOAD", preload);
    }
    let begin = Instant::now();
    let child = told("start a program", command.spawn())?;
    let pid = told("tell a process", i32::try_from(child.id()))?;
    let mut status = 0;
    // SAFETY: all zeros is a valid value, and the call writes to it; the child is ours and is waited for once.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        if libc::wait4(pid, &raw mut status, 0, &raw mut usage) != pid {
            return Err(format!("cannot wait for {}", work.name));
        }
        usage
    };
    if status != 0 {
        return Err(format!("{} failed after {:.1} s", work.name, begin.elapsed().as_secs_f64()));
    }
    let ms = |time: libc::timeval| time.tv_sec as f64 * 1e3 + time.tv_usec as f64 / 1e3;
    Ok((ms(usage.ru_utime) + ms(usage.ru_stime), usage.ru_maxrss as f64 / 1024.0))
}
