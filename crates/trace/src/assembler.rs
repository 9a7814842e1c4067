//! Assembler of programs for the kernel's BPF machine, instruction by instruction (Documentation/bpf/standardization/
//! instruction-set.rst), so that no other compiler is needed.

use std::collections::BTreeMap;

use crate::sys::{self, Map};

/// A register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct R(pub(crate) u8);

/// Return value of functions.
pub(crate) const R0: R = R(0);
/// The first argument of functions, and of the program.
pub(crate) const R1: R = R(1);
pub(crate) const R2: R = R(2);
pub(crate) const R3: R = R(3);
pub(crate) const R4: R = R(4);
/// Calls keep this one and those up to [`R9`].
pub(crate) const R6: R = R(6);
pub(crate) const R7: R = R(7);
pub(crate) const R8: R = R(8);
pub(crate) const R9: R = R(9);
/// The end of the stack, of which 512 bytes below may be used.
pub(crate) const FP: R = R(10);

/// Number of bytes that are loaded or stored.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(crate) enum Width {
    Byte = 0x10,
    Half = 0x08,
    Word = 0x00,
    Double = 0x18,
}

/// A function of the kernel, by its number.
#[derive(Debug, Clone, Copy)]
#[repr(i32)]
pub(crate) enum Call {
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    KtimeNs = 5,
    PidTgid = 14,
    Comm = 16,
    ReadUserString = 114,
    RingReserve = 131,
    RingSubmit = 132,
    RingOutput = 130,
}

/// Condition of a jump.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(crate) enum If {
    Equal = 0x10,
    NotEqual = 0x50,
    Below = 0xa0,
    /// Less than, for signed numbers.
    Negative = 0xc0,
}

/// Arithmetic.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(crate) enum Do {
    Add = 0x00,
    Subtract = 0x10,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
}

/// A program that is being put together.
#[derive(Default)]
pub(crate) struct Assembler {
    code: Vec<u64>,
    labels: BTreeMap<String, usize>,
    jumps: Vec<(usize, String)>,
}

impl Assembler {
    fn push(&mut self, operation: u8, to: R, from: R, offset: i16, value: i32) {
        self.code.push(
            u64::from(operation)
                | u64::from(to.0) << 8
                | u64::from(from.0) << 12
                | u64::from(offset as u16) << 16
                | u64::from(value as u32) << 32,
        );
    }

    /// `to = from`
    pub(crate) fn copy(&mut self, to: R, from: R) {
        self.push(0xbf, to, from, 0, 0);
    }

    /// `to = value`
    pub(crate) fn set(&mut self, to: R, value: i32) {
        self.push(0xb7, to, R0, 0, value);
    }

    /// `to = value`, of 64 bits
    pub(crate) fn set_wide(&mut self, to: R, value: u64) {
        self.push(0x18, to, R0, 0, value as i32);
        self.push(0, R0, R0, 0, (value >> 32) as i32);
    }

    /// `to = map`
    pub(crate) fn map(&mut self, to: R, map: &Map) {
        const IS_MAP: R = R(1);
        self.push(0x18, to, IS_MAP, 0, sys::half_of(&map.fd) as i32);
        self.push(0, R0, R0, 0, 0);
    }

    /// `to = to (do) value`
    pub(crate) fn with(&mut self, what: Do, to: R, value: i32) {
        self.push(0x07 | what as u8, to, R0, 0, value);
    }

    /// `to = to >> bits`, of signed numbers
    pub(crate) fn arithmetic_right(&mut self, to: R, bits: i32) {
        self.push(0xc7, to, R0, 0, bits);
    }

    /// `to = to (do) from`
    pub(crate) fn with_register(&mut self, what: Do, to: R, from: R) {
        self.push(0x0f | what as u8, to, from, 0, 0);
    }

    /// `to = *(from + offset)`
    pub(crate) fn load(&mut self, width: Width, to: R, from: R, offset: i16) {
        self.push(0x61 | width as u8, to, from, offset, 0);
    }

    /// `*(to + offset) = from`
    pub(crate) fn store(&mut self, width: Width, to: R, offset: i16, from: R) {
        self.push(0x63 | width as u8, to, from, offset, 0);
    }

    /// `*(to + offset) = *(from + offset)`, by way of R1
    pub(crate) fn transfer(&mut self, width: Width, (to, at): (R, i16), (from, offset): (R, i16)) {
        self.load(width, R1, from, offset);
        self.store(width, to, at, R1);
    }

    /// `*(to + offset) = value`
    pub(crate) fn store_value(&mut self, width: Width, to: R, offset: i16, value: i32) {
        self.push(0x62 | width as u8, to, R0, offset, value);
    }

    /// `*(to + offset) += from`, at once, of 64 bits
    pub(crate) fn add_at_once(&mut self, to: R, offset: i16, from: R) {
        self.push(0xdb, to, from, offset, 0);
    }

    /// `to = &stack[offset]`
    pub(crate) fn stack(&mut self, to: R, offset: i32) {
        self.copy(to, FP);
        self.with(Do::Add, to, offset);
    }

    /// Calls a function of the kernel. Arguments are in R1 to R5, which are lost.
    pub(crate) fn call(&mut self, function: Call) {
        self.push(0x85, R0, R0, 0, function as i32);
    }

    /// Jumps to `label`.
    pub(crate) fn jump(&mut self, label: &str) {
        self.jumps.push((self.code.len(), label.to_owned()));
        self.push(0x05, R0, R0, 0, 0);
    }

    /// Jumps to `label` if `what` is (when) `value`.
    pub(crate) fn jump_if(&mut self, what: R, when: If, value: i32, label: &str) {
        self.jumps.push((self.code.len(), label.to_owned()));
        self.push(0x05 | when as u8, what, R0, 0, value);
    }

    /// Jumps to `label` if `what` is (when) `other`.
    pub(crate) fn jump_if_register(&mut self, what: R, when: If, other: R, label: &str) {
        self.jumps.push((self.code.len(), label.to_owned()));
        self.push(0x0d | when as u8, what, other, 0, 0);
    }

    /// Returns true if an instruction jumps to `label`.
    pub(crate) fn leads_to(&self, label: &str) -> bool {
        self.jumps.iter().any(|(_, to)| to == label)
    }

    /// Gives the next instruction the label `label`.
    pub(crate) fn label(&mut self, label: &str) {
        let known = self.labels.insert(label.to_owned(), self.code.len());
        debug_assert!(known.is_none(), "{label} is there twice");
    }

    /// Ends the program. 0 would keep the event from everybody else's rings, too.
    pub(crate) fn end(&mut self) {
        self.set(R0, 1);
        self.push(0x95, R0, R0, 0, 0);
    }

    /// The instructions, with jumps that know where they lead.
    pub(crate) fn assemble(mut self) -> Vec<u64> {
        for (at, label) in &self.jumps {
            let to = self.labels.get(label).unwrap_or_else(|| unreachable!("no label {label}"));
            let offset = *to as i64 - *at as i64 - 1;
            self.code[*at] |= u64::from(offset as i16 as u16) << 16;
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_those_of_the_instruction_set_and_jumps_lead_to_their_labels() {
        let mut asm = Assembler::default();
        asm.copy(R6, R1);
        asm.jump_if(R6, If::Equal, 7, "end");
        asm.load(Width::Double, R2, R6, 16);
        asm.store(Width::Word, FP, -4, R2);
        asm.add_at_once(R0, 8, R1);
        asm.label("end");
        asm.end();
        let code = asm.assemble();
        // As `llvm-mc -triple bpfel` writes them.
        let known = [0x16bf, 0x7_0003_0615, 0x0010_6279, 0xfffc_2a63, 0x0008_10db, 0x1_0000_00b7, 0x0095];
        assert_eq!(code, known);
    }
}
