//! Boots a kernel with programs in the guest and runs one script there, for manual investigation.
//!
//! ```text
//! cargo run -p millpond-vm --example boot -- 6.17 8x2 v2 SCRIPT [PROGRAM …]
//! ```
//! The second argument is CPUs x nodes, the third `v2` or `v1`. Programs are paths on this machine. In the guest they are on the
//! search path, under their file names.
#![allow(clippy::print_stdout, reason = "it is for a person to read")]

use millpond_vm::{Cache, Cgroup, Guest, Image, Nic, Shape, obtain};
use std::error::Error;
use std::path::Path;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [kernel, shape, cgroup, script, programs @ ..] = words.as_slice() else {
        return Err("usage: boot KERNEL CPUSxNODES v1|v2 SCRIPT [PROGRAM …]".into());
    };
    let (cpus, nodes) = shape.split_once('x').ok_or("the shape is CPUSxNODES")?;
    let cache = Cache::from_environment()?;
    let kernel = obtain(kernel.parse()?, &cache, &|line| println!("# {line}"))?;
    let cgroup = if cgroup == "v1" { Cgroup::V1Hybrid } else { Cgroup::V2 };
    let mut image = Image::new();
    for program in programs {
        let path = Path::new(program);
        let name = path.file_name().and_then(|n| n.to_str()).ok_or("a program needs a name")?;
        image = image.program(name, path)?;
    }
    let guest = Guest::new(kernel, Shape::flat(cpus.parse()?, nodes.parse()?)?)
        .cgroup(cgroup)
        .nics(&[Nic::Virtio, Nic::Virtio])
        .image(&image);
    let case =
        millpond_vm::Case::new("by_hand", std::fs::read_to_string(script)?)?.limit(Duration::from_secs(900));
    let report = guest.run_cases(&[case], &cache)?;
    for case in &report.cases {
        println!("{}{}", case.stdout, case.stderr);
        println!(
            "# {:?}, status {:?}, {} ms, left: {:?}",
            case.verdict, case.status, case.guest_ms, case.left
        );
    }
    println!("# boot {:?}, all {:?}", report.boot_time, report.total_time);
    if let Some(trouble) = &report.trouble {
        println!("# {trouble}\n{}", report.kernel_log);
    }
    Ok(())
}
