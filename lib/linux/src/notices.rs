//! Pool notices: a file per pool in the state directory with the pool's CPUs, for processes that watch it.
//!
//! The notices follow from the recorded configuration and the on-line CPUs. The current writer compares and writes them, so they
//! can never stay out of date for good. Files are replaced atomically, so no process reads half of one, and only if they differ,
//! so that no process is woken without a reason.

use crate::files::{Replacing, replace_file};
use crate::messages::reason;
use crate::records::recorded_pools;
use crate::{Os, Root, is_gone};
use millpond_model::pools::{PoolNode, PoolNotice, PoolSize, PoolsState, PsetNode, notice_file};
use millpond_model::{CpuSet, PsetId};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Their directory below the state directory.
const DIR: &str = "pools";

/// Updates the notices. Returns the failures as messages.
pub(crate) fn publish(os: &Os) -> Vec<String> {
    let dir = os.root.state.join(DIR);
    let state = match recorded_pools(os) {
        Ok(state) => state,
        Err(refusal) => {
            return vec![format!("members of pools are not told of their size: {}", refusal.reason)];
        }
    };
    // Without pools there are usually no notices to remove. A writer may have been killed before its last step.
    if state.is_none()
        && !fs::remove_dir(&dir).is_err_and(|error| error.kind() == io::ErrorKind::DirectoryNotEmpty)
    {
        return Vec::new();
    }
    let Ok(is) = os.root.names(&dir) else { return Vec::new() };
    let online = match os.online() {
        Ok(online) => online,
        Err(error) => return vec![error.note("members of pools are not told of their size")],
    };
    let wanted = state.as_ref().map(|state| notices(state, &online)).unwrap_or_default();
    let mut untold: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, notice) in &wanted {
        if let Err(error) = tell(&os.root, &dir, name, notice) {
            untold.entry(reason(&error)).or_default().push(name);
        }
    }
    let files: Vec<String> = wanted.keys().map(|name| notice_file(name)).collect();
    for gone in is.iter().filter(|file| !files.contains(file)) {
        match fs::remove_file(dir.join(gone)) {
            Err(error) if !is_gone(&error) => untold.entry(reason(&error)).or_default().push(gone),
            _ => {}
        }
    }
    if wanted.is_empty() {
        let _ = fs::remove_dir(&dir);
    }
    let note = |(why, pools): (String, Vec<&str>)| {
        let (noun, its) = if pools.len() == 1 { ("pool", "its") } else { ("pools", "their") };
        format!("members of {noun} {} are not told of {its} size: {why}", pools.join(", "))
    };
    untold.into_iter().map(note).collect()
}

/// The last notices that were found published: modification time of their directory (seconds, nanoseconds), and their contents.
#[derive(Debug, Default)]
pub(crate) struct PublishedNotices(Option<((i64, i64), BTreeMap<String, PoolNotice>)>);

/// Whether [`publish`] would change nothing for this configuration. Skips the files if their directory has not changed.
pub(crate) fn is_published(
    os: &Os,
    state: Option<&PoolsState>,
    online: &CpuSet,
    told: &mut PublishedNotices,
) -> bool {
    let dir = os.root.state.join(DIR);
    let Some(state) = state else { return !dir.exists() };
    let Ok(changed) = fs::metadata(&dir) else { return false };
    let seen = ((changed.mtime(), changed.mtime_nsec()), notices(state, online));
    if told.0.as_ref() == Some(&seen) {
        return true;
    }
    let Ok(is) = os.root.names(&dir) else { return false };
    let says = is.len() == seen.1.len()
        && seen.1.iter().all(|(name, to)| untold(&os.root, &dir, name, to).is_none());
    told.0 = says.then_some(seen);
    says
}

/// The notice of each pool, by name. The serial is that of a new pool.
fn notices(state: &PoolsState, online: &CpuSet) -> BTreeMap<String, PoolNotice> {
    let sets = state.conf.psets.iter().filter(|set| !set.is_default);
    let assigned = sets.fold(CpuSet::new(), |all, set| &all | &set.cpu_set());
    let cpus_of = |pool: &PoolNode| {
        let set = state.conf.pset_of(pool).filter(|set| set.id != Some(PsetId::DEFAULT));
        // A new CPU belongs to the default set even before a commit.
        set.map_or_else(|| online - &assigned, |set: &PsetNode| &set.cpu_set() & online)
    };
    let notice = |pool: &PoolNode| {
        let id = pool.id?;
        let zones = state.zones.iter().filter(|(_, of)| **of == id).map(|(zone, _)| zone.clone()).collect();
        let size = PoolSize { cpus: cpus_of(pool), serial: 1 };
        Some((pool.name.clone(), PoolNotice { pool: id, size, zones }))
    };
    state.conf.pools.iter().filter_map(notice).collect()
}

/// The new notice of a pool; `None` if its file is up to date.
fn untold(root: &Root, dir: &Path, name: &str, to: &PoolNotice) -> Option<PoolNotice> {
    // A file that is not regular, or too long, is replaced.
    let was = root.read(&dir.join(notice_file(name))).ok().flatten();
    let was: Option<PoolNotice> = was.and_then(|text| text.parse().ok());
    let mut to = to.clone();
    if let Some(was) = was.filter(|was| was.pool == to.pool) {
        let differs = was.size.cpus != to.size.cpus;
        to.size.serial = was.size.serial.saturating_add(u64::from(differs));
        if to == was {
            return None;
        }
    }
    Some(to)
}

/// Writes the notice of a pool, unless it is unchanged.
fn tell(root: &Root, dir: &Path, name: &str, to: &PoolNotice) -> io::Result<()> {
    let file = dir.join(notice_file(name));
    let Some(to) = untold(root, dir, name, to) else { return Ok(()) };
    if !dir.is_dir() {
        fs::create_dir_all(dir)?;
        // Members can be processes of any user. The mode of the state directory restricts access where necessary.
        fs::set_permissions(dir, Permissions::from_mode(0o755))?;
    }
    replace_file(
        &file,
        to.to_string().as_bytes(),
        Replacing { mode: Some(0o644), is_of_boot: true, ..Replacing::default() },
    )
}
