//! `psrset --mems`: the lgroups that provide the memory of a set's processes.

use super::sets::Done;
use crate::change::Changer;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use crate::lgroups;
use millpond_cli::Parsed;
use millpond_formats::psrset as listing;
use millpond_machine::{Machine, Subject};
use millpond_model::{GroupId, LgroupTree, PsetId, SetMemory};

/// Parses the operand.
fn wanted(word: &str, tree: impl FnOnce() -> Result<LgroupTree, Failure>) -> Result<SetMemory, Failure> {
    match word {
        "all" => Ok(SetMemory::All),
        "local" => Ok(SetMemory::Local),
        list => {
            let operands = lgroups::operands(list)?;
            Ok(SetMemory::Nodes(lgroups::nodes(&operands, &tree()?, "take memory from")?))
        }
    }
}

/// Restricts the memory of sets to lgroups, or removes the restriction. Each set is an operation of its own.
pub(super) fn confine(sets: &[PsetId], parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let word = parsed.long_value("mems").unwrap_or_default();
    // A word that is invalid on every machine is reported before a machine is opened.
    if !matches!(word.as_str(), "all" | "local") {
        lgroups::operands(&word)?;
    }
    let session = ctx.changing(&parsed.common)?;
    let facet = lgroups::lgroups(session.machine())?;
    let tree = lgroups::tree(facet)?;
    let to = wanted(&word, || Ok(tree.clone()))?;
    let mut changer = Changer::open(session.machine(), &parsed.common, ctx)?;
    for &set in sets {
        let main = format!("confine the memory of processor set {set}");
        let names = |subject: &Subject| (*subject == Subject::Pset(set)).then(|| main.clone());
        let prepared = facet.prepare_set_memory(set, to.clone());
        if let Some(before) = changer.attempt(ctx, &main, names, prepared) {
            let (from, to) = (lgroups::memory_word(&before, &tree), lgroups::memory_word(&to, &tree));
            let line = listing::memory_moved(set, &from, &to);
            changer.report(ctx, Some(line), Done::Memory { set, from, memory: to });
        }
    }
    Ok(changer.finish(ctx))
}

/// The requested memory policy of a set, and the lgroups that it currently means. `None` if the memory is not
/// restricted, or the machine has no lgroups.
pub(super) fn shown(machine: &dyn Machine, set: PsetId) -> Option<(String, Vec<GroupId>)> {
    let facet = machine.lgroups().ok()?;
    let (wanted, nodes) = facet.set_memory(set).ok()?;
    if wanted.is_all() {
        return None;
    }
    let tree = facet.tree().ok()?;
    let leaves = nodes.iter().filter_map(|node| tree.leaf_of(*node)).collect();
    Some((lgroups::memory_word(&wanted, &tree), leaves))
}
