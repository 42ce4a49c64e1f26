//! The class FSS: usage, ranks and shares, by arithmetic from the reference (§3.8).

use super::*;
use millpond_model::ClassParams;

const FSS: ClassParams = ClassParams::Fss { uprilim: 0, upri: 0 };

fn fss_start(k: &mut Kernel, holder: u32, program: Program) -> u32 {
    let class = k.entry(FSS);
    let thread = k.start(Start::new(class, program));
    k.set_holder(thread, Some(holder));
    thread
}

/// Projects of one zone with these shares.
fn projects(k: &mut Kernel, shares: &[u32]) -> Vec<u32> {
    let zone = k.hold(Level::Zone, None);
    let make = |shares: &u32| {
        let project = k.hold(Level::Project, Some(zone));
        k.set_shares(project, Some(*shares));
        project
    };
    shares.iter().map(make).collect()
}

fn state(k: &Kernel, thread: u32) -> FssState {
    match k.thread(thread).class {
        ClassState::Fss(state) => state,
        other => unreachable!("{other:?}"),
    }
}

/// What threads got of ten seconds after a while, each group in parts of all.
fn parts(k: &mut Kernel, groups: &[Vec<u32>]) -> Vec<f64> {
    let used = |k: &Kernel| -> Vec<u64> {
        groups
            .iter()
            .map(|threads| threads.iter().map(|t| k.thread(*t).user + k.thread(*t).sys).sum())
            .collect()
    };
    k.run_until(k.now() + 500 * TICK).unwrap();
    let before = used(k);
    k.run_until(k.now() + 1_000 * TICK).unwrap();
    let after = used(k);
    let got: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    let all: u64 = got.iter().sum();
    assert_eq!(k.check(), Ok(()));
    got.iter().map(|got| *got as f64 / all as f64).collect()
}

fn close(got: &[f64], wanted: &[f64], most: f64) {
    for (one, part) in got.iter().zip(wanted) {
        assert!((one - part).abs() <= most, "{got:.4?} for {wanted:.4?}");
    }
}

#[test]
fn a_slice_is_eleven_ticks_and_then_it_is_the_other_s_turn() {
    let mut k = kernel(1, standard());
    let project = projects(&mut k, &[1])[0];
    let hogs = [0, 1].map(|_| fss_start(&mut k, project, Program::hog()));
    k.run_until(11 * TICK - 1).unwrap();
    assert_eq!((k.on(0), state(&k, hogs[0]).timeleft), (Some(hogs[0]), 1));
    k.run_until(11 * TICK).unwrap();
    assert_eq!((k.on(0), state(&k, hogs[0]).timeleft), (Some(hogs[1]), 11));
    // Nothing was normalised yet, so that the first slice leaves it at the top.
    assert_eq!((state(&k, hogs[0]).fsspri, state(&k, hogs[0]).umdpri), (0, 59));
}

#[test]
fn usage_is_normalised_by_the_square_of_the_part_of_shares() {
    let mut k = kernel(1, standard());
    let [one, three] = projects(&mut k, &[1, 3])[..] else { unreachable!() };
    let hogs = [fss_start(&mut k, one, Program::hog()), fss_start(&mut k, three, Program::hog())];
    k.run_until(100 * TICK).unwrap();
    // In the first second they take turns of 11 ticks: 55 and 45. Each tick weighs 1000. Of four shares the one project has a quarter, the other three
    // quarters; the set has one zone, with one share of one: usage times 16, and times 16/9.
    let shusage = |project: u32| {
        serde_json::to_value(&k.fss[0]).unwrap()["projects"][project.to_string()]["shusage"].clone()
    };
    let ran = hogs.map(|hog| k.thread(hog).user / TICK);
    assert_eq!(ran, [55, 45]);
    assert_eq!(shusage(one), 55_000 * 16);
    // 45,000 * 16 / 9.
    assert_eq!(shusage(three), 80_000);
}

#[test]
fn projects_get_time_as_their_shares_stand() {
    // With few threads for each of several processors it matters which threads meet on one: shares are kept less exactly then.
    for (cpus, threads, shares, most) in [
        (1, 1, vec![1, 1], 0.02),
        (1, 2, vec![1, 3], 0.02),
        (1, 1, vec![1, 2, 3, 4], 0.02),
        (1, 1, vec![5, 95], 0.02),
        (2, 3, vec![10, 30], 0.02),
        (4, 4, vec![1, 4], 0.04),
        (4, 5, vec![1, 4], 0.04),
        (4, 8, vec![1, 4], 0.02),
        (4, 16, vec![1, 4], 0.02),
        (8, 32, vec![1, 2, 3], 0.04),
    ] {
        let mut k = kernel(cpus, standard());
        let projects = projects(&mut k, &shares);
        let groups: Vec<Vec<u32>> = projects
            .iter()
            .map(|project| (0..threads).map(|_| fss_start(&mut k, *project, Program::hog())).collect())
            .collect();
        let all: u32 = shares.iter().sum();
        let wanted: Vec<f64> = shares.iter().map(|s| f64::from(*s) / f64::from(all)).collect();
        let got = parts(&mut k, &groups);
        close(&got, &wanted, most);
    }
}

#[test]
fn the_number_of_threads_buys_nothing() {
    let mut k = kernel(1, standard());
    let [one, two] = projects(&mut k, &[1, 1])[..] else { unreachable!() };
    let many: Vec<u32> = (0..9).map(|_| fss_start(&mut k, one, Program::hog())).collect();
    let alone = vec![fss_start(&mut k, two, Program::hog())];
    close(&parts(&mut k, &[many, alone]), &[0.5, 0.5], 0.03);
}

#[test]
fn zones_share_first_and_projects_what_their_zone_has() {
    let mut k = kernel(1, standard());
    let zones = [(3, vec![1, 2]), (1, vec![1])];
    let mut groups = Vec::new();
    for (shares, projects) in &zones {
        let zone = k.hold(Level::Zone, None);
        k.set_shares(zone, Some(*shares));
        for shares in projects {
            let project = k.hold(Level::Project, Some(zone));
            k.set_shares(project, Some(*shares));
            groups.push(vec![fss_start(&mut k, project, Program::hog())]);
        }
    }
    close(&parts(&mut k, &groups), &[0.25, 0.5, 0.25], 0.02);
}

#[test]
fn no_shares_run_when_nothing_else_does() {
    let mut k = kernel(1, standard());
    let [none, one] = projects(&mut k, &[0, 1])[..] else { unreachable!() };
    let idle = fss_start(&mut k, none, Program::hog());
    k.run_until(50 * TICK).unwrap();
    assert_eq!(k.thread(idle).user, 50 * TICK);
    assert_eq!(k.thread(idle).pri, 0);
    let half = Program::repeat(vec![Action::User(20 * TICK), Action::Sleep(20 * TICK)]);
    fss_start(&mut k, one, half);
    k.run_until(450 * TICK).unwrap();
    assert_eq!(k.thread(idle).user, 250 * TICK);
}

#[test]
fn a_process_with_shares_weighs_as_many_threads_as_it_has_shares() {
    let mut k = kernel(1, standard());
    let project = projects(&mut k, &[1])[0];
    let process = k.hold(Level::Process, Some(project));
    k.set_shares(process, Some(3));
    let own: Vec<u32> = (0..2).map(|_| fss_start(&mut k, process, Program::hog())).collect();
    let rest = vec![fss_start(&mut k, project, Program::hog())];
    close(&parts(&mut k, &[own, rest]), &[0.75, 0.25], 0.02);
}

#[test]
fn who_is_nice_gets_less_of_its_project() {
    let mut k = kernel(1, standard());
    let project = projects(&mut k, &[1])[0];
    let threads = [0, 0].map(|_| fss_start(&mut k, project, Program::hog()));
    k.set_params(threads[1], ClassParams::Fss { uprilim: 0, upri: -60 });
    let got = parts(&mut k, &[vec![threads[0]], vec![threads[1]]]);
    // At nice 39 a thread keeps 108 of 128 of its fsspri each second, at nice 20 95: left alone 33 to 20 of 53, 0.62. Decay comes in steps.
    assert!((0.55..0.65).contains(&got[0]), "{got:?}");
}
