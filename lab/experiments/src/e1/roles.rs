//! Roles of CPUs in an interval: the network's CPU, the stream's, those of the set, and the others.

use super::published::{Figures, Range, Row};
use millpond_model::{Column, CpuId, CpuSet};
use millpond_observe::{CpuRates, Rates};

/// Fewer system calls per second than this do not count as a stream.
const STREAM_CALLS_MIN: f64 = 1_000.0;

/// Less device work per second than this does not count as a network.
const NETWORK_WORK_MIN: f64 = 100.0;

/// The figures of an interval. The network's CPU is the one with the most device work, if any has enough. The stream's CPU is
/// the one where the stream was `seen` most; if that is unknown, the one with the most system calls. A CPU may have
/// several roles; the others have none.
#[must_use]
pub fn observed(frame: &Rates, set: &CpuSet, seen: Option<CpuId>) -> Figures {
    let network = busiest(frame, Column::Ithr, NETWORK_WORK_MIN);
    let stream = match seen {
        Some(seen) => frame.cpus.iter().find(|cpu| cpu.cpu == seen),
        None => busiest(frame, Column::Syscl, STREAM_CALLS_MIN),
    };
    let has_role = |cpu: &CpuRates| {
        set.contains(cpu.cpu) || [network, stream].iter().flatten().any(|other| other.cpu == cpu.cpu)
    };
    Figures {
        out_mbits: None,
        in_mbits: None,
        network: network.map(row).unwrap_or_default(),
        stream: stream.map(row).unwrap_or_default(),
        set: range(frame.cpus.iter().filter(|cpu| set.contains(cpu.cpu))),
        others: range(frame.cpus.iter().filter(|cpu| !has_role(cpu))),
    }
}

fn busiest(frame: &Rates, column: Column, least: f64) -> Option<&CpuRates> {
    let rate = |cpu: &CpuRates| cpu.interval.rate(column).unwrap_or(0.0);
    frame.cpus.iter().filter(|cpu| rate(cpu) >= least).max_by(|a, b| rate(a).total_cmp(&rate(b)))
}

fn row(cpu: &CpuRates) -> Row {
    let (rate, shares) = (|column| cpu.interval.rate(column), cpu.interval.shares().without_steal());
    Row {
        cpu: Some(cpu.cpu.0),
        intr: rate(Column::Intr),
        ithr: rate(Column::Ithr),
        xcal: rate(Column::Xcal),
        csw: rate(Column::Csw),
        syscl: rate(Column::Syscl),
        usr: Some(shares.user),
        sys: Some(shares.sys),
        idl: Some(shares.idle),
    }
}

fn range<'f>(cpus: impl Iterator<Item = &'f CpuRates>) -> Range {
    let cpus: Vec<&CpuRates> = cpus.collect();
    let rates = |column| cpus.iter().filter_map(move |cpu| cpu.interval.rate(column));
    Range {
        intr_least: rates(Column::Intr).reduce(f64::min),
        intr_most: rates(Column::Intr).reduce(f64::max),
        csw_most: rates(Column::Csw).reduce(f64::max),
        idl_least: cpus.iter().map(|cpu| cpu.interval.shares().without_steal().idle).reduce(f64::min),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use millpond_model::{COLUMNS, Nanos, PsetId, Ticks, WallTime};
    use millpond_observe::Interval;

    /// A CPU with these rates (intr, ithr, csw, syscl) and this much idle time, in percent.
    fn cpu(id: u32, rates: [f64; 4], idle: u64) -> CpuRates {
        let mut all = [Some(0.0); COLUMNS.len()];
        for (column, rate) in [Column::Intr, Column::Ithr, Column::Csw, Column::Syscl].into_iter().zip(rates)
        {
            all[column.index()] = Some(rate);
        }
        let ticks = Ticks {
            user: Nanos::from_millis(75 * (100 - idle)),
            sys: Nanos::from_millis(25 * (100 - idle)),
            idle: Nanos::from_millis(100 * idle),
            ..Ticks::default()
        };
        let interval = Interval { rates: all, ticks };
        CpuRates { cpu: CpuId(id), set: PsetId::DEFAULT, interval }
    }

    /// Four CPUs like those of the second phase: 0 and 1 in the set, and idle.
    pub(in crate::e1) fn frame() -> Rates {
        let cpus = vec![
            cpu(0, [1.0, 0.0, 0.0, 0.0], 100),
            cpu(1, [0.0, 0.0, 0.0, 0.0], 99),
            cpu(2, [42_492.0, 42_200.0, 900.0, 10.0], 40),
            cpu(3, [855.0, 20.0, 500.0, 530_000.0], 0),
            cpu(4, [2_485.0, 5.0, 100.0, 50.0], 80),
        ];
        Rates {
            at: Nanos(0),
            wall: WallTime(0),
            elapsed: Some(Nanos::from_secs(1)),
            cpus,
            missing: Vec::new(),
        }
    }

    #[test]
    fn roles_are_found_by_what_processors_are_busy_with() {
        let figures = observed(&frame(), &[CpuId(0), CpuId(1)].into_iter().collect(), None);
        assert_eq!((figures.network.cpu, figures.network.intr), (Some(2), Some(42_492.0)));
        assert_eq!((figures.stream.cpu, figures.stream.syscl), (Some(3), Some(530_000.0)));
        assert_eq!(
            (figures.stream.usr, figures.stream.sys, figures.stream.idl),
            (Some(75.0), Some(25.0), Some(0.0))
        );
        let set =
            Range { intr_least: Some(0.0), intr_most: Some(1.0), csw_most: Some(0.0), idl_least: Some(99.0) };
        assert_eq!(figures.set, set);
        assert_eq!((figures.others.intr_least, figures.others.intr_most), (Some(2_485.0), Some(2_485.0)));
    }

    #[test]
    fn where_the_stream_was_seen_counts_more_than_system_calls() {
        let figures = observed(&frame(), &CpuSet::new(), Some(CpuId(4)));
        assert_eq!((figures.stream.cpu, figures.stream.syscl), (Some(4), Some(50.0)));
    }

    #[test]
    fn a_machine_at_rest_has_no_roles() {
        let frame = Rates { cpus: vec![cpu(0, [10.0, 1.0, 5.0, 20.0], 99)], ..frame() };
        let figures = observed(&frame, &CpuSet::new(), None);
        assert_eq!((figures.network, figures.stream), (Row::default(), Row::default()));
        assert_eq!(figures.set, Range::default());
        assert_eq!(figures.others.intr_most, Some(10.0));
    }
}
