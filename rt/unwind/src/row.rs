//! How to get from a frame to its caller's, in thirty bits.

/// What is done at one place of the code to find the caller. The *frame address* is what the stack pointer is when the call has returned; right below it is
/// the return address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Row {
    /// There is no caller, or it cannot be found: what is asked for was not needed yet.
    End,
    /// The kernel interrupted a function to run a handler, which returns to this place.
    Signal,
    /// There is one.
    Frame {
        address: Address,
        /// Where the caller's frame pointer (rbp) is.
        pointer: Pointer,
    },
}

/// Where the frame address comes from. In words of eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Address {
    /// So many above the stack pointer.
    AboveStack(u32),
    /// So many above the frame pointer.
    AboveFrame(u32),
    /// It stands so many below the frame pointer, in a function that aligned its stack.
    StoredBelowFrame(u32),
}

/// Where the caller's frame pointer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pointer {
    /// Still in its register.
    Kept,
    /// So many words below the frame address.
    Below(u8),
    /// Where the frame pointer points.
    AtFrame,
    /// It cannot be known.
    Lost,
}

/// How many bits a row needs, at the most.
pub(super) const BITS: u32 = 30;

/// The bit that is free for the cache of rows.
pub(super) const MARK: u64 = 1 << (BITS - 1);

/// The bits that say which kind of row it is, and what they are for a signal.
pub(super) const KIND_MASK: u64 = 7;
pub(super) const SIGNAL: u64 = 2;

/// From the lowest bit: three of kind, eight of frame pointer, and the words of the frame address.
const KIND: u32 = 3;
const POINTER: u32 = 8;
const WORDS_MAX: u32 = (1 << (BITS - 1 - KIND - POINTER)) - 1;

/// Where the return address is, which is no frame pointer: the fast path reads it in any case.
const KEPT: u8 = 1;
const AT_FRAME: u8 = 254;
const LOST: u8 = 255;

impl Row {
    /// As bits, never all zero. A frame that is too large for them has no caller then: they suffice for 2 MB.
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

    /// From the lowest bits; the mark is not looked at.
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

/// The rows that nearly all code has, without a choice that depends on memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usual {
    bits: u64,
}

impl Usual {
    /// None: this is another one. The mark and what is above it are not looked at.
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

    /// How many bytes below the frame address the caller's frame pointer is; the return address instead where it is kept.
    #[inline(always)]
    pub(super) fn below(self) -> usize {
        to_bytes(self.bits >> KIND & 0xff)
    }

    /// Whether it is kept in its register.
    #[inline(always)]
    pub(super) fn is_kept(self) -> bool {
        self.bits >> KIND & 0xff == u64::from(KEPT)
    }
}

/// Words are of eight bytes.
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
