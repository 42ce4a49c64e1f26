//! Whom one looks into: a process or a core, and each copy of the library in it.

use super::show::Dress;
use super::{Question, address, checks, leaks, stat};
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet};
use millpond_cli::Parsed;
use millpond_machine::Absent;
use millpond_machine::facets::Image;
use millpond_model::Pid;
use millpond_session::open_core;
use millpond_umem::{FindError, Heap, Memory};
use serde_json::Value;
use std::path::Path;

/// What helps where there are no caches.
const NO_CACHES: &str = "start it with LD_PRELOAD=libmillpond_malloc.so (programs that are linked statically take none), or link it with libmillpond_rt";

/// `process 4211`, or `core FILE`.
fn called(target: &str) -> String {
    if target.parse::<u32>().is_ok() { format!("process {target}") } else { format!("core {target}") }
}

/// Opens it.
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
    let image = open_core(Path::new(target));
    Ok(image.map_err(|Absent { why, what_would_help }| Complaint {
        what,
        reason: why,
        hint: what_would_help,
    })?)
}

/// Why there is nothing to look at.
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

/// Answers a question about each copy of the library.
pub(super) fn look(
    image: &dyn Image,
    target: &str,
    question: &Question,
    dress: Dress,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let memory = Memory::of(image);
    let heaps = Heap::find(&memory).map_err(|error| not_found(target, &error))?;
    let roots: Vec<u64> = heaps.iter().map(|heap| heap.root.at).collect();
    let mut documents = Vec::new();
    let mut exit = Exit::DONE;
    for mut heap in heaps {
        if roots.len() > 1 && dress == Dress::Text {
            ctx.out.line(format_args!("the copy of the library at {:x}:", heap.root.at));
        }
        let root = heap.root.at;
        if matches!(question, Question::Whatis(_) | Question::Bufctl(_)) {
            heap.survey();
        }
        let asked = Asked { image, memory: &memory, heap: &heap, root, dress };
        let failed = |error: FindError| not_found(target, &error);
        let answered = match question {
            Question::Stat { used } => stat::answer(&asked, *used, ctx),
            Question::Status => checks::status(&asked, ctx),
            Question::Findleaks { blocks, effort } => {
                leaks::answer(&asked, *blocks, *effort, ctx).map_err(failed)?
            }
            Question::Verify => checks::verify(&asked, ctx).map_err(failed)?,
            Question::Whatis(addresses) => address::whatis(&asked, addresses, ctx),
            Question::Bufctl(address) => address::bufctl(&asked, *address, ctx),
            Question::Log { which, most } => address::log(&asked, *which, *most, ctx)?,
        };
        documents.push(answered.document);
        exit = exit.and(answered.exit);
        // Those of a heap that was read again were told with what was found there.
        if !matches!(question, Question::Findleaks { .. } | Question::Verify) {
            heap.problems.iter().for_each(|problem| ctx.warn(problem));
        }
    }
    if dress == Dress::Json {
        ctx.json(&documents);
    }
    Ok(exit)
}

/// What every answer is made from.
pub(super) struct Asked<'a> {
    pub(super) image: &'a dyn Image,
    pub(super) memory: &'a Memory<'a>,
    pub(super) heap: &'a Heap<'a>,
    pub(super) root: u64,
    pub(super) dress: Dress,
}

/// What came of a question.
pub(super) struct Answer {
    pub(super) document: Value,
    pub(super) exit: Exit,
}

impl Answer {
    pub(super) fn of(document: Value, is_well: bool) -> Answer {
        Answer { document, exit: if is_well { Exit::DONE } else { Exit::REFUSED } }
    }
}
