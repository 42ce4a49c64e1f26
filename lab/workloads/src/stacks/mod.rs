//! Thread stacks: how many of their pages are in memory, before and after touching them.
//!
//! Three kinds: the *main* stack, which the kernel created for the program and which grows; the *default* one that the C
//! library allocates for a thread; and the program's *own*, mapped and written to before its thread begins. Each is touched
//! at its lowest byte, and the default one then at every page. `mincore` counts the pages, called by the thread that runs on
//! the stack.
//!
//! On Linux a main stack exists as far as it has been used. A touch further down makes it grow to there, as far as its limit
//! allows and as long as nothing is mapped within the gap below it (`stack_guard_gap`, 1 MB). A touch beyond that kills the
//! thread. So the kernel is made to read that byte first: this grows the stack as well, and fails without harm.

mod look;
mod thread;

pub use look::Count;

use crate::Error;
use look::Bounds;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::ptr::{self, NonNull};
use thread::on_thread;

/// Pages of the stack that is mapped for a thread (as in experiment E7).
const OWN_PAGES: usize = 17;

/// Temporary limit in bytes for a main stack with an unlimited size.
const LIMIT: u64 = 8 << 20;

/// Maximum number of readings of a stack.
const LOOKS: usize = 3;

/// A larger default stack, in bytes, is not touched as a whole.
const WHOLE_MAX: usize = 256 << 20;

/// The kind of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The program's main stack.
    Main,
    /// A thread stack that the C library allocated.
    Default,
    /// A stack that the program mapped and wrote to before.
    Own,
}

impl Kind {
    /// Its name: `main`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Main => "main",
            Kind::Default => "default",
            Kind::Own => "own",
        }
    }
}

/// The part touched before a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Touched {
    /// Only what the thread itself needs.
    Nothing,
    /// The lowest byte.
    LowestByte,
    /// Every page.
    EveryPage,
}

impl Touched {
    /// Its name: `lowest byte`.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Touched::Nothing => "nothing",
            Touched::LowestByte => "lowest byte",
            Touched::EveryPage => "every page",
        }
    }
}

/// A reading of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Look {
    /// The part touched before.
    pub touched: Touched,
    /// Its pages.
    #[serde(flatten)]
    pub count: Count,
}

/// The readings of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Stack {
    /// Its kind.
    pub kind: Kind,
    /// The readings, in order.
    pub looks: Vec<Look>,
    /// What could not be measured, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StacksResult {
    /// The kernel's version.
    pub kernel: String,
    /// The page size in bytes.
    pub page_bytes: usize,
    /// The three kinds of stacks.
    pub stacks: Vec<Stack>,
}

/// Examines stacks of all kinds. The main stack is only included when the main thread calls; it keeps its grown size.
///
/// # Errors
/// [`Error`] when a thread cannot be started, or memory cannot be mapped or examined.
pub fn run() -> Result<StacksResult, Error> {
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    let stacks = vec![main()?, default()?, own()?];
    Ok(StacksResult { kernel, page_bytes: rustix::param::page_size(), stacks })
}

impl StacksResult {
    /// A line for each reading.
    #[must_use]
    pub fn report(&self) -> String {
        let line = |kind: &str, touched: &str, resident: &str, pages: &str| {
            format!("{kind:<8} {touched:<12} {resident:>9} {pages:>7}\n")
        };
        let mut text = line("stack", "touched", "in memory", "pages");
        for stack in &self.stacks {
            for Look { touched, count: Count { resident, pages } } in &stack.looks {
                text += &line(stack.kind.word(), touched.words(), &resident.to_string(), &pages.to_string());
            }
            if let Some(why) = &stack.left_out {
                text += &format!("{}: {why}\n", stack.kind.word());
            }
        }
        text + &format!("kernel {}, pages of {} KB\n", self.kernel, self.page_bytes >> 10)
    }
}

fn main() -> Result<Stack, Error> {
    let mut stack = Stack { kind: Kind::Main, looks: Vec::with_capacity(LOOKS), left_out: None };
    if rustix::thread::gettid() != rustix::process::getpid() {
        stack.left_out = Some("it is not the main thread that looks".into());
        return Ok(stack);
    }
    let limit = getrlimit(Resource::Stack);
    let lowered = limit.current.is_none();
    if lowered {
        set_limit(Rlimit { current: Some(LIMIT), ..limit })?;
    }
    let looked = main_as_it_is(&mut stack);
    if lowered {
        set_limit(limit)?;
    }
    looked.map(|()| stack)
}

fn set_limit(limit: Rlimit) -> Result<(), Error> {
    setrlimit(Resource::Stack, limit).map_err(|error| Error::LookAtStack { source: error.into() })
}

fn main_as_it_is(stack: &mut Stack) -> Result<(), Error> {
    let bounds = Bounds::of_this_thread()?;
    let room = &mut bounds.room();
    // A first call, so that the calls below fault in no page of their own.
    look::kernel_can_read(room.as_ptr().addr())?;
    stack.looks.push(Look { touched: Touched::Nothing, count: bounds.existing().count(room)? });
    if look::kernel_can_read(bounds.base)? {
        touch(bounds.base);
        stack.looks.push(Look { touched: Touched::LowestByte, count: bounds.existing().count(room)? });
    } else {
        stack.left_out = Some(format!(
            "it cannot grow to its limit of {} KB: something is mapped there, or address space is limited",
            bounds.bytes >> 10
        ));
    }
    Ok(())
}

fn default() -> Result<Stack, Error> {
    on_thread(None, || {
        let bounds = Bounds::of_this_thread()?;
        let mut stack = Stack { kind: Kind::Default, looks: Vec::with_capacity(LOOKS), left_out: None };
        let room = &mut bounds.room();
        stack.looks.push(Look { touched: Touched::Nothing, count: bounds.count(room)? });
        touch(bounds.base);
        stack.looks.push(Look { touched: Touched::LowestByte, count: bounds.count(room)? });
        if bounds.bytes > WHOLE_MAX {
            stack.left_out =
                Some(format!("of its {} MB not every page was touched (ulimit -s)", bounds.bytes >> 20));
            return Ok(stack);
        }
        bounds.pages().for_each(touch_or_read);
        stack.looks.push(Look { touched: Touched::EveryPage, count: bounds.count(room)? });
        Ok(stack)
    })?
}

fn own() -> Result<Stack, Error> {
    let bytes = OWN_PAGES * rustix::param::page_size();
    let memory = thread::Memory::new(bytes)?;
    // SAFETY: it is mapped only for this thread, and is unmapped after the reading.
    let count = unsafe { on_stack(memory.begin(), bytes) }?;
    let looks = vec![Look { touched: Touched::Nothing, count }];
    Ok(Stack { kind: Kind::Own, looks, left_out: None })
}

/// How much of a stack is in memory when a thread begins on it.
///
/// # Errors
/// [`Error`] when the thread cannot be started, or the memory cannot be examined.
///
/// # Safety
/// `stack` points to `bytes` of writable memory that no other thread uses until this returns.
pub unsafe fn on_stack(stack: NonNull<u8>, bytes: usize) -> Result<Count, Error> {
    on_thread(Some((stack, bytes)), || {
        let bounds = Bounds::of_this_thread()?;
        bounds.count(&mut bounds.room())
    })?
}

/// Writes to an unused address of the caller's stack.
fn touch(address: usize) {
    // SAFETY: callers pass an address below all memory in use, and above the end of the stack.
    unsafe { ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(1) };
}

/// The same for any address of the caller's stack: memory that may be in use is only read.
fn touch_or_read(address: usize) {
    let here = 0u8;
    if address < (&raw const here).addr() - rustix::param::page_size() {
        touch(address);
    } else {
        // SAFETY: it is on the caller's stack.
        unsafe { ptr::with_exposed_provenance::<u8>(address).read_volatile() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(stack: &Stack) -> Vec<(Touched, usize, usize)> {
        stack.looks.iter().map(|look| (look.touched, look.count.resident, look.count.pages)).collect()
    }

    #[test]
    fn a_default_stack_comes_page_by_page() {
        let stack = default().unwrap();
        let found = looks(&stack);
        let (first, pages) = (found[0].1, found[0].2);
        assert!(0 < first && first < pages / 2, "{stack:?}");
        assert_eq!(
            found,
            [
                (Touched::Nothing, first, pages),
                (Touched::LowestByte, first + 1, pages),
                (Touched::EveryPage, pages, pages)
            ]
        );
    }

    #[test]
    fn a_stack_that_was_written_to_is_there_from_the_start() {
        assert_eq!(looks(&own().unwrap()), [(Touched::Nothing, 17, 17)]);
    }

    #[test]
    fn who_is_not_the_main_thread_does_not_look_at_the_main_stack() {
        let stack = main().unwrap();
        assert_eq!(
            (stack.looks.len(), stack.left_out.unwrap().as_str()),
            (0, "it is not the main thread that looks")
        );
    }

    #[test]
    fn a_report_has_a_line_for_each_look() {
        let look = |touched, resident, pages| Look { touched, count: Count { resident, pages } };
        let main = Stack {
            kind: Kind::Main,
            looks: vec![look(Touched::Nothing, 3, 33), look(Touched::LowestByte, 4, 2048)],
            left_out: None,
        };
        let default = Stack { kind: Kind::Default, looks: Vec::new(), left_out: Some("why".into()) };
        let result = StacksResult { kernel: "6.1".into(), page_bytes: 4096, stacks: vec![main, default] };
        let expected = "\
stack    touched      in memory   pages
main     nothing              3      33
main     lowest byte          4    2048
default: why
kernel 6.1, pages of 4 KB
";
        assert_eq!(result.report(), expected);
    }
}
