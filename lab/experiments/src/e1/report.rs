//! Results: each phase compared with the published one.

use super::causes::{self, Cause};
use super::published::{Figures, Published};
use crate::Facts;
use millpond_formats::mpstat::{self, Table as Listing};
use millpond_observe::Rates;
use millpond_report::{Bars, Cell, Group, Table};
use millpond_workloads::stream::StreamResult;
use serde::Serialize;
use std::collections::BTreeMap;

/// A phase.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Phase {
    /// A description of the phase.
    pub sentence: String,
    /// The stream's result.
    pub stream: StreamResult,
    /// The figures that have published counterparts.
    pub figures: Figures,
    /// All CPUs, as `mpstat -p` shows them.
    pub mpstat: String,
    /// Causes of interrupts on the CPUs of the set (in the first phase: of the future set), and the rates of devices on other CPUs.
    pub causes: Vec<Cause>,
    /// Steps that were not possible here.
    pub left_out: Vec<String>,
}

/// The whole experiment.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct E1 {
    /// The machine.
    pub machine: Facts,
    /// The CPUs of the set.
    pub set: String,
    /// Whether no other program used the machine.
    pub full: bool,
    /// The three phases.
    pub phases: Vec<Phase>,
    /// The CPU states at the end.
    pub afterwards: Afterwards,
}

/// The experiment with the published figures.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Judged<'a> {
    #[serde(flatten)]
    e1: &'a E1,
    /// The figures of each phase.
    published: &'a [Figures],
    /// Claims that were published in words, and whether they hold here.
    claims: BTreeMap<&'static str, bool>,
}

/// CPU states after the restoration, compared with those at the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Afterwards {
    /// Whether every CPU has its former state.
    pub same_states: bool,
    /// CPUs whose state has a new time, as a list.
    pub renewed: String,
}

impl Afterwards {
    /// The machine and the set, in one line.
    #[must_use]
    pub fn text(&self) -> String {
        let states = if self.same_states { "the same states as before" } else { "OTHER states than before" };
        let times = if self.renewed.is_empty() { "none" } else { &self.renewed };
        format!("afterwards: all CPUs have {states}; new times: {times}\n")
    }
}

/// The rows of `mpstat -p` for an interval.
#[must_use]
pub(super) fn listing(frame: &Rates) -> String {
    let mut text = String::new();
    mpstat::push_head(Listing::ProcessorsAndSets, false, &mut text);
    text.push('\n');
    for cpu in &frame.cpus {
        let shares = cpu.interval.shares().without_steal();
        let row = mpstat::Row {
            id: cpu.cpu.0,
            rates: cpu.interval.rates,
            shares: [shares.user, shares.sys, shares.wait, shares.idle],
            steal: None,
            last: Some(cpu.set.0),
        };
        mpstat::push_row(&row, &mut text);
        text.push('\n');
    }
    text
}

/// Maximum number of displayed interrupt causes per phase.
const CAUSES_SHOWN_MAX: usize = 16;

impl Phase {
    /// Devices that interrupted any CPU.
    fn devices(&self) -> impl Iterator<Item = &Cause> {
        self.causes.iter().filter(|cause| !cause.is_internal)
    }

    /// The interrupts of the set's CPUs, and the CPUs of device interrupts; empty without any.
    fn places(&self) -> String {
        let mut table = Table::of(&["interrupts a second, by cause"], &["on the set", "elsewhere"]);
        for cause in self.causes.iter().take(CAUSES_SHOWN_MAX) {
            let [on_set, elsewhere] = [cause.rate, cause.elsewhere].map(|rate| Cell::from((rate, 1)));
            table.row([cause.name.as_str().into(), on_set, elsewhere]);
        }
        match self.causes.len() {
            0 => String::new(),
            count if count > CAUSES_SHOWN_MAX => {
                table.text() + &format!("and {} more\n", count - CAUSES_SHOWN_MAX)
            }
            _ => table.text(),
        }
    }

    /// The phase compared with the published one.
    #[must_use]
    pub fn text(&self, published: &Figures) -> String {
        let mut text = self.stream.report();
        text += &self.mpstat;
        text += &beside(published, &self.figures).text();
        text += &self.places();
        for (role, cpu) in [("network's", self.figures.network.cpu), ("stream's", self.figures.stream.cpu)] {
            if let Some(cpu) = cpu {
                text += &format!("the {role} CPU here: {cpu}\n");
            }
        }
        let heads = std::iter::once("left out: ").chain(std::iter::repeat(""));
        for (why, head) in self.left_out.iter().zip(heads) {
            text += &format!("{head}{why}\n");
        }
        text
    }
}

/// Published and measured figures, with their ratio; figures that neither has are left out.
fn beside(published: &Figures, here: &Figures) -> Table {
    let mut table = Table::of(&["figure"], &["published", "here", "here/published"]);
    for ((name, theirs), (_, ours)) in published.listed().into_iter().zip(here.listed()) {
        if theirs.is_none() && ours.is_none() {
            continue;
        }
        let ratio =
            theirs.zip(ours).filter(|(theirs, _)| *theirs != 0.0).map(|(theirs, ours)| (ours / theirs, 2));
        let digits = |figure: Option<f64>| Cell::from(figure.map(|figure| (figure, 0)));
        table.row([name.into(), digits(theirs), digits(ours), ratio.into()]);
    }
    table
}

impl E1 {
    /// The conclusions from all phases.
    #[must_use]
    pub fn summary(&self, published: &Published) -> String {
        let mut text = format!("published: {}\n", published.machine);
        if let (Some([theirs_out, theirs_in]), Some([out, into])) = (published.ways(1), self.slow_down()) {
            text += &format!(
                "predicted for phase 3 there, from what phase 3 is of phase 2 here: {:.0} Mbits/sec out, {:.0} in\n",
                theirs_out * out,
                theirs_in * into
            );
        }
        if let Some(phase) = self.phases.get(2) {
            let asked = match self.full {
                true => "why a no-intr set shows interrupts",
                false => "why a set that takes interrupts shows them",
            };
            text += &format!("{asked}: {}\n", causes::answer(&phase.causes));
        }
        for (claim, holds) in self.claims() {
            text += &format!("{}: {claim}\n", if holds { "as published" } else { "not as published" });
        }
        text + &self.afterwards.text()
    }

    /// The speed of each direction of phase 3, as a fraction of phase 2.
    fn slow_down(&self) -> Option<[f64; 2]> {
        let ways =
            |phase: &Phase| [phase.stream.out_flow, phase.stream.in_flow].map(|flow| flow.mbits_per_second());
        let (second, third) = (ways(self.phases.get(1)?), ways(self.phases.get(2)?));
        (second[0] > 0.0 && second[1] > 0.0).then(|| [third[0] / second[0], third[1] / second[1]])
    }

    /// The published claims, and whether they hold here. Those about interrupts are included only if interrupts were moved.
    #[must_use]
    pub fn claims(&self) -> Vec<(&'static str, bool)> {
        let mut claims = Vec::new();
        let [first, second, third] = self.phases.as_slice() else { return claims };
        let in_set = |cpu: Option<u32>| {
            let set: Option<millpond_model::CpuSet> = self.set.parse().ok();
            cpu.zip(set).map(|(cpu, set)| set.contains(millpond_model::CpuId(cpu)))
        };
        if self.full {
            let quiet = second.figures.set.idl_least.is_some_and(|idle| idle >= 99.0);
            claims.push(("in phase 2 the CPUs of the set are idle", quiet));
            let no_device = |phase: &Phase| phase.devices().all(|device| device.rate <= 0.0);
            claims.push(("in phase 2 no device interrupts them", no_device(second)));
            // A card may use other queues for another stream, so it is not identified by name.
            if !no_device(first) {
                let moved = no_device(second) && second.devices().any(|device| device.elsewhere > 0.0);
                claims.push(("in phase 2 devices that interrupted them interrupt others", moved));
            }
            claims.push(("in phase 3 no device interrupts them", no_device(third)));
            let outside = in_set(third.figures.network.cpu) == Some(false);
            claims.push(("in phase 3 the network's CPU is outside the set", outside));
        }
        claims.push((
            "in phase 2 the stream runs outside the set",
            in_set(second.figures.stream.cpu) == Some(false),
        ));
        claims.push(("in phase 3 it runs inside", in_set(third.figures.stream.cpu) == Some(true)));
        claims.push(("afterwards all CPUs have the states that they had", self.afterwards.same_states));
        if self.full {
            let only_set = self.afterwards.renewed == self.set;
            claims.push(("afterwards the CPUs of the set have new times, and no others", only_set));
        }
        claims
    }

    /// Everything, for JSON output.
    #[must_use]
    pub fn json<'a>(&'a self, published: &'a Published) -> Judged<'a> {
        Judged { e1: self, published: &published.phases, claims: self.claims().into_iter().collect() }
    }

    /// A picture of the stream's rates in each phase, as measured.
    #[must_use]
    pub fn svg(&self) -> String {
        let groups = self.phases.iter().zip(1..).map(|(phase, number)| Group {
            name: format!("phase {number}"),
            values: [phase.stream.out_flow, phase.stream.in_flow]
                .map(|f| Some(f.mbits_per_second()))
                .to_vec(),
        });
        let bars = Bars {
            title: "A two-way stream and processor sets".into(),
            unit: "Mbits/s".into(),
            series: vec!["out".into(), "in".into()],
            groups: groups.collect(),
        };
        bars.svg()
    }
}

impl Published {
    /// Both directions of a phase, from 0.
    fn ways(&self, phase: usize) -> Option<[f64; 2]> {
        let phase = self.phases.get(phase)?;
        Some([phase.out_mbits?, phase.in_mbits?])
    }
}

#[cfg(test)]
mod tests {
    use super::super::roles::{observed, tests::frame};
    use super::*;
    use millpond_model::CpuId;
    use millpond_workloads::stream::Flow;

    fn phase(mbits: f64, causes: Vec<Cause>) -> Phase {
        let bytes = 1_250_000 * format!("{mbits:.0}").parse::<u64>().unwrap();
        let flow = Flow { bytes, seconds: 10.0, calls: 1 };
        let stream = StreamResult {
            here: "10.0.0.2:40000".parse().unwrap(),
            there: "10.0.0.1:5001".parse().unwrap(),
            write_bytes: 1024,
            is_spinning: true,
            out_flow: flow,
            in_flow: flow,
            stopped: true,
        };
        let set = [CpuId(0), CpuId(1)].into_iter().collect();
        let figures =
            Figures { out_mbits: Some(mbits), in_mbits: Some(mbits), ..observed(&frame(), &set, None) };
        Phase {
            sentence: String::new(),
            stream,
            figures,
            mpstat: listing(&frame()),
            causes,
            left_out: vec!["this".into()],
        }
    }

    fn e1(full: bool) -> E1 {
        let clock =
            Cause { name: "Local timer interrupts".into(), is_internal: true, rate: 250.0, elsewhere: 0.0 };
        let machine = Facts {
            processors: 5,
            cores: 5,
            chips: 1,
            lgroups: 1,
            brand: String::new(),
            sets: 0,
            free: "0-4".into(),
        };
        let card = |rate, elsewhere| Cause { name: "eth0".into(), is_internal: false, rate, elsewhere };
        let phases = vec![
            phase(1000.0, vec![card(700.0, 20.0)]),
            phase(900.0, vec![card(0.0, 650.0)]),
            phase(450.0, vec![clock, card(0.0, 600.0)]),
        ];
        E1 {
            machine,
            set: "0-1".into(),
            full,
            phases,
            afterwards: Afterwards { same_states: true, renewed: "0-1".into() },
        }
    }

    #[test]
    fn a_phase_stands_beside_the_published_one() {
        let text = e1(true).phases[1].text(&Published::read().phases[1]);
        let expected = "\
stream 10.0.0.2:40000 <-> 10.0.0.1:5001, writes of 1024 bytes, spinning
  out     10.0 s      1.048 GBytes      900.0 Mbits/sec
   in     10.0 s      1.048 GBytes      900.0 Mbits/sec
CPU minf mjf xcal  intr ithr  csw icsw migr smtx  srw syscl  usr sys  wt idl set
  0    0   0    0     1    0    0    0    0    0    0     0    0   0   0 100   0
  1    0   0    0     0    0    0    0    0    0    0     0    1   0   0  99   0
  2    0   0    0 42492 42200  900    0    0    0    0    10   45  15   0  40   0
  3    0   0    0   855   20  500    0    0    0    0 530000   75  25   0   0   0
  4    0   0    0  2485    5  100    0    0    0    0    50   15   5   0  80   0
figure                 published    here  here/published
stream out, Mbits/sec        481     900            1.87
stream in, Mbits/sec         436     900            2.06
network's CPU: intr        42492   42492            1.00
network's CPU: ithr        42200   42200            1.00
network's CPU: xcal            -       0               -
network's CPU: sys             -      15               -
stream's CPU: syscl            -  530000               -
stream's CPU: usr              -      75               -
stream's CPU: sys              -      25               -
stream's CPU: idl              -       0               -
set: intr, most                1       1            1.00
set: csw, most                 0       0               -
set: idl, least              100      99            0.99
others: intr, least          855    2485            2.91
others: intr, most          2485    2485            1.00
interrupts a second, by cause  on the set  elsewhere
eth0                                  0.0      650.0
the network's CPU here: 2
the stream's CPU here: 3
left out: this
";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_end_predicts_answers_and_judges() {
        let text = e1(true).summary(&Published::read());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "published: Sun T2000: 8 cores x 4 strands = 32 processors, one gigabit link; 2006"
        );
        assert_eq!(
            lines[1],
            "predicted for phase 3 there, from what phase 3 is of phase 2 here: 240 Mbits/sec out, 218 in"
        );
        assert!(lines[2].starts_with(
            "why a no-intr set shows interrupts: the CPUs of the set were interrupted 250 times"
        ));
        assert_eq!(lines[3], "as published: in phase 2 the CPUs of the set are idle");
        assert_eq!(lines[5], "as published: in phase 2 devices that interrupted them interrupt others");
        assert_eq!(lines[9], "not as published: in phase 3 it runs inside");
        assert_eq!(lines[10], "as published: afterwards all CPUs have the states that they had");
        assert_eq!(lines[11], "as published: afterwards the CPUs of the set have new times, and no others");
        assert_eq!(lines[12], "afterwards: all CPUs have the same states as before; new times: 0-1");
    }

    #[test]
    fn what_was_not_put_back_is_told() {
        let mut e1 = e1(true);
        e1.afterwards = Afterwards { same_states: false, renewed: String::new() };
        assert_eq!(
            e1.afterwards.text(),
            "afterwards: all CPUs have OTHER states than before; new times: none\n"
        );
        let broken = e1.claims().into_iter().filter(|(name, holds)| name.starts_with("afterwards") && !holds);
        assert_eq!(broken.count(), 2);
    }

    #[test]
    fn an_interrupt_that_stays_or_stops_coming_has_not_moved() {
        let claim = "in phase 2 devices that interrupted them interrupt others";
        let with = |second: Option<(f64, f64)>| {
            let mut e1 = e1(true);
            let name = || "eth0".into();
            let cause = |(rate, elsewhere)| Cause { name: name(), is_internal: false, rate, elsewhere };
            e1.phases[1].causes = second.into_iter().map(cause).collect();
            e1.claims().into_iter().find(|(name, _)| *name == claim).unwrap().1
        };
        assert!(with(Some((0.0, 650.0))));
        assert!(!with(Some((1.0, 650.0))));
        assert!(!with(None));
        let mut none_to_move = e1(true);
        none_to_move.phases[0].causes.clear();
        assert!(none_to_move.claims().iter().all(|(name, _)| *name != claim));
    }

    #[test]
    fn many_causes_are_counted_and_not_shown() {
        let disk =
            |n: u32| Cause { name: format!("nvme0q{n}"), is_internal: false, rate: 1.0, elsewhere: 0.0 };
        let places = phase(1000.0, (0..19).map(disk).collect()).places();
        assert_eq!((places.lines().count(), places.lines().last()), (18, Some("and 3 more")));
        assert_eq!(phase(1000.0, vec![]).places(), "");
    }

    #[test]
    fn where_interrupts_were_not_steered_nothing_is_claimed_about_them() {
        let claims: Vec<&str> = e1(false).claims().into_iter().map(|(claim, _)| claim).collect();
        let expected = [
            "in phase 2 the stream runs outside the set",
            "in phase 3 it runs inside",
            "afterwards all CPUs have the states that they had",
        ];
        assert_eq!(claims, expected);
        let found = e1(false);
        let json = serde_json::to_value(found.json(&Published::read())).unwrap();
        assert_eq!(json["claims"]["in phase 3 it runs inside"], false);
        assert_eq!(json["published"][0]["out_mbits"], 540.0);
        assert!(found.svg().contains("<title>phase 3, in: 450.0 Mbits/s</title>"));
    }
}
