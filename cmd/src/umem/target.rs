//! The target, a process or a core: opening it, and reading its heaps.

use crate::ctx::Ctx;
use crate::dress::Dress;
use crate::failure::{Complaint, Exit, Failure, facet, unless_absent};
use millpond_cli::Parsed;
use millpond_machine::facets::Image;
use millpond_model::Pid;
use millpond_session::open_core;
use millpond_umem::{FindError, Heap, Memory};
use std::path::Path;

/// The remedy for a program without object caches.
const NO_CACHES: &str = "start it with LD_PRELOAD=libmillpond_malloc.so (programs that are linked statically take none), or link it with libmillpond_rt";

/// The name of the target: `process 4211`, or `core FILE`.
fn called(target: &str) -> String {
    if target.parse::<u32>().is_ok() { format!("process {target}") } else { format!("core {target}") }
}

/// Opens a process or a core.
pub(super) fn open(target: &str, parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Box<dyn Image>, Failure> {
    let what = format!("look into {}", called(target));
    if let Ok(pid) = target.parse() {
        let session = ctx.reading(&parsed.common)?;
        let images = facet("memory images", session.machine().images())?;
        let image = images.image(Pid(pid));
        return Ok(image.map_err(|refusal| {
            let hint = refusal.hint.clone();
            Complaint { what, reason: refusal.reason.to_string(), hint }
        })?);
    }
    unless_absent(&what, open_core(Path::new(target)))
}

/// Why there is no heap to examine.
pub(super) fn not_found(target: &str, error: &FindError) -> Failure {
    let complaint = Complaint::new(format!("look into {}", called(target)), error.to_string());
    Failure::Refused(match error {
        FindError::NoCaches => complaint.hint(NO_CACHES),
        FindError::OtherLayout { .. } => {
            complaint.hint("use the millpond that was installed with its library")
        }
        FindError::Refused(refusal) => Complaint { hint: refusal.hint.clone(), ..complaint },
        FindError::Unreadable => complaint,
    })
}

/// The data for every report.
pub(super) struct Asked<'a> {
    pub(super) image: &'a dyn Image,
    pub(super) memory: &'a Memory<'a>,
    pub(super) heap: &'a Heap<'a>,
    pub(super) root: u64,
    pub(super) dress: Dress,
}

/// The result of a report.
pub(super) struct Answer<D> {
    pub(super) document: D,
    pub(super) exit: Exit,
}

impl<D> Answer<D> {
    pub(super) fn of(document: D, is_well: bool) -> Answer<D> {
        Answer { document, exit: if is_well { Exit::DONE } else { Exit::REFUSED } }
    }

    pub(super) fn map<E>(self, to: impl FnOnce(D) -> E) -> Answer<E> {
        Answer { document: to(self.document), exit: self.exit }
    }
}
