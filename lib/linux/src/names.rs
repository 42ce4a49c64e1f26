//! How our cgroups are called, and how a leaf remembers where its tasks came from.
//!
//! ```text
//!   /mpset1              a set (its label `set` holds what is wanted of it)
//!   /mpset1/from+        tasks that came from the root cgroup
//!   /mpset1/from+a+b     tasks that came from /a/b
//!   /mpdefault/from+     tasks in the default set that may not stay in the root cgroup (version 1)
//!   /mpdefault/own+      tasks that we started in the default set
//! ```
//!
//! Forks stay in the leaf of their parent, so where a task came from is kernel state and needs no record.

use millpond_model::PsetId;

/// The cgroup of what we start, or had to move, in the default set.
pub const DEFAULT_GROUP: &str = "/mpdefault";
const SET_PREFIX: &str = "/mpset";
const LEAF_PREFIX: &str = "from";
const STARTED_PREFIX: &str = "own";
/// cgroup names end at 255 bytes.
const LEAF_MAX: usize = 240;

/// The cgroup of a set.
#[must_use]
pub fn set_group(id: PsetId) -> String {
    format!("{SET_PREFIX}{id}")
}

/// Whose cgroup a path is: a set's (also below it), the default one's, or nobody's of ours.
#[must_use]
pub fn owner(path: &str) -> Option<PsetId> {
    let top = path.trim_start_matches('/').split('/').next()?;
    if format!("/{top}") == DEFAULT_GROUP {
        return Some(PsetId::DEFAULT);
    }
    let digits = top.strip_prefix(SET_PREFIX.trim_start_matches('/'))?;
    let id: PsetId = digits.parse().ok()?;
    (!id.is_default()).then_some(id)
}

/// The leaf name for an origin. Names that would be too long keep their tail in a hash; the whole origin is
/// then kept in the leaf's label `origin`.
#[must_use]
pub fn leaf(origin: &str) -> (String, bool) {
    leaf_with(LEAF_PREFIX, origin)
}

/// The leaf name for what we start in the default set.
#[must_use]
pub fn started_leaf(origin: &str) -> (String, bool) {
    leaf_with(STARTED_PREFIX, origin)
}

/// Whether a cgroup holds what we started in the default set.
#[must_use]
pub fn is_started(path: &str) -> bool {
    path.strip_prefix(DEFAULT_GROUP).is_some_and(|leaf| leaf.starts_with(&format!("/{STARTED_PREFIX}")))
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

/// The origin of a leaf name, where the name says it.
#[must_use]
pub fn origin(leaf: &str) -> Option<String> {
    let rest = leaf.strip_prefix(LEAF_PREFIX).or_else(|| leaf.strip_prefix(STARTED_PREFIX))?;
    if !rest.starts_with('+') {
        return None;
    }
    Some(rest.replace('+', "/").replace("%2B", "+").replace("%25", "%"))
}

/// FNV-1a: stable across versions of everything, which a standard hasher does not promise.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        assert_eq!(leaf("/").0, "from+");
        assert_eq!(origin("from+"), Some("/".into()));
    }
}
