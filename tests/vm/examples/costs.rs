//! Measures the cost of a boot on this machine: `cargo run -p millpond-vm --example costs [KERNEL…]` (default 6.17).
//!
//! For each kernel and size, with all CPUs on one host thread and with a thread per CPU: the time to write the image, to boot,
//! for each of ten empty cases (that is, to restore the guest), and for eight concurrent busy loops of a fixed length. Results
//! depend on the machine and its load: run it on an idle machine, and compare ratios.
#![allow(clippy::print_stdout, reason = "it is for a person to read")]

use std::error::Error;

use millpond_vm::{Accel, Cache, Case, Guest, Image, Nic, Shape, obtain};

/// Numbers of CPUs and nodes.
const SIZES: [(u32, u32); 3] = [(4, 1), (8, 2), (32, 4)];

/// Keeps up to eight CPUs busy.
const BUSY: &str =
    "for n in 1 2 3 4 5 6 7 8; do (i=0; while [ $i -lt 40000 ]; do i=$((i + 1)); done) & done; wait";

fn main() -> Result<(), Box<dyn Error>> {
    let mut kernels: Vec<String> = std::env::args().skip(1).collect();
    if kernels.is_empty() {
        kernels.push("6.17".to_owned());
    }
    let cache = Cache::from_environment()?;
    // Include a file of the size of a real program.
    let me = Image::new().program("figures", &std::env::current_exe()?)?;
    println!(
        "{:<14} {:>4} {:<9} {:>8} {:>7} {:>11} {:>7}",
        "kernel", "cpus", "emulation", "image ms", "boot s", "per case ms", "busy s"
    );
    for id in kernels {
        let kernel = obtain(id.parse()?, &cache, &|note| println!("{note}"))?;
        for (cpus, nodes) in SIZES {
            for accel in [Accel::TcgSingle, Accel::TcgMulti] {
                let guest = Guest::new(kernel.clone(), Shape::flat(cpus, nodes)?)
                    .nics(&[Nic::Virtio, Nic::Virtio, Nic::Vmxnet3])
                    .image(&me)
                    .accel(accel);
                let empty: Result<Vec<Case>, _> =
                    (0..10).map(|n| Case::new(&format!("empty_{n}"), "true")).collect();
                let idle = guest.run_cases(&empty?, &cache)?;
                let busy = guest.run_cases(&[Case::new("busy", BUSY)?], &cache)?;
                println!(
                    "{:<14} {cpus:>4} {:<9} {:>8} {:>7.1} {:>11} {:>7.1}",
                    kernel.id.to_string(),
                    if accel == Accel::TcgSingle { "single" } else { "multi" },
                    idle.image_time.as_millis(),
                    idle.boot_time.as_secs_f64(),
                    (idle.total_time - idle.image_time - idle.boot_time).as_millis() / 10,
                    (busy.total_time - busy.image_time - busy.boot_time).as_secs_f64(),
                );
            }
        }
    }
    Ok(())
}
