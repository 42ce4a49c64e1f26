//! Persistent fences, which are restored at boot.

use super::{COMMAND_OF_UNIT, Done, fences, names};
use crate::change::Changer;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, read};
use millpond_cli::Parsed;
use millpond_machine::facets::FenceWish;
use millpond_model::{CpuSet, FenceName, Shelter};
use millpond_session::{KeptText, Kind, Session, is_fence_kept, keep_fence, kept_fences};
use serde::{Deserialize, Serialize};

/// A stored fence.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    cpus: String,
    profile: String,
    shelter: Shelter,
}

/// Refuses other machines than the live one: only it boots with the stored fences.
fn check_real(session: &Session) -> Result<(), Failure> {
    if session.kind() == Kind::Real {
        return Ok(());
    }
    let why = format!("machine {} has no boot at which they could come back", session.machine().name());
    Err(Complaint::new("keep fences", why).into())
}

/// Whether a fence is restored at boot.
pub(super) fn is_kept(name: &FenceName, session: &Session) -> bool {
    session.kind() == Kind::Real && is_fence_kept(name.as_str())
}

/// Parses a stored fence; the error is the reason.
fn understood(name: &str, text: KeptText) -> Result<FenceWish, String> {
    let text = text?;
    let kept: Kept = serde_json::from_str(&text)
        .map_err(|error| format!("line {}, column {}: {error}", error.line(), error.column()))?;
    let cpus: CpuSet = kept.cpus.parse().map_err(|_| format!("`{}` is no list of CPUs", kept.cpus))?;
    let name = name.parse().map_err(|error| format!("{error}"))?;
    Ok(FenceWish { name, profile: kept.profile, shelter: kept.shelter, cpus: cpus.iter().collect() })
}

/// All stored fences, in order of their names.
pub(super) fn wishes() -> Vec<(String, Result<FenceWish, String>)> {
    let wish = |(name, text): (String, _)| {
        let wish = understood(&name, text);
        (name, wish)
    };
    kept_fences().into_iter().map(wish).collect()
}

/// `--persist`.
pub(super) fn persist(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let names = names(parsed, "persist")?;
    let session = ctx.reading(&parsed.common)?;
    check_real(&session)?;
    let standing = read("fences", fences(session.machine())?.list())?;
    let mut changer = Changer::of_files(&parsed.common);
    for name in names {
        let kept = standing.iter().find(|fence| fence.fencing.name == name).map_or_else(
            || {
                Err(Complaint::new(format!("keep fence {name}"), "it does not stand")
                    .hint("millpond fence lists those that stand"))
            },
            |fence| {
                keep(
                    &name,
                    &fence.cpus,
                    &fence.fencing.profile,
                    &fence.fencing.shelter,
                    parsed.common.dry_run,
                )
                .map(|()| fence.cpus.clone())
                .map_err(|why| Complaint::new(format!("keep fence {name}"), why))
            },
        );
        match kept {
            Ok(cpus) => {
                let line = format!("fence {name}: comes back at boot, {}", cpus.named());
                changer.report(ctx, Some(line), Done::Kept { kept: name, cpus: cpus.iter().collect() });
            }
            Err(complaint) => changer.refuse(ctx, complaint),
        }
    }
    changer.note(ctx, "systemd puts fences up at boot if it is told so".to_owned(), Some(COMMAND_OF_UNIT));
    Ok(changer.finish(ctx))
}

fn keep(
    name: &FenceName,
    cpus: &CpuSet,
    profile: &str,
    shelter: &Shelter,
    only_shows: bool,
) -> Result<(), String> {
    for (other, wish) in wishes() {
        let Ok(wish) = wish else { continue };
        let shared: CpuSet = wish.cpus.iter().copied().filter(|cpu| cpus.contains(*cpu)).collect();
        if other != name.as_str() && !shared.is_empty() {
            return Err(format!("fence {other} comes back with {}, too", shared.named()));
        }
    }
    let kept = Kept { cpus: cpus.to_string(), profile: profile.to_owned(), shelter: shelter.clone() };
    let text = serde_json::to_string_pretty(&kept).map_err(|error| error.to_string())?;
    if only_shows { Ok(()) } else { keep_fence(name.as_str(), Some(&text)).map(drop) }
}

/// `--forget`.
pub(super) fn forget(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let names = names(parsed, "forget")?;
    let session = ctx.reading(&parsed.common)?;
    check_real(&session)?;
    let mut changer = Changer::of_files(&parsed.common);
    for name in names {
        let was_there = if parsed.common.dry_run {
            Ok(is_kept(&name, &session))
        } else {
            keep_fence(name.as_str(), None)
        };
        match was_there {
            Ok(true) => {
                let line = format!("fence {name}: does not come back at boot");
                changer.report(ctx, Some(line), Done::Forgotten { forgotten: name });
            }
            Ok(false) => changer
                .refuse(ctx, Complaint::new(format!("forget fence {name}"), "it does not come back at boot")),
            Err(why) => changer.refuse(ctx, Complaint::new(format!("forget fence {name}"), why)),
        }
    }
    Ok(changer.finish(ctx))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_fence_is_understood_or_its_place_is_told() {
        let text = "{\"cpus\": \"2-3\", \"profile\": \"own\",\n \"shelter\": {\"others\": \"in\", \"watchdog\": true}}";
        let wish = understood("a", Ok(text.to_owned())).unwrap();
        assert_eq!((wish.name.as_str(), wish.profile.as_str(), wish.cpus.len()), ("a", "own", 2));
        assert!(wish.shelter.watchdog && !wish.shelter.interrupts);
        let why = understood("a", Ok(text.replace("watchdog", "guard"))).unwrap_err();
        assert!(why.starts_with("line 2, column "), "{why}");
        assert_eq!(understood("a", Ok(text.replace("2-3", "x"))).unwrap_err(), "`x` is no list of CPUs");
        assert!(understood("2", Ok(text.to_owned())).is_err());
        assert_eq!(understood("a", Err("gone".to_owned())).unwrap_err(), "gone");
    }
}
