//! Unwind rules of one place, encoded in thirty bits.

/// The rules that find the caller at one place of the code. The *frame address* is the value of the stack pointer after the call has returned; the
/// return address is directly below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Row {
    /// There is no caller, or its rules are not supported.
    End,
    /// A signal handler returns to this place: the caller is the function that the signal interrupted.
    Signal,
    /// There is a caller.
    Frame {
        address: Address,
        /// The rule for the caller's frame pointer (rbp).
        pointer: Pointer,
    },
}

/// The rule for the frame address, in words of eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Address {
    /// This many words above the stack pointer.
    AboveStack(u32),
    /// This many words above the frame pointer.
    AboveFrame(u32),
    /// Stored this many words below the frame pointer, in a function that aligned its stack.
    StoredBelowFrame(u32),
}

/// The rule for the caller's frame pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pointer {
    /// Unchanged in its register.
    Kept,
    /// Stored this many words below the frame address.
    Below(u8),
    /// Stored at the frame pointer.
    AtFrame,
    /// Unknown.
    Lost,
}

/// Number of bits of a row.
pub(super) const BITS: u32 = 30;

/// A bit that the cache of rows uses.
pub(super) const MARK: u64 = 1 << (BITS - 1);

/// The bits for the kind of row, and their value for a signal.
pub(super) const KIND_MASK: u64 = 7;
pub(super) const SIGNAL: u64 = 2;

/// From the lowest bit: three of kind, eight of frame pointer, and the words of the frame address.
const KIND: u32 = 3;
const POINTER: u32 = 8;
const WORDS_MAX: u32 = (1 << (BITS - 1 - KIND - POINTER)) - 1;

/// The value 1 is the place of the return address, which no frame pointer can have: the fast path reads that word in any case.
const KEPT: u8 = 1;
const AT_FRAME: u8 = 254;
const LOST: u8 = 255;

impl Row {
    /// The bits of a row, never all zero. A frame that is too large for them becomes `End`. They suffice for 2 MB.
    pub(super) fn pack(self) -> u64 {
        let (kind, words, pointer) = match self {
            Row::End => (1, 0, Pointer::Kept),
            Row::Signal => (SIGNAL, 0, Pointer::Kept),
            Row::Frame { address: Address::AboveStack(words), pointer } => (3, words, pointer),
            Row::Frame { address: Address::AboveFrame(words), pointer } => (4, words, pointer),
            Row::Frame { address: Address::StoredBelowFrame(words), pointer } => (5, words, pointer),
        };
        if words > WORDS_MAX {
            return Row::End.pack();
        }
        let pointer = match pointer {
            Pointer::Kept => KEPT,
            Pointer::Below(words) => words,
            Pointer::AtFrame => AT_FRAME,
            Pointer::Lost => LOST,
        };
        kind | u64::from(pointer) << KIND | u64::from(words) << (KIND + POINTER)
    }

    /// Decodes the lowest bits. The mark is ignored.
    #[expect(clippy::cast_possible_truncation, reason = "bits are taken apart")]
    pub(super) fn unpack(bits: u64) -> Row {
        let words = (bits >> (KIND + POINTER)) as u32 & WORDS_MAX;
        let address = match bits & KIND_MASK {
            SIGNAL => return Row::Signal,
            3 => Address::AboveStack(words),
            4 => Address::AboveFrame(words),
            5 => Address::StoredBelowFrame(words),
            _ => return Row::End,
        };
        let pointer = match (bits >> KIND) as u8 {
            KEPT => Pointer::Kept,
            AT_FRAME => Pointer::AtFrame,
            LOST => Pointer::Lost,
            words => Pointer::Below(words),
        };
        Row::Frame { address, pointer }
    }
}

/// The rows of nearly all code, decoded without a branch that depends on memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usual {
    bits: u64,
}

impl Usual {
    /// `None`: another kind of row. The mark and higher bits are ignored.
    #[inline(always)]
    pub(super) fn of(bits: u64) -> Option<Usual> {
        let is_usual = matches!(bits & KIND_MASK, 3 | 4) && (bits >> KIND & 0xff) < u64::from(AT_FRAME);
        if is_usual { Some(Usual { bits }) } else { None }
    }

    /// The frame address.
    #[inline(always)]
    pub(super) fn address(self, stack: usize, pointer: usize) -> usize {
        let words = self.bits >> (KIND + POINTER) & u64::from(WORDS_MAX);
        let base = if self.bits & KIND_MASK == 3 { stack } else { pointer };
        base.wrapping_add(to_bytes(words))
    }

    /// Distance of the caller's frame pointer below the frame address, in bytes. If it is unchanged: the distance of the return address.
    #[inline(always)]
    pub(super) fn below(self) -> usize {
        to_bytes(self.bits >> KIND & 0xff)
    }

    /// Whether the frame pointer is unchanged in its register.
    #[inline(always)]
    pub(super) fn is_kept(self) -> bool {
        self.bits >> KIND & 0xff == u64::from(KEPT)
    }
}

/// Converts words of eight bytes to bytes.
#[inline(always)]
pub(super) fn to_bytes(words: impl Into<u64>) -> usize {
    usize::try_from(words.into()).map_or(0, |words| words.wrapping_mul(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out() {
        let addresses = [Address::AboveStack, Address::AboveFrame, Address::StoredBelowFrame];
        let words = [0, 1, 2, 255, 65536, WORDS_MAX];
        let pointers =
            [Pointer::Kept, Pointer::Below(2), Pointer::Below(253), Pointer::AtFrame, Pointer::Lost];
        let frames = addresses
            .iter()
            .flat_map(|address| words.map(address))
            .flat_map(|address| pointers.map(|pointer| Row::Frame { address, pointer }));
        for row in frames.chain([Row::End, Row::Signal]) {
            let bits = row.pack();
            assert!(bits != 0 && bits < MARK, "{row:?}");
            let bits = bits | MARK | 0xabcd << BITS;
            assert_eq!(Row::unpack(bits), row);
            let usual = Usual::of(bits).map(|usual| {
                let (address, below) = (usual.address(0x10_0000, 0x20_0000), usual.below());
                (address, if usual.is_kept() { None } else { Some(below) })
            });
            let expected = match row {
                Row::Frame { address: Address::AboveStack(words), pointer } => {
                    Some((0x10_0000, words, pointer))
                }
                Row::Frame { address: Address::AboveFrame(words), pointer } => {
                    Some((0x20_0000, words, pointer))
                }
                _ => None,
            };
            let expected = expected.and_then(|(base, words, pointer)| {
                let address = base + 8 * words as usize;
                match pointer {
                    Pointer::Kept => Some((address, None)),
                    Pointer::Below(words) => Some((address, Some(8 * usize::from(words)))),
                    _ => None,
                }
            });
            assert_eq!(usual, expected, "{row:?}");
        }
        assert_eq!(WORDS_MAX as usize * 8, (2 << 20) - 8);
    }

    #[test]
    fn a_frame_that_is_too_large_ends_the_walk() {
        let row = Row::Frame { address: Address::AboveStack(WORDS_MAX + 1), pointer: Pointer::Kept };
        assert_eq!(Row::unpack(row.pack()), Row::End);
    }
}
