//! The pool of this process, by environment or cgroup.

use millpond_model::PoolId;
use millpond_model::pools::PoolNotice;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Environment variable with the name of the pool.
pub const POOL_VARIABLE: &str = "MILLPOND_POOL";

/// Environment variable with the state directory.
pub const STATE_VARIABLE: &str = "MILLPOND_STATE";

/// The default state directory.
const STATE: &str = "/run/millpond";

/// The file with the cgroups of this process.
const CGROUPS: &str = "/proc/self/cgroup";

/// The default state directory, for environments that name no other.
#[must_use]
pub fn usual_state_dir() -> &'static Path {
    Path::new(STATE)
}

/// The state directory of this program.
pub(crate) fn state_dir() -> PathBuf {
    variable(STATE_VARIABLE).map_or_else(|| PathBuf::from(STATE), PathBuf::from)
}

/// The pool that the environment names.
pub(crate) fn named() -> Option<String> {
    variable(POOL_VARIABLE)?.into_string().ok()
}

fn variable(name: &str) -> Option<std::ffi::OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// The cgroups of this process, one path for each hierarchy.
pub(crate) fn cgroups() -> io::Result<Vec<String>> {
    Ok(paths(&fs::read_to_string(CGROUPS)?))
}

/// The path fields of lines such as `4:cpuset:/a` and `0::/a`.
fn paths(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| Some(line.splitn(3, ':').nth(2)?.to_owned())).collect()
}

/// The pool of a process in these cgroups; the default pool if none of them belongs to another.
///
/// ```text
/// …/mpset1/pool7+a                      a leaf of pool 7, and all groups below it; also in mpdefault
/// …/mpset1.slice/mpset1-pool7-204-1.scope  a scope of pool 7 if systemd owns the tree
/// /system.slice/a.service               a group that existed before, if a notice names it as a zone
/// ```
pub(crate) fn pool_of(cgroups: &[String], notices: &[PoolNotice]) -> PoolId {
    let by_leaf = cgroups.iter().find_map(|path| by_leaf(path));
    let by_zone = || {
        let zones = notices.iter().flat_map(|n| n.zones.iter().map(move |zone| (zone, n.pool)));
        let holds = |zone: &str, path: &String| {
            path.strip_prefix(zone).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        // The innermost zone counts.
        let mine = zones.filter(|(zone, _)| cgroups.iter().any(|path| holds(zone, path)));
        mine.max_by_key(|(zone, _)| zone.len()).map(|(_, pool)| pool)
    };
    by_leaf.or_else(by_zone).unwrap_or(PoolId::DEFAULT)
}

fn by_leaf(path: &str) -> Option<PoolId> {
    let parts: Vec<&str> = path.split('/').collect();
    parts.windows(2).find_map(|pair| match pair {
        [group, leaf] => pool_of_leaf(group, leaf),
        _ => None,
    })
}

fn pool_of_leaf(group: &str, leaf: &str) -> Option<PoolId> {
    let stem = group.strip_suffix(".slice");
    let name = stem.unwrap_or(group);
    let is_set = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if name != "mpdefault" && !name.strip_prefix("mpset").is_some_and(is_set) {
        return None;
    }
    let digits = match stem {
        None => {
            let rest = leaf.strip_prefix("pool")?;
            rest.get(..rest.find(['+', '~'])?)?
        }
        Some(stem) => {
            let rest = leaf.strip_suffix(".scope")?.strip_prefix(stem)?.strip_prefix("-pool")?;
            rest.split('-').next()?
        }
    };
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::CpuSet;
    use millpond_model::pools::PoolSize;

    fn notice(pool: u32, zones: &[&str]) -> PoolNotice {
        let zones = zones.iter().map(|zone| (*zone).to_owned()).collect();
        PoolNotice { pool: PoolId(pool), size: PoolSize { cpus: CpuSet::first(1), serial: 1 }, zones }
    }

    fn found(text: &str) -> u32 {
        let notices =
            [notice(0, &[]), notice(3, &["/system.slice/a.service"]), notice(4, &["/system.slice"])];
        pool_of(&paths(text), &notices).0
    }

    #[test]
    fn a_leaf_of_ours_names_the_pool_in_every_kind_of_tree() {
        assert_eq!(found("5:cpuset:/mpset1/pool7+a+b\n4:memory:/a/b\n0::/\n"), 7);
        assert_eq!(found("0::/mpset12/pool7+\n"), 7);
        assert_eq!(found("0::/mpdefault/pool7~0123456789abcdef\n"), 7);
        assert_eq!(found("0::/docker/8f/mpset1/pool7+/below\n"), 7);
        assert_eq!(found("0::/mpset1.slice/mpset1-pool7-204-1.scope\n"), 7);
        assert_eq!(found("0::/mpdefault.slice/mpdefault-pool7-204-1.scope\n"), 7);
    }

    #[test]
    fn a_standing_group_is_in_the_pool_that_names_it() {
        assert_eq!(found("0::/system.slice/a.service\n"), 3);
        assert_eq!(found("0::/system.slice/a.service/worker\n"), 3);
        assert_eq!(found("0::/system.slice/a.service2\n"), 4);
    }

    #[test]
    fn everything_else_is_in_the_default_pool() {
        for other in [
            "",
            "0::/\n",
            "0::/user.slice/x\n",
            "0::/mpset1/from+pool7+\n",
            "0::/mpset1.slice/mpset1-204-1.scope\n",
            "0::/mpsetx/pool7+\n",
            "0::/mpset1/pool+\n",
            "no colon at all\n",
        ] {
            assert_eq!(found(other), 0, "{other}");
        }
    }

    #[test]
    fn fuzz_cgroups_of_a_process() {
        let seeds = ["5:cpuset:/mpset1/pool7+a\n0::/\n", "0::/mpset1.slice/mpset1-pool7-204-1.scope\n"];
        millpond_fuzz::check_text("member-cgroups", &seeds, |text| {
            let paths = paths(text);
            assert!(paths.len() <= text.lines().count());
            pool_of(&paths, &[notice(3, &["/a"])]);
        });
    }
}
