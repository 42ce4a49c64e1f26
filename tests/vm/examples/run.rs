//! Boots a kernel and runs one script in it, for trying things out:
//! `cargo run -p millpond-vm --example run -- 6.17 8 2 v2 script.sh [PROGRAM…]` (kernel, CPUs, nodes, `v2` or `v1`, script, programs to take along).
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::Path;
use std::process::ExitCode;

use millpond_vm::{Cache, Case, Cgroup, Guest, Image, Nic, Shape, Verdict, obtain};

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("run: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<bool, Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kernel, cpus, nodes, cgroup, script, programs @ ..] = &args[..] else {
        return Err("say: KERNEL CPUS NODES v2|v1 SCRIPT [PROGRAM…]".into());
    };
    let cache = Cache::from_environment()?;
    let kernel = obtain(kernel.parse()?, &cache, &|note| eprintln!("{note}"))?;
    let mut image = Image::new();
    for program in programs {
        let path = Path::new(program);
        let name = path.file_name().ok_or("a program has a name")?;
        image = image.program(&name.to_string_lossy(), path)?;
    }
    let cgroup = if cgroup == "v1" { Cgroup::V1Hybrid } else { Cgroup::V2 };
    let shape = Shape::flat(cpus.parse()?, nodes.parse()?)?;
    let guest = Guest::new(kernel, shape).cgroup(cgroup).nics(&[Nic::Virtio, Nic::Vmxnet3]).image(&image);
    let case = Case::new("script", std::fs::read_to_string(script)?)?;
    let report = guest.run_cases(&[case], &cache)?;
    let result = &report.cases[0];
    print!("{}", result.stdout);
    eprint!("{}", result.stderr);
    for line in &result.left {
        eprintln!("left: {line}");
    }
    eprintln!(
        "{:?}; image {} ms, boot {} ms, script {} ms of guest time, all {} ms",
        result.verdict,
        report.image_time.as_millis(),
        report.boot_time.as_millis(),
        result.guest_ms,
        report.total_time.as_millis()
    );
    if let Some(trouble) = &report.trouble {
        eprintln!("{trouble}");
    }
    Ok(result.verdict == Verdict::Passed)
}
