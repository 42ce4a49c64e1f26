//! Mappings of the calling thread's stack, from the kernel's list: bounds and flags of each.

use crate::StackError;
use crate::bounds::{ABOVE_MAX, StackBounds, is_main, stack_getbounds};
use crate::realtime::mappings;
use std::fmt;
use std::io;

/// A memory mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackMapping {
    /// Its first address.
    pub address: usize,
    /// The first address after it.
    pub end: usize,
    /// A sum of [`StackMapping::READ`] and the other flags.
    pub flags: u32,
}

impl StackMapping {
    /// Readable.
    pub const READ: u32 = 1;
    /// Writable.
    pub const WRITE: u32 = 2;
    /// Executable.
    pub const EXECUTE: u32 = 4;
    /// Locked in memory.
    pub const LOCKED: u32 = 8;
    /// Grows down on an access below it: the main stack.
    pub const GROWS_DOWN: u32 = 16;
    /// A guard: each access faults.
    pub const GUARD: u32 = 32;

    /// Its size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.end - self.address
    }

    /// Whether it has a flag.
    #[must_use]
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag == flag
    }

    /// Parses the first line of a mapping in `smaps`: `7f0000000000-7f0000001000 rw-p …`.
    fn head(line: &str) -> Option<StackMapping> {
        let (addresses, rest) = line.split_once(' ')?;
        let (begin, end) = addresses.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let has = |letter, flag| if rest.get(..3).is_some_and(|may| may.contains(letter)) { flag } else { 0 };
        let may = has('r', Self::READ) | has('w', Self::WRITE) | has('x', Self::EXECUTE);
        let flags = if may == 0 { Self::GUARD } else { may };
        Some(StackMapping { address: number(begin)?, end: number(end)?, flags })
            .filter(|mapping| mapping.address < mapping.end)
    }
}

/// Address, end, size in bytes and flags: `0x7f0000000000 0x7f0000001000 4096 rw- locked`.
impl fmt::Display for StackMapping {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |flag, letter| if self.has(flag) { letter } else { '-' };
        write!(out, "{:#014x} {:#014x} {:>9} ", self.address, self.end, self.size())?;
        write!(out, "{}{}", letter(Self::READ, 'r'), letter(Self::WRITE, 'w'))?;
        write!(out, "{}", letter(Self::EXECUTE, 'x'))?;
        let words = [(Self::LOCKED, "locked"), (Self::GROWS_DOWN, "grows-down"), (Self::GUARD, "guard")];
        words.iter().filter(|(flag, _)| self.has(*flag)).try_for_each(|(_, word)| write!(out, " {word}"))
    }
}

/// All mappings in a text of the format of `smaps`, ascending.
pub(crate) fn parse(smaps: &str) -> impl Iterator<Item = StackMapping> {
    let mut mapping = None;
    smaps.lines().filter_map(move |line| {
        let Some(words) = line.strip_prefix("VmFlags:") else {
            mapping = StackMapping::head(line).or(mapping.take());
            return None;
        };
        let mut found = mapping.take()?;
        for word in words.split_whitespace() {
            found.flags |= match word {
                "lo" => StackMapping::LOCKED,
                "gd" => StackMapping::GROWS_DOWN,
                _ => 0,
            };
        }
        Some(found)
    })
}

/// The mappings of the calling thread's stack, ascending: those that intersect its bounds, and the guard below if it is a mapping of its own.
///
/// * Mappings are reported as the kernel has them. That of the main stack ends above the bounds, after the environment. A partly locked one is two.
/// * Of a main stack only the existing part is listed. Its guard gap is not a mapping.
/// * A mapping can extend beyond the stack where the kernel merged it with a neighbour of equal rights.
///
/// It reads `/proc/self/smaps`, for which the kernel walks all memory of the process: not for time-critical code.
///
/// # Errors
/// Those of [`stack_getbounds`]; [`StackError::System`] with `ENOENT`: `/proc` is not mounted.
pub fn stack_mappings() -> Result<Vec<StackMapping>, StackError> {
    let bounds = stack_getbounds()?;
    let text = mappings();
    if text.is_empty() {
        let source = io::Error::from_raw_os_error(libc::ENOENT);
        return Err(StackError::System { action: "list the mappings of the stack", source });
    }
    Ok(of(&text, bounds, is_main(bounds)))
}

fn of(smaps: &str, bounds: StackBounds, is_main: bool) -> Vec<StackMapping> {
    let (begin, end) = (bounds.base, bounds.base + bounds.size);
    // If the main stack is locked, the environment above it can be a mapping of its own.
    let reach = if is_main { end + ABOVE_MAX } else { end };
    let belongs = |mapping: &StackMapping| {
        let is_within = mapping.address < end && mapping.end > begin;
        let is_guard = mapping.has(StackMapping::GUARD) && mapping.end == begin;
        let is_above = mapping.has(StackMapping::GROWS_DOWN) && (end..reach).contains(&mapping.address);
        is_within || is_guard || is_above
    };
    parse(smaps).filter(belongs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
7f0000000000-7f0000001000 ---p 00000000 00:00 0 \n\
Size:                  4 kB\n\
VmFlags: mr mw me ac \n\
7f0000001000-7f0000011000 rw-p 00000000 00:00 0 \n\
Locked:               64 kB\n\
VmFlags: rd wr mr mw me lo ac \n\
7f0000011000-7f0000012000 r-xp 00000000 00:00 0                          /lib/x-1 y\n\
VmFlags: rd ex mr mw me \n\
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]\n\
VmFlags: rd wr mr mw me gd ac \n";

    fn at(base: usize, size: usize, is_main: bool) -> Vec<String> {
        of(SMAPS, StackBounds { base, size }, is_main).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_stack_is_listed_with_its_guard_its_size_and_its_flags() {
        let listed = [
            "0x7f0000000000 0x7f0000001000      4096 --- guard",
            "0x7f0000001000 0x7f0000011000     65536 rw- locked",
        ];
        assert_eq!(at(0x7f00_0000_1000, 0x10000, false), listed);
    }

    #[test]
    fn the_main_stack_is_listed_as_far_as_it_exists() {
        let listed = ["0x7ffd00000000 0x7ffd00021000    135168 rw- grows-down"];
        assert_eq!(at(0x7ffc_ff82_1000, 0x80_0000, true), listed);
    }

    #[test]
    fn what_is_no_mapping_is_passed_over() {
        assert_eq!(at(0x1000, 0x1000, false), [""; 0]);
        for text in [
            "",
            "VmFlags: rd",
            "2-1 rw-p\nVmFlags: rd\n",
            "x-y rw-p\nVmFlags: lo\n",
            "10-20 r\u{e9}\nVmFlags: gd",
        ] {
            assert_eq!(parse(text).filter(|m| m.size() == 0).count(), 0, "{text}");
        }
    }
}
