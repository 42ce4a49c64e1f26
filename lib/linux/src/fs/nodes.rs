//! What a kernel of version 1 checks of lists of memory nodes, for a root that is only files.

use super::captured::{child_dirs, refused};
use crate::Root;
use crate::os::BUSY;
use millpond_machine::KnobError;
use millpond_model::NodeSet;
use std::path::Path;

/// The nodes of a cgroup are among those of the one above, and have those of the ones below.
pub(super) fn check(root: &Root, path: &Path, text: &str) -> Result<(), KnobError> {
    let wanted: NodeSet = text.parse().map_err(|_| refused("the kernel says that it is not valid"))?;
    let dir = path.parent().unwrap_or(path);
    let read = |dir: &Path| {
        let text = root.text(dir.join("cpuset.mems")).ok()?;
        text.trim_end().parse::<NodeSet>().ok()
    };
    if dir.parent().and_then(read).is_some_and(|above| !wanted.is_subset(&above)) {
        return Err(KnobError::NotPermitted);
    }
    if child_dirs(dir).iter().filter_map(|child| read(child)).any(|below| !below.is_subset(&wanted)) {
        return Err(refused(BUSY));
    }
    Ok(())
}
