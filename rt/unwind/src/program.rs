//! Call frame information of a function: from its entry in `.eh_frame` to the row for one place of its code.
//!
//! The format is that of the DWARF standard (section 6.4) with the changes of the Linux Standard Base. The subset that compilers use is
//! supported: frame addresses relative to the stack or frame pointer, those of functions that align their stack, and those of the linker's
//! stubs. Anything else gives no row, and the walk ends there.

use super::bytes::{Bytes, Image};
use super::row::{Address, Pointer, Row};

/// Register numbers on x86-64 (System V ABI, figure 3.36).
mod register {
    pub(super) const BP: u64 = 6;
    pub(super) const SP: u64 = 7;
    pub(super) const RETURN: u64 = 16;
}

/// Maximum depth of remembered states; compilers do not nest them.
const REMEMBERED_MAX: usize = 8;

/// The row for the instruction at `place` by the entry at `entry`. `None`: the entry is for another place, damaged, or not supported.
pub(super) fn row(image: Image<'_>, entry: usize, place: usize) -> Option<Row> {
    let mut entry = record(image, entry)?;
    let common = entry.address.checked_sub(entry.length()?)?;
    let common = Common::parse(record(image, common)?)?;
    let begin = entry.pointer(common.encoding)?;
    let length = entry.number(common.encoding)?;
    if place.wrapping_sub(begin) >= length {
        return None;
    }
    if common.is_augmented {
        block(&mut entry)?;
    }
    if common.is_signal {
        return Some(Row::Signal);
    }
    let mut first = Run::new(&common, begin, place, State::NONE);
    first.execute(common.program)?;
    // Registers are restored to their state at the entry, which the common part defines.
    let mut run = Run::new(&common, begin, place, first.state);
    run.execute(entry)?;
    run.state.row(place)
}

/// The content of a record, after its length. A length of zero ends all records; records longer than 4 GB are not supported.
fn record<'a>(image: Image<'a>, address: usize) -> Option<Bytes<'a>> {
    let mut bytes = image.from(address)?;
    match bytes.length()? {
        0 | 0xffff_ffff => None,
        length => bytes.take(length),
    }
}

/// A length, and that many bytes.
fn block<'a>(bytes: &mut Bytes<'a>) -> Option<Bytes<'a>> {
    let length = usize::try_from(bytes.uleb()?).ok()?;
    bytes.take(length)
}

/// The common part (CIE) of entries.
#[derive(Debug)]
struct Common<'a> {
    code_unit: u64,
    data_unit: i64,
    /// Pointer encoding of code addresses in the entries.
    encoding: u8,
    /// Entries have a block before their program.
    is_augmented: bool,
    /// The entries are for the code to which signal handlers return.
    is_signal: bool,
    program: Bytes<'a>,
}

impl<'a> Common<'a> {
    fn parse(mut bytes: Bytes<'a>) -> Option<Common<'a>> {
        if bytes.u32()? != 0 {
            return None;
        }
        let version = bytes.u8()?;
        let mut augmentation = bytes.text()?.iter();
        let (code_unit, data_unit) = (bytes.uleb()?, bytes.sleb()?);
        let returned = match version {
            1 => u64::from(bytes.u8()?),
            3 => bytes.uleb()?,
            _ => return None,
        };
        if returned != register::RETURN {
            return None;
        }
        let (mut encoding, mut is_signal, mut is_augmented) = (0, false, false);
        match augmentation.next() {
            None => {}
            Some(b'z') => {
                is_augmented = true;
                let mut data = block(&mut bytes)?;
                for letter in augmentation {
                    match letter {
                        b'R' => encoding = data.u8()?,
                        b'L' => drop(data.u8()?),
                        b'P' => {
                            let encoding = data.u8()?;
                            data.number(encoding)?;
                        }
                        b'S' => is_signal = true,
                        // The size of its data is unknown, so that following letters cannot be read.
                        _ => return None,
                    }
                }
            }
            Some(_) => return None,
        }
        Some(Common { code_unit, data_unit, encoding, is_augmented, is_signal, program: bytes })
    }
}

/// Rules at one place. Offsets are in bytes.
#[derive(Debug, Clone, Copy)]
struct State {
    address: Rule,
    pointer: Rule,
    returned: Rule,
}

/// The rule for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// No rule: callee-saved registers are unchanged.
    Unsaid,
    /// A register plus an offset. For the frame address only.
    From(u64, i64),
    /// In memory, at an offset from the frame address.
    AtFrameAddress(i64),
    /// In memory, at an offset from the frame pointer.
    AtPointer(i64),
    /// In the linker's stubs of 16 bytes: one word above the stack pointer, two from this byte of the stub on.
    Stub(u8),
    Undefined,
    /// An unsupported rule.
    Other,
}

impl State {
    const NONE: State = State { address: Rule::Unsaid, pointer: Rule::Unsaid, returned: Rule::Unsaid };

    fn row(self, place: usize) -> Option<Row> {
        match self.returned {
            Rule::AtFrameAddress(-8) => {}
            Rule::Undefined => return Some(Row::End),
            _ => return None,
        }
        let pointer = match (self.pointer, self.address) {
            (Rule::Unsaid, _) => Pointer::Kept,
            (Rule::AtFrameAddress(offset), _) => match words(offset.checked_neg()?).map(u8::try_from) {
                Some(Ok(words @ 2..=253)) => Pointer::Below(words),
                _ => Pointer::Lost,
            },
            (Rule::AtPointer(0), Rule::AtPointer(_)) => Pointer::AtFrame,
            _ => Pointer::Lost,
        };
        let address = match self.address {
            Rule::From(register::SP, offset) => Address::AboveStack(words(offset)?),
            Rule::From(register::BP, offset) => Address::AboveFrame(words(offset)?),
            Rule::AtPointer(offset) => Address::StoredBelowFrame(words(offset.checked_neg()?)?),
            Rule::Stub(pushed) => Address::AboveStack(if place % 16 < usize::from(pushed) { 1 } else { 2 }),
            _ => return None,
        };
        Some(Row::Frame { address, pointer })
    }
}

/// An offset in words of eight bytes; `None` if it is not a multiple.
fn words(offset: i64) -> Option<u32> {
    if offset % 8 == 0 { u32::try_from(offset / 8).ok() } else { None }
}

/// Execution of a program up to a place.
#[derive(Debug)]
struct Run<'a> {
    common: &'a Common<'a>,
    /// The place to which the current state applies.
    at: usize,
    place: usize,
    state: State,
    initial: State,
    remembered: [State; REMEMBERED_MAX],
    depth: usize,
}

impl<'a> Run<'a> {
    fn new(common: &'a Common<'a>, begin: usize, place: usize, initial: State) -> Run<'a> {
        let remembered = [State::NONE; REMEMBERED_MAX];
        Run { common, at: begin, place, state: initial, initial, remembered, depth: 0 }
    }

    /// It terminates, because each instruction is at least one byte.
    fn execute(&mut self, mut program: Bytes<'_>) -> Option<()> {
        while !program.is_empty() {
            let operation = program.u8()?;
            let low = u64::from(operation & 0x3f);
            match operation >> 6 {
                1 => self.advance(low)?,
                2 => {
                    let offset = program.uleb()?;
                    self.saved(low, self.scaled_unsigned(offset));
                }
                3 => self.restore(low),
                _ => self.extended(operation, &mut program)?,
            }
            if self.at > self.place {
                break;
            }
        }
        Some(())
    }

    /// Instructions whose opcode takes the whole byte.
    fn extended(&mut self, operation: u8, program: &mut Bytes<'_>) -> Option<()> {
        match operation {
            0x00 => {}
            0x01 => self.at = program.pointer(self.common.encoding)?,
            0x02 => self.advance(program.u8()?.into())?,
            0x03 => self.advance(program.u16()?.into())?,
            0x04 => self.advance(program.u32()?.into())?,
            0x05 => self.saved(program.uleb()?, self.scaled_unsigned(program.uleb()?)),
            0x06 => self.restore(program.uleb()?),
            0x07 => self.set(program.uleb()?, Rule::Undefined),
            0x08 => self.set(program.uleb()?, Rule::Unsaid),
            0x0a => {
                *self.remembered.get_mut(self.depth)? = self.state;
                self.depth += 1;
            }
            0x0b => {
                self.depth = self.depth.checked_sub(1)?;
                self.state = *self.remembered.get(self.depth)?;
            }
            0x0c => {
                let (number, offset) = (program.uleb()?, i64::try_from(program.uleb()?).ok()?);
                self.state.address = Rule::From(number, offset);
            }
            0x0d => self.state.address = Rule::From(program.uleb()?, self.from()?.1),
            0x0e => {
                let offset = i64::try_from(program.uleb()?).ok()?;
                self.state.address = Rule::From(self.from()?.0, offset);
            }
            0x0f => self.state.address = frame_address(block(program)?),
            0x10 => self.set(program.uleb()?, place_in_memory(block(program)?)),
            0x11 => self.saved(program.uleb()?, self.scaled(program.sleb()?)),
            0x12 => self.state.address = Rule::From(program.uleb()?, self.scaled(program.sleb()?)?),
            0x13 => self.state.address = Rule::From(self.from()?.0, self.scaled(program.sleb()?)?),
            // In another register, or a computed value: not supported. Signed and unsigned numbers have the same length.
            0x09 | 0x14 | 0x15 => {
                let (number, _) = (program.uleb()?, program.uleb()?);
                self.set(number, Rule::Other);
            }
            0x16 => {
                let (number, _) = (program.uleb()?, block(program)?);
                self.set(number, Rule::Other);
            }
            // The size of arguments on the stack, which the offsets include.
            0x2e => drop(program.uleb()?),
            0x2f => {
                let (number, offset) = (program.uleb()?, program.uleb()?);
                self.saved(number, self.scaled_unsigned(offset).and_then(i64::checked_neg));
            }
            _ => return None,
        }
        Some(())
    }

    /// Register and offset of the current frame address.
    fn from(&self) -> Option<(u64, i64)> {
        match self.state.address {
            Rule::From(number, offset) => Some((number, offset)),
            _ => None,
        }
    }

    fn advance(&mut self, units: u64) -> Option<()> {
        let bytes = usize::try_from(units.checked_mul(self.common.code_unit)?).ok()?;
        self.at = self.at.checked_add(bytes)?;
        Some(())
    }

    fn scaled(&self, units: i64) -> Option<i64> {
        units.checked_mul(self.common.data_unit)
    }

    fn scaled_unsigned(&self, units: u64) -> Option<i64> {
        self.scaled(i64::try_from(units).ok()?)
    }

    fn saved(&mut self, number: u64, offset: Option<i64>) {
        self.set(number, offset.map_or(Rule::Other, Rule::AtFrameAddress));
    }

    fn restore(&mut self, number: u64) {
        match number {
            register::BP => self.state.pointer = self.initial.pointer,
            register::RETURN => self.state.returned = self.initial.returned,
            _ => {}
        }
    }

    /// Rules of other registers are ignored, because no supported frame address is relative to them.
    fn set(&mut self, number: u64, rule: Rule) {
        match number {
            register::BP => self.state.pointer = rule,
            register::RETURN => self.state.returned = rule,
            _ => {}
        }
    }
}

/// Decodes an expression for the frame address: a word in memory below the frame pointer, or the expression of a stub.
fn frame_address(mut expression: Bytes<'_>) -> Rule {
    const STACK_POINTER_AND_8: [u8; 2] = [0x77, 8];
    const REST_OF_PLACE_BY_16: [u8; 4] = [0x80, 0, 0x3f, 0x1a];
    const AT_LEAST_TIMES_8_ADDED: [u8; 4] = [0x2a, 0x33, 0x24, 0x22];
    if let [a, b, c, d, e, f, literal @ 0x30..=0x3f, g, h, i, j] = expression.rest
        && [*a, *b] == STACK_POINTER_AND_8
        && [*c, *d, *e, *f] == REST_OF_PLACE_BY_16
        && [*g, *h, *i, *j] == AT_LEAST_TIMES_8_ADDED
    {
        return Rule::Stub(literal - 0x30);
    }
    const CONTENT: [u8; 1] = [0x06];
    match from_pointer(&mut expression) {
        Some(offset) if expression.rest == CONTENT => Rule::AtPointer(offset),
        _ => Rule::Other,
    }
}

/// Decodes an expression for the place of a register: an offset from the frame pointer.
fn place_in_memory(mut expression: Bytes<'_>) -> Rule {
    match from_pointer(&mut expression) {
        Some(offset) if expression.is_empty() => Rule::AtPointer(offset),
        _ => Rule::Other,
    }
}

fn from_pointer(expression: &mut Bytes<'_>) -> Option<i64> {
    const FRAME_POINTER_AND: u8 = 0x76;
    if expression.u8()? == FRAME_POINTER_AND { expression.sleb() } else { None }
}
