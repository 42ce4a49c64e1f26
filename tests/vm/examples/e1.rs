//! The published experiment E1 on a virtual machine with two network cards on one network. Reports each phase together with the
//! published figures.
//!
//! ```text
//! cargo run --release -p millpond-vm --example e1 -- [--seconds N] [--cpus N] [--kernel 6.17] [--json]
//! ```
//! Each phase is measured for N seconds (10). The first card has many queues. Initially all interrupts of both cards go to the
//! CPUs that will be in the set, so that their move is visible. The machine is emulated: counts and places are comparable with
//! the published ones, throughput and idle time are not.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is for a person to read")]

use millpond_vm::{Cache, Case, Cgroup, Guest, Image, Nic, Shape, Verdict, available, cargo_binary, obtain};
use std::error::Error;
use std::path::Path;
use std::time::Duration;

/// The options.
struct Wanted {
    seconds: u64,
    cpus: u32,
    kernel: String,
    is_json: bool,
}

/// Additional time for a boot and for millpond itself on a slow machine, in seconds.
const BESIDE_S: u64 = 900;

const SCRIPT: &str = "\
. /words.sh
ip link set eth0 up
ip link set eth0 down
for irq in $(irqs_of_cards eth0 eth1); do
    [ ! -d /proc/irq/$irq ] || write /proc/irq/$irq/smp_affinity_list $((irq % (cpus / 2)))
done
millpond experiment e1 --nics eth0,eth1 $(cat /e1-options)
";

fn main() -> Result<(), Box<dyn Error>> {
    let wanted = wanted(std::env::args().skip(1))?;
    available()?;
    let cache = Cache::from_environment()?;
    let kernel = obtain(wanted.kernel.parse()?, &cache, &|line| eprintln!("# {line}"))?;
    let json = if wanted.is_json { " --json" } else { "" };
    let image = Image::new()
        .program("millpond", &cargo_binary("millpond")?)?
        .link("/usr/local/bin/psrset", "millpond")
        .link("/usr/local/bin/psrinfo", "millpond")
        .copy("/words.sh", Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/words.sh"), 0o644)
        .file("/e1-options", format!("--seconds {}{json}\n", wanted.seconds), 0o644);
    let guest = Guest::new(kernel, Shape::flat(wanted.cpus, 1)?)
        .cgroup(Cgroup::V2)
        .nics(&[Nic::Vmxnet3, Nic::Virtio])
        .interrupt_remapping()
        .image(&image);
    eprintln!("# booting {} processors under QEMU; three phases of {} s", wanted.cpus, wanted.seconds);
    let case = Case::new("e1", SCRIPT)?.limit(Duration::from_secs(BESIDE_S + 3 * wanted.seconds));
    let report = guest.run_cases(&[case], &cache)?;
    if let Some(trouble) = report.trouble {
        return Err(trouble.into());
    }
    for case in &report.cases {
        print!("{}", case.stdout);
        eprint!("{}", case.stderr);
        if case.verdict != Verdict::Passed {
            return Err(format!("the experiment ended so: {:?}", case.verdict).into());
        }
    }
    Ok(())
}

fn wanted(mut words: impl Iterator<Item = String>) -> Result<Wanted, Box<dyn Error>> {
    let mut wanted = Wanted { seconds: 10, cpus: 8, kernel: "6.17".to_owned(), is_json: false };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--seconds" => wanted.seconds = value()?.parse()?,
            "--cpus" => wanted.cpus = value()?.parse()?,
            "--kernel" => wanted.kernel = value()?,
            "--json" => wanted.is_json = true,
            _ => return Err("usage: e1 [--seconds N] [--cpus N] [--kernel 6.17] [--json]".into()),
        }
    }
    Ok(wanted)
}
