//! `--prove`: measures a fence, and stores the result with it.

use super::{fences, name, named};
use crate::change::Changer;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, read};
use crate::quiet::{self, Options};
use millpond_cli::Parsed;
use millpond_formats::print_time;
use millpond_machine::{Reason, Refusal};
use millpond_model::{Proof, ProofOutcome};
use millpond_session::Session;

/// The default limit.
const USUAL: &str = "50us";

pub(super) fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let name = name(&parsed.long_value("prove").unwrap_or_default())?;
    if parsed.common.dry_run {
        return Err(Failure::Usage("--dry-run measures nothing".to_owned()));
    }
    let session = ctx.changing(&parsed.common)?;
    let machine = session.machine();
    let fences = fences(machine)?;
    let standing = read("fences", fences.list())?;
    let Some(fence) = standing.iter().find(|fence| fence.fencing.name == name) else {
        let names = standing.into_iter().map(|fence| fence.fencing.name).collect();
        let refusal = Refusal::operation(Reason::NoSuchFence { name: name.clone(), names });
        return Err(Complaint::refused(&format!("prove fence {name}"), named, &refusal).into());
    };
    let options = Options::of_set(fence.set, USUAL, parsed)?;
    let measured = quiet::measure(&session, &options, parsed.common.json, false, ctx)?;
    let outcome = match measured.is_kept {
        Some(true) => ProofOutcome::Kept,
        Some(false) => ProofOutcome::Broken,
        None => ProofOutcome::Unknown,
    };
    let limit = options.limit.map(|limit| limit.text).unwrap_or_default();
    let proof = Proof { at: machine.clock().wall(), length: measured.length, limit, outcome };
    let mut changer = Changer::open(machine, &parsed.common, ctx)?;
    changer.attempt(
        ctx,
        &format!("remember what fence {name} was measured to be"),
        named,
        fences.prepare_proof(&name, &proof),
    );
    Ok(measured.exit)
}

/// A proof in a line of a table.
pub(super) fn told(proof: &Proof, session: &Session) -> String {
    let outcome = match proof.outcome {
        ProofOutcome::Kept => "kept",
        ProofOutcome::Broken => "broken",
        ProofOutcome::Unknown => "cannot be judged",
    };
    let seconds = proof.length.as_secs_f64();
    format!("{} {outcome} for {seconds:.1}s, {}", proof.limit, print_time(proof.at, session.zone()))
}
