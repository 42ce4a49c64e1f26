//! A few instructions of the kernel's own machine, and labels for their jumps: enough to count.
//!
//! Registers: `R0` is a call's result, `R1` to `R5` are its arguments and lost by it, `R6` to `R9` keep.

/// A register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reg(u8);

pub(super) const R0: Reg = Reg(0);
pub(super) const R1: Reg = Reg(1);
pub(super) const R2: Reg = Reg(2);
pub(super) const R6: Reg = Reg(6);
pub(super) const R7: Reg = Reg(7);

/// Functions that a program may call, by the number that the kernel gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Helper {
    /// The processor it runs on.
    ProcessorId = 8,
    /// The running task: its thread number in the lower half.
    CurrentTask = 14,
}

/// A place to jump to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

/// An instruction as the kernel wants it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// A program that is being written.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    code: Vec<Instruction>,
    /// Where each label stands.
    places: Vec<Option<usize>>,
    /// Which instructions jump to which label.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn push(&mut self, code: u8, to: Reg, from: Reg, offset: i16, immediate: i32) {
        let registers = if cfg!(target_endian = "big") { to.0 << 4 | from.0 } else { from.0 << 4 | to.0 };
        self.code.push(Instruction { code, registers, offset, immediate });
    }

    /// `to = from`
    pub(super) fn copy(&mut self, to: Reg, from: Reg) {
        self.push(0xbf, to, from, 0, 0);
    }

    /// `to = from`, the lower half only: what arguments that are shorter than a word carry above is no matter.
    pub(super) fn copy_half(&mut self, to: Reg, from: Reg) {
        self.push(0xbc, to, from, 0, 0);
    }

    /// `to = value`
    pub(super) fn set(&mut self, to: Reg, value: i32) {
        self.push(0xb7, to, R0, 0, value);
    }

    /// `to += from`
    pub(super) fn add_register(&mut self, to: Reg, from: Reg) {
        self.push(0x0f, to, from, 0, 0);
    }

    /// `to &= value`
    pub(super) fn and(&mut self, to: Reg, value: i32) {
        self.push(0x57, to, R0, 0, value);
    }

    /// `to <<= bits`
    pub(super) fn shift_left(&mut self, to: Reg, bits: i32) {
        self.push(0x67, to, R0, 0, bits);
    }

    /// `to = the word at from + offset`
    pub(super) fn load(&mut self, to: Reg, from: Reg, offset: i16) {
        self.push(0x79, to, from, offset, 0);
    }

    /// `to = the address of the shared memory of a map`
    pub(super) fn address_of_map(&mut self, to: Reg, map: i32) {
        const VALUE_OF_MAP: Reg = Reg(2);
        self.push(0x18, to, VALUE_OF_MAP, 0, map);
        self.push(0, R0, R0, 0, 0);
    }

    /// `the word at to + offset += from`, undivided.
    pub(super) fn add_to_memory(&mut self, to: Reg, offset: i16, from: Reg) {
        self.push(0xdb, to, from, offset, 0);
    }

    /// Calls a helper.
    pub(super) fn call(&mut self, helper: Helper) {
        self.push(0x85, R0, R0, 0, helper as i32);
    }

    /// A label that stands nowhere yet.
    pub(super) fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// The label stands here.
    pub(super) fn place(&mut self, label: Label) {
        self.places[label.0] = Some(self.code.len());
    }

    fn jump(&mut self, code: u8, register: Reg, value: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(code, register, R0, 0, value);
    }

    /// Jumps if `register == value`.
    pub(super) fn if_equal(&mut self, register: Reg, value: i32, label: Label) {
        self.jump(0x15, register, value, label);
    }

    /// Jumps if `register != value`.
    pub(super) fn if_other(&mut self, register: Reg, value: i32, label: Label) {
        self.jump(0x55, register, value, label);
    }

    /// Jumps if `register > value`.
    pub(super) fn if_above(&mut self, register: Reg, value: i32, label: Label) {
        self.jump(0x25, register, value, label);
    }

    /// Jumps if `register & value` has a bit.
    pub(super) fn if_any_bit(&mut self, register: Reg, value: i32, label: Label) {
        self.jump(0x45, register, value, label);
    }

    /// Ends the program with 0 and gives its instructions.
    ///
    /// Labels that were never placed stand at the end.
    pub(super) fn finish(mut self) -> Vec<Instruction> {
        let end = self.code.len();
        self.set(R0, 0);
        self.push(0x95, R0, R0, 0, 0);
        for (from, label) in &self.jumps {
            let to = self.places[label.0].unwrap_or(end);
            // Programs here have a few dozen instructions and jump forward only.
            self.code[*from].offset = i16::try_from(to - (from + 1)).unwrap_or(i16::MAX);
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn instructions_are_encoded_as_the_kernel_documents_them() {
        let mut asm = Assembler::default();
        let out = asm.label();
        asm.load(R1, R6, 16);
        asm.if_equal(R1, 7, out);
        asm.address_of_map(R2, 5);
        asm.add_to_memory(R2, 8, R1);
        let code = asm.finish();
        let bytes: Vec<(u8, u8, i16, i32)> =
            code.iter().map(|i| (i.code, i.registers, i.offset, i.immediate)).collect();
        assert_eq!(
            bytes,
            [
                (0x79, 0x61, 16, 0),
                (0x15, 0x01, 3, 7),
                (0x18, 0x22, 0, 5),
                (0, 0, 0, 0),
                (0xdb, 0x12, 8, 0),
                (0xb7, 0, 0, 0),
                (0x95, 0, 0, 0),
            ]
        );
        assert_eq!(size_of::<Instruction>(), 8);
    }

    #[test]
    fn labels_may_stand_before_the_end() {
        let mut asm = Assembler::default();
        let on = asm.label();
        asm.if_other(R1, 0, on);
        asm.set(R2, 1);
        asm.place(on);
        asm.set(R1, 2);
        assert_eq!(asm.finish()[0].offset, 1);
    }
}
