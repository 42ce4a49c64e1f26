//! Bytes of a module at their addresses, read with bounds checks; numbers in the encodings of DWARF.

/// A part of a module's memory at an address.
#[derive(Debug, Clone, Copy)]
pub(super) struct Image<'a> {
    pub(super) address: usize,
    pub(super) bytes: &'a [u8],
}

impl<'a> Image<'a> {
    /// The bytes from an address on. `None`: the address is outside.
    pub(super) fn from(self, address: usize) -> Option<Bytes<'a>> {
        let rest = self.bytes.get(address.checked_sub(self.address)?..)?;
        Some(Bytes { address, rest })
    }
}

/// Bytes that are read one after the other, never beyond their end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a> {
    /// Address of the next byte.
    pub(super) address: usize,
    pub(super) rest: &'a [u8],
}

/// Pointer encodings of the Linux Standard Base: the low bits are the format, the others the base.
mod encoding {
    pub(super) const FORMAT: u8 = 0x0f;
    pub(super) const BASE: u8 = 0x70;
    pub(super) const INDIRECT: u8 = 0x80;
    pub(super) const HERE: u8 = 0x10;
}

impl<'a> Bytes<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes the next `count` bytes.
    pub(super) fn take(&mut self, count: usize) -> Option<Bytes<'a>> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        let taken = Bytes { address: self.address, rest: taken };
        self.address = self.address.wrapping_add(count);
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.rest.first_chunk().copied()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a four-byte length.
    pub(super) fn length(&mut self) -> Option<usize> {
        usize::try_from(self.u32()?).ok()
    }

    /// Reads an unsigned LEB128 number. `None` if it needs more than 64 bits.
    pub(super) fn uleb(&mut self) -> Option<u64> {
        self.leb().map(|(number, _, _)| number)
    }

    /// Reads a signed LEB128 number; the sign is bit 6 of the last byte.
    pub(super) fn sleb(&mut self) -> Option<i64> {
        let (number, bits, is_negative) = self.leb()?;
        let sign = if is_negative { u64::MAX.checked_shl(bits).unwrap_or(0) } else { 0 };
        Some((number | sign).cast_signed())
    }

    /// The number, its count of bits, and the highest of them.
    fn leb(&mut self) -> Option<(u64, u32, bool)> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.u8()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte & 0x80 == 0 {
                return Some((number, shift, byte & 0x40 != 0));
            }
        }
    }

    /// Reads a zero-terminated string, with its zero.
    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.rest.iter().position(|byte| *byte == 0)?;
        let text = self.take(length)?.rest;
        self.take(1)?;
        Some(text)
    }

    /// Reads an absolute or PC-relative address. Other encodings are `None`.
    pub(super) fn pointer(&mut self, encoding: u8) -> Option<usize> {
        let here = self.address;
        let number = self.number(encoding)?;
        match encoding & (encoding::BASE | encoding::INDIRECT) {
            0 => Some(number),
            encoding::HERE => Some(here.wrapping_add(number)),
            _ => None,
        }
    }

    /// Reads a number in an encoding, without its base. Addresses wrap around.
    #[expect(clippy::cast_possible_truncation, reason = "addresses wrap")]
    pub(super) fn number(&mut self, encoding: u8) -> Option<usize> {
        Some(match encoding & encoding::FORMAT {
            0x0 | 0x4 | 0xc => self.u64()? as usize,
            0x1 => self.uleb()? as usize,
            0x2 => usize::from(self.u16()?),
            0x3 => self.length()?,
            0x9 => self.sleb()?.cast_unsigned() as usize,
            0xa => isize::from(self.u16()?.cast_signed()).cast_unsigned(),
            0xb => i64::from(self.u32()?.cast_signed()).cast_unsigned() as usize,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(rest: &[u8]) -> Bytes<'_> {
        Bytes { address: 0x1000, rest }
    }

    #[test]
    fn numbers_are_read_as_dwarf_writes_them() {
        // The examples of the DWARF standard, section 7.6.
        for (text, number) in
            [(&[2][..], 2), (&[0x7f], 127), (&[0x80, 1], 128), (&[0x81, 1], 129), (&[0xb9, 0x64], 12857)]
        {
            assert_eq!(bytes(text).uleb(), Some(number));
        }
        for (text, number) in [
            (&[2][..], 2),
            (&[0x7e], -2),
            (&[0xff, 0], 127),
            (&[0x81, 0x7f], -127),
            (&[0x80, 1], 128),
            (&[0x80, 0x7f], -128),
        ] {
            assert_eq!(bytes(text).sleb(), Some(number));
        }
    }

    #[test]
    fn what_has_no_end_or_is_too_long_is_no_number() {
        for text in [&[][..], &[0x80], &[0xff, 0xff]] {
            assert_eq!((bytes(text).uleb(), bytes(text).sleb()), (None, None));
        }
        let longest = [&[0xff; 9][..], &[0x01]].concat();
        assert_eq!(bytes(&longest).uleb(), Some(u64::MAX));
        let longer = [&[0x80; 10][..], &[0x00]].concat();
        assert_eq!((bytes(&longer).uleb(), bytes(&longer).sleb()), (None, None));
        assert_eq!((bytes(&[1]).u16(), bytes(&[1, 2, 3]).u32(), bytes(&[0; 7]).u64()), (None, None, None));
        assert_eq!(bytes(b"zR").text(), None);
    }

    #[test]
    fn pointers_are_counted_from_their_own_place() {
        assert_eq!(bytes(&[0xfc, 0xff, 0xff, 0xff]).pointer(0x1b), Some(0x0ffc));
        assert_eq!(bytes(&[0xfc, 0xff, 0xff, 0xff]).pointer(0x0b), Some(usize::MAX - 3));
        assert_eq!(bytes(&[4, 0, 0, 0]).pointer(0x03), Some(4));
        assert_eq!(bytes(&[0xff, 0xff]).pointer(0x1a), Some(0x0fff));
        assert_eq!(bytes(&[1, 2, 3, 4, 5, 6, 7, 8]).pointer(0x00), Some(0x0807_0605_0403_0201));
        for other in [0x9b, 0x2b, 0x3b, 0x50, 0x0f, 0xff] {
            assert_eq!(bytes(&[0; 8]).pointer(other), None, "{other:#x}");
        }
    }

    #[test]
    fn an_image_gives_what_is_in_it_only() {
        let image = Image { address: 0x1000, bytes: &[1, 2, 3] };
        assert_eq!(image.from(0x1002).and_then(|mut bytes| bytes.u8()), Some(3));
        assert!(image.from(0x1003).is_some_and(|bytes| bytes.is_empty()));
        assert!(image.from(0x0fff).is_none() && image.from(0x1004).is_none() && image.from(0).is_none());
    }
}
