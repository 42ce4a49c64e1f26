//! Rows of a report: pools and their sets, with the time that processors of these were busy.

use crate::failure::Failure;
use millpond_formats::pools::poolstat::Row;
use millpond_formats::pools::properties::pset_number;
use millpond_model::pools::{PoolNode, PoolsState};
use millpond_model::{PsetId, Sample};
use std::collections::BTreeMap;

/// What is known of an interval.
pub enum Measured<'s> {
    /// There was none: nothing was used, as on Solaris.
    Nothing,
    /// Nothing can be said.
    Unknown,
    /// What was counted at its ends.
    Between(&'s Sample, &'s Sample),
}

/// A row for each pool, or for those that are named by name or number.
///
/// # Errors
/// [`Failure::Said`] for a pool that there is not.
pub fn rows(state: &PoolsState, named: &[String], measured: &Measured<'_>) -> Result<Vec<Row>, Failure> {
    let mut pools: Vec<&PoolNode> = state.conf.pools.iter().collect();
    pools.sort_by_key(|pool| pool.id);
    let chosen: Vec<&PoolNode> = if named.is_empty() {
        pools
    } else {
        let find = |word: &String| {
            let by_id = || pools.iter().find(|p| p.id.is_some_and(|id| id.to_string() == *word));
            let found = pools.iter().find(|p| p.name == *word).or_else(by_id);
            found.copied().ok_or_else(|| unknown(word, &pools))
        };
        named.iter().map(find).collect::<Result<_, _>>()?
    };
    let shares = match measured {
        Measured::Between(before, after) => shares(before, after),
        _ => BTreeMap::new(),
    };
    let row = |pool: &PoolNode| {
        let set = state.conf.pset_of(pool)?;
        let share = set.id.and_then(|id| shares.get(&id)).copied().unwrap_or(0.0);
        #[expect(clippy::cast_precision_loss, reason = "CPUs are few, and a load is small")]
        let (size, load) = (set.online() as f64, set.load.unwrap_or(0) as f64 / 1000.0);
        Some(Row {
            pool_id: pool.id.map_or(-1, |id| i64::from(id.0)),
            pool: pool.name.clone(),
            pset_id: pset_number(set.id),
            pset: set.name.clone(),
            min: set.min,
            max: set.max,
            size: set.online(),
            used: (!matches!(measured, Measured::Unknown)).then_some(share * size),
            load,
        })
    };
    Ok(chosen.into_iter().filter_map(row).collect())
}

fn unknown(word: &str, pools: &[&PoolNode]) -> Failure {
    let names: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
    let hint = format!("there are the pools {}", names.join(", "));
    Failure::Said(format!("cannot get statistics for pool '{word}'"), Some(hint))
}

/// For each set the share of their time for which the processors that stayed in it were busy.
fn shares(before: &Sample, after: &Sample) -> BTreeMap<PsetId, f64> {
    let mut times: BTreeMap<PsetId, (u64, u64)> = BTreeMap::new();
    for cpu in &after.cpus {
        let Some(old) = before.cpus.iter().find(|old| old.cpu == cpu.cpu && old.set == cpu.set) else {
            continue;
        };
        let busy = |ticks: &millpond_model::Ticks| ticks.user.0 + ticks.sys.0;
        let time = times.entry(cpu.set).or_default();
        time.0 += busy(&cpu.ticks).saturating_sub(busy(&old.ticks));
        time.1 += cpu.ticks.total().0.saturating_sub(old.ticks.total().0);
    }
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of an interval")]
    let share = |(busy, all): (u64, u64)| if all == 0 { 0.0 } else { busy as f64 / all as f64 };
    times.into_iter().map(|(set, time)| (set, share(time))).collect()
}

/// Whether pools, sets or their processors changed; loads and states of processors go on by themselves.
pub fn is_changed(before: &PoolsState, now: &PoolsState) -> bool {
    let PoolsState { conf, keep_others, zones: _ } = before;
    let (sets, sets_now) = (&conf.psets, &now.conf.psets);
    (&conf.system, &conf.pools, *keep_others) != (&now.conf.system, &now.conf.pools, now.keep_others)
        || sets.len() != sets_now.len()
        || !sets.iter().zip(sets_now).all(|(set, now)| set.is_alike(now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::pools::{Keyword, PoolsConf, PsetNode};
    use millpond_model::{COLUMNS, CpuId, CpuSample, Nanos, PoolId, State, Ticks, WallTime};

    /// Four processors; 2 and 3 are in the set of pool web.
    fn state() -> PoolsState {
        let mut conf = PoolsConf::fresh((0..4).map(|n| (CpuId(n), State::OnLine)));
        conf.psets.push(PsetNode::new("webset", "pset_1", Some(PsetId(1))));
        conf.pools.push(PoolNode::new("web", "pool_1", "pset_1", Some(PoolId(1))));
        assert!(conf.move_cpu(CpuId(2), "webset") && conf.move_cpu(CpuId(3), "webset"));
        PoolsState { conf, keep_others: false, zones: BTreeMap::new() }
    }

    /// Processors with their set, and seconds of time in user mode, in the kernel and idle.
    fn sample(at: u64, cpus: &[(u32, u32, [u64; 3])]) -> Sample {
        let s = Nanos::from_secs;
        let cpus = cpus.iter().map(|(cpu, set, [user, sys, idle])| CpuSample {
            cpu: CpuId(*cpu),
            set: PsetId(*set),
            events: [None; COLUMNS.len()],
            ticks: Ticks { user: s(*user), sys: s(*sys), idle: s(*idle), ..Ticks::default() },
        });
        Sample { at: s(at), wall: WallTime(0), cpus: cpus.collect(), sets: vec![], missing: vec![] }
    }

    fn used(before: &Sample, after: &Sample) -> Vec<Option<f64>> {
        let rows = rows(&state(), &[], &Measured::Between(before, after)).unwrap();
        rows.iter().map(|row| row.used).collect()
    }

    #[test]
    fn used_is_the_share_of_busy_time_of_all_processors_of_the_set() {
        let before = sample(0, &[(0, 0, [0, 0, 0]), (1, 0, [0, 0, 0]), (2, 1, [5, 5, 0]), (3, 1, [0, 0, 0])]);
        let after = sample(4, &[(0, 0, [1, 1, 2]), (1, 0, [0, 0, 4]), (2, 1, [7, 7, 0]), (3, 1, [2, 0, 2])]);
        // 2 of 8 s times 2 processors; 6 of 8 s times 2.
        assert_eq!(used(&before, &after), [Some(0.5), Some(1.5)]);
        assert_eq!(used(&after, &after), [Some(0.0), Some(0.0)]);
        assert_eq!(used(&after, &before), [Some(0.0), Some(0.0)], "counters that go back count as nothing");
    }

    #[test]
    fn what_is_off_line_is_no_part_of_the_size_or_of_what_is_used() {
        let mut state = state();
        state.conf.cpu_mut(CpuId(3)).unwrap().status = Some(Keyword::Known(State::OffLine));
        let before = sample(0, &[(2, 1, [0, 0, 0])]);
        let after = sample(4, &[(2, 1, [4, 0, 0])]);
        let rows = rows(&state, &["web".to_owned()], &Measured::Between(&before, &after)).unwrap();
        assert_eq!((rows[0].size, rows[0].used), (1, Some(1.0)));
    }

    #[test]
    fn processors_that_changed_sets_count_for_nobody() {
        let before = sample(0, &[(0, 0, [0, 0, 0]), (2, 0, [0, 0, 0]), (3, 1, [0, 0, 0])]);
        let after = sample(4, &[(0, 0, [0, 0, 4]), (1, 0, [4, 0, 0]), (2, 1, [4, 0, 0]), (3, 1, [1, 0, 3])]);
        assert_eq!(used(&before, &after), [Some(0.0), Some(0.5)]);
    }

    #[test]
    fn pools_are_named_by_name_or_number_and_come_in_that_order() {
        let names = |named: &[&str]| {
            let named: Vec<String> = named.iter().map(|w| (*w).to_owned()).collect();
            let rows = rows(&state(), &named, &Measured::Nothing)?;
            Ok(rows.iter().map(|row| format!("{} {:?}", row.pool, row.used)).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap(), ["pool_default Some(0.0)", "web Some(0.0)"]);
        assert_eq!(
            names(&["1", "pool_default", "web"]).unwrap(),
            ["web Some(0.0)", "pool_default Some(0.0)", "web Some(0.0)"]
        );
        let hint = Some("there are the pools pool_default, web".to_owned());
        let refused: Result<Vec<String>, Failure> = names(&["7"]);
        assert_eq!(refused, Err(Failure::Said("cannot get statistics for pool '7'".into(), hint)));
    }

    #[test]
    fn loads_and_states_are_no_change_and_moves_are() {
        let (before, mut now) = (state(), state());
        now.conf.pset_mut("webset").unwrap().load = Some(7);
        now.conf.cpu_mut(CpuId(2)).unwrap().status = Some(Keyword::Known(State::OffLine));
        assert!(!is_changed(&before, &now));
        now.conf.move_cpu(CpuId(2), "pset_default");
        assert!(is_changed(&before, &now));
    }
}
