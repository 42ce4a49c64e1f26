//! Sets on a real systemd: version 252 as the first process, on the kernel that has both kinds of partition. Only with `MILLPOND_VM=all`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use std::path::Path;

use millpond_vm::{
    Cache, Case, Cgroup, Guest, Image, KernelId, Series, Shape, Verdict, available, cargo_binary,
    is_required, obtain, obtain_systemd,
};

#[test]
fn systemd_and_our_sets_live_on_one_machine() {
    if std::env::var("MILLPOND_VM").is_ok_and(|v| v == "all") {
        [Series::V6_17, Series::V7_2].into_iter().for_each(live_together);
    } else {
        println!("vm: systemd: skipped: only with MILLPOND_VM=all");
    }
}

fn live_together(series: Series) {
    let note = |line: &str| println!("vm: {line}");
    let ready = available().and_then(|()| Cache::from_environment()).and_then(|cache| {
        Ok((obtain(KernelId::cloud(series), &cache, &note)?, obtain_systemd(&cache, &note)?, cache))
    });
    let (kernel, userland, cache) = match ready {
        Ok(ready) => ready,
        Err(why) if is_required() => panic!("{why}"),
        Err(why) => return println!("vm: systemd: skipped: {why}"),
    };
    let millpond = cargo_binary("millpond", "millpond").unwrap();
    let mut image = Image::new().program("millpond", &millpond).unwrap();
    for name in ["psrset", "psrinfo", "pbind"] {
        image = image.link(Path::new("/usr/local/bin").join(name), "millpond");
    }
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/systemd");
    image = image.copy("/systemd-words.sh", cases.join("words"), 0o644);
    let guest = Guest::new(kernel, Shape::flat(8, 1).unwrap()).cgroup(Cgroup::V2).memory_mb(1280);
    let guest = guest.systemd(&userland).unwrap().image(&image);
    let report = guest.run_cases(&Case::all_in(&cases).unwrap(), &cache).unwrap();
    for case in &report.cases {
        println!("vm: systemd: {series:?}: {}: {:?}", case.name, case.verdict);
        println!("{}{}", case.stdout, case.stderr);
    }
    assert!(report.trouble.is_none(), "{:?}", report.trouble);
    let bad: Vec<&str> =
        report.cases.iter().filter(|c| c.verdict != Verdict::Passed).map(|c| c.name.as_str()).collect();
    assert!(bad.is_empty(), "{series:?}: {bad:?}");
}
