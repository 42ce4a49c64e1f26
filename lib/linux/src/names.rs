//! Names of our cgroups. The name of a leaf records the original cgroup of its tasks.
//!
//! ```text
//!   /mpset1              a set (its label `set` has the requested attributes)
//!   /mpset1/from+        tasks that came from the root cgroup
//!   /mpset1/from+a+b     tasks that came from /a/b
//!   /mpdefault/from+     tasks in the default set that may not stay in the root cgroup (version 1)
//!   /mpdefault/own+      tasks that we started in the default set
//!   /mpset1/pool7+a      tasks of pool 7 that came from /a
//!   /mpdefault/pool7+a   the same while the pool has the default set
//! ```
//!
//! Where systemd owns the tree the groups are its units, and each moved process has a scope:
//!
//! ```text
//!   /mpset1.slice/mpset1-204-1.scope        process 204 and its children; label `origin`: its original cgroup
//!   /mpdefault.slice/mpdefault-99-1.scope   a process that we started in the default set
//!   /mpset1.slice/mpset1-pool7-204-1.scope  process 204 of pool 7
//! ```
//!
//! A process with shares or a cap of its own is in `/mpcap-204`, or in `/system.slice/mpcap-204-1.scope`.
//!
//! Forks stay in the leaf of their parent. So the origin and the pool of a task are kernel state and need no record.

use millpond_model::{PoolId, PsetId};

/// The cgroup of processes that we start in, or had to move to, the default set.
pub const DEFAULT_GROUP: &str = "/mpdefault";
/// The same, where systemd owns the tree.
pub const DEFAULT_SLICE: &str = "/mpdefault.slice";
const SLICE_SUFFIX: &str = ".slice";
const SCOPE_SUFFIX: &str = ".scope";
const SET_PREFIX: &str = "/mpset";
const CONTROL_SLICE: &str = "/system.slice";
const CONTROL_PREFIX: &str = "/mpcap-";
const LEAF_PREFIX: &str = "from";
const STARTED_PREFIX: &str = "own";
const POOL_PREFIX: &str = "pool";
/// cgroup names have at most 255 bytes.
const LEAF_MAX: usize = 240;

/// The cgroup of a set.
#[must_use]
pub fn set_group(id: PsetId) -> String {
    format!("{SET_PREFIX}{id}")
}

/// The cgroup of a set where systemd owns the tree.
#[must_use]
pub fn set_slice(id: PsetId) -> String {
    format!("{SET_PREFIX}{id}{SLICE_SUFFIX}")
}

/// The scope for a process in a slice of ours, and of a pool if it is in one. `n` distinguishes several scopes of one process.
#[must_use]
pub fn scope(slice: &str, pool: Option<PoolId>, pid: u32, n: usize) -> String {
    let stem = slice.trim_start_matches('/').trim_end_matches(SLICE_SUFFIX);
    let pool = pool.map(|id| format!("-{POOL_PREFIX}{id}")).unwrap_or_default();
    format!("{slice}/{stem}{pool}-{pid}-{n}{SCOPE_SUFFIX}")
}

/// The pool of the tasks in a leaf or a scope of ours.
#[must_use]
pub fn pool(path: &str) -> Option<PoolId> {
    owner(path)?;
    let (_, name) = path.trim_start_matches('/').split_once('/')?;
    let digits = if is_scope(path) {
        name.split('-').nth(1)?.strip_prefix(POOL_PREFIX)?
    } else {
        let rest = name.strip_prefix(POOL_PREFIX)?;
        rest.get(..rest.find(['+', '~'])?)?
    };
    digits.parse().ok()
}

/// The name of the leaf for a task of a pool.
#[must_use]
pub fn pool_leaf(pool: PoolId, origin: &str) -> (String, bool) {
    leaf_with(&format!("{POOL_PREFIX}{pool}"), origin)
}

/// The cgroup of a process with its own shares or cap; a scope where systemd owns the tree.
#[must_use]
pub fn control_group(systemd: bool, pid: u32, n: usize) -> String {
    if systemd {
        format!("{CONTROL_SLICE}{CONTROL_PREFIX}{pid}-{n}{SCOPE_SUFFIX}")
    } else {
        format!("{CONTROL_PREFIX}{pid}")
    }
}

/// Whether a path is a scope for a process with its own controls.
#[must_use]
pub fn is_control_scope(path: &str) -> bool {
    path.strip_prefix(CONTROL_SLICE).is_some_and(|scope| scope.starts_with(CONTROL_PREFIX))
}

/// Whether a path is a cgroup for a process with its own controls.
#[must_use]
pub fn is_control_group(path: &str) -> bool {
    path.starts_with(CONTROL_PREFIX) || is_control_scope(path)
}

/// Whether a cgroup is a scope in a slice of ours.
#[must_use]
pub fn is_scope(path: &str) -> bool {
    let mut parts = path.trim_start_matches('/').split('/');
    let (top, scope) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let is_ours = owner(path).is_some()
        && top.strip_suffix(SLICE_SUFFIX).is_some_and(|stem| {
            // Foreign scopes are possible here: for example that of a container that was started in the set.
            scope.strip_prefix(stem).is_some_and(|rest| rest.starts_with('-'))
        });
    is_ours && scope.ends_with(SCOPE_SUFFIX) && parts.next().is_none()
}

/// The unit of systemd's system manager with this cgroup; `None` below a unit that is not a slice, because such cgroups are the
/// unit's own.
#[must_use]
pub fn unit(path: &str) -> Option<String> {
    let (above, name) = path.rsplit_once('/')?;
    if !above.split('/').skip(1).all(|part| part.ends_with(SLICE_SUFFIX)) {
        return None;
    }
    let kind = name.rsplit_once('.')?.1;
    let is_unit = matches!(kind, "slice" | "service" | "scope" | "socket" | "mount" | "swap");
    // systemd escapes names that look like control files.
    is_unit.then(|| name.strip_prefix('_').unwrap_or(name).to_owned())
}

/// Whether the kubelet made the cgroup or one of its ancestors.
#[must_use]
pub fn is_of_pod(path: &str) -> bool {
    path.split('/').any(|part| part.starts_with("kubepods"))
}

/// The set whose cgroup contains a path: a set, the default set, or `None` for a foreign cgroup.
#[must_use]
pub fn owner(path: &str) -> Option<PsetId> {
    let top = path.trim_start_matches('/').split('/').next()?;
    let top = top.strip_suffix(SLICE_SUFFIX).unwrap_or(top);
    if format!("/{top}") == DEFAULT_GROUP {
        return Some(PsetId::DEFAULT);
    }
    let digits = top.strip_prefix(SET_PREFIX.trim_start_matches('/'))?;
    let id: PsetId = digits.parse().ok()?;
    (!id.is_default()).then_some(id)
}

/// The name of the leaf for an origin. The end of a name that is too long is replaced by a hash; the label `origin` of the leaf
/// then has the whole origin.
#[must_use]
pub fn leaf(origin: &str) -> (String, bool) {
    leaf_with(LEAF_PREFIX, origin)
}

/// The name of the leaf for processes that we start in the default set.
#[must_use]
pub fn started_leaf(origin: &str) -> (String, bool) {
    leaf_with(STARTED_PREFIX, origin)
}

/// Whether the tasks of a cgroup must stay in the default set: those that we started there, and those of pools with it.
#[must_use]
pub fn is_confined(path: &str) -> bool {
    is_started(path) || (path.starts_with(DEFAULT_GROUP) && pool(path).is_some())
}

/// Whether a cgroup is for processes that we started in the default set.
#[must_use]
pub fn is_started(path: &str) -> bool {
    let scope = is_scope(path) && path.starts_with(DEFAULT_SLICE);
    scope
        || path
            .strip_prefix(DEFAULT_GROUP)
            .is_some_and(|leaf| leaf.starts_with(&format!("/{STARTED_PREFIX}")))
}

fn leaf_with(prefix: &str, origin: &str) -> (String, bool) {
    let mut name = prefix.to_owned();
    for c in origin.chars() {
        match c {
            '/' => name.push('+'),
            '+' => name.push_str("%2B"),
            '%' => name.push_str("%25"),
            c => name.push(c),
        }
    }
    if name.len() <= LEAF_MAX {
        return (name, true);
    }
    (format!("{prefix}~{:016x}", hash(origin)), false)
}

/// The origin in the name of a leaf, if it has one.
#[must_use]
pub fn origin(leaf: &str) -> Option<String> {
    let of_pool =
        || leaf.strip_prefix(POOL_PREFIX).map(|l| l.trim_start_matches(|c: char| c.is_ascii_digit()));
    let rest =
        leaf.strip_prefix(LEAF_PREFIX).or_else(|| leaf.strip_prefix(STARTED_PREFIX)).or_else(of_pool)?;
    if !rest.starts_with('+') {
        return None;
    }
    Some(rest.replace('+', "/").replace("%2B", "+").replace("%25", "%"))
}

/// FNV-1a. It is stable across all versions, which the standard hasher does not guarantee.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fuzz_paths_of_cgroups() {
        let seeds = [
            "/mpset3/from+a%2Bb+c",
            "/mpdefault/own+",
            "/mpset3.slice/mpset3-7-1.scope",
            "/system.slice/_a.service",
            "from~0123456789abcdef",
        ];
        millpond_fuzz::check_text("linux-cgroup-paths", &seeds, |path| {
            let (leaf, whole) = leaf(path);
            assert!(leaf.len() <= LEAF_MAX && !leaf.contains('/'));
            if whole && path.starts_with('/') {
                assert_eq!(origin(&leaf).as_deref(), Some(path));
            }
            if let Some(origin) = origin(path) {
                assert!(origin.starts_with('/'));
            }
            assert!(!is_scope(path) || owner(path).is_some());
            assert!(unit(path).is_none_or(|unit| path.ends_with(&unit)));
        });
    }

    proptest! {
        #[test]
        fn a_leaf_names_its_origin(origin_path in "(/[a-zA-Z0-9+%.:@_-]{1,20}){1,6}") {
            let started = format!("{}/{}", DEFAULT_GROUP, started_leaf(&origin_path).0);
            prop_assert!(is_started(&started));
            let (name, whole) = leaf(&origin_path);
            let moved = format!("{}/{}", DEFAULT_GROUP, name);
            prop_assert!(!is_started(&moved));
            prop_assert!(!name.contains('/') && name.len() < 256);
            if whole {
                prop_assert_eq!(origin(&name), Some(origin_path));
            } else {
                prop_assert_eq!(origin(&name), None);
            }
        }
    }

    #[test]
    fn paths_are_told_apart() {
        assert_eq!(owner("/mpset3/from+"), Some(PsetId(3)));
        assert_eq!(owner("/mpdefault"), Some(PsetId::DEFAULT));
        for foreign in ["/", "/mpset", "/mpset0", "/mpsetx", "/docker/mpset1", "/mpset1.slice2"] {
            assert_eq!(owner(foreign), None, "{foreign}");
        }
        assert_eq!(owner("/mpset3.slice/mpset3-7-1.scope"), Some(PsetId(3)));
        assert_eq!(owner("/mpdefault.slice"), Some(PsetId::DEFAULT));
        assert_eq!(scope(&set_slice(PsetId(3)), None, 7, 1), "/mpset3.slice/mpset3-7-1.scope");
        let pooled = "/mpset3.slice/mpset3-pool12-7-1.scope";
        assert_eq!(scope(&set_slice(PsetId(3)), Some(PoolId(12)), 7, 1), pooled);
        assert_eq!(pool(pooled), Some(PoolId(12)));
        assert_eq!(pool("/mpset3/pool12+a+b"), Some(PoolId(12)));
        assert_eq!(pool("/mpdefault/pool4~0123456789abcdef"), Some(PoolId(4)));
        assert_eq!(origin("pool12+a+b"), Some("/a/b".into()));
        for none in ["/mpset3/from+pool1+a", "/mpset3/pool+", "/mpset3/poolx+", "/docker/pool1+", "/mpset3"] {
            assert_eq!(pool(none), None, "{none}");
        }
        assert!(is_scope("/mpset3.slice/mpset3-7-1.scope") && !is_scope("/mpset3.slice"));
        assert!(!is_scope("/mpset3.slice/docker-12.scope") && !is_scope("/mpset3.slice/a.service"));
        assert!(!is_scope("/mpset3/a.scope") && !is_scope("/user.slice/a.scope"));
        assert!(is_started("/mpdefault.slice/mpdefault-7-1.scope"));
        assert_eq!(unit("/system.slice/a.service").as_deref(), Some("a.service"));
        assert_eq!(unit("/init.scope").as_deref(), Some("init.scope"));
        for none in ["/", "/docker", "/user.slice/user@0.service/app.slice", "/mpset1/from+a.service"] {
            assert_eq!(unit(none), None, "{none}");
        }
        assert_eq!(leaf("/").0, "from+");
        assert_eq!(origin("from+"), Some("/".into()));
    }
}
