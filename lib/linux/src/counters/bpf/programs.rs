//! The programs: which columns each counts, where it runs, and how.

use super::asm::{Assembler, Helper, Instruction, R0, R1, R2, R6, R7, Reg};
use super::sys::Purpose;
use millpond_model::Column;
use std::ffi::CStr;

/// Words that a processor has to itself: two cache lines, so that processors do not slow each other.
pub(super) const ROW_WORDS: usize = 16;
/// The same as a shift of bytes.
const ROW_SHIFT: i32 = 7;

/// Where the words of the processors are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    /// The map.
    pub(super) map: i32,
    /// The highest processor that has a row.
    pub(super) cpu_max: i32,
}

/// A program and what it is for.
#[derive(Debug, Clone)]
pub(super) struct Program {
    /// What it counts. A column may need several programs.
    pub(super) columns: &'static [Column],
    /// Where it runs, in words.
    pub(super) name: String,
    /// Where it runs.
    pub(super) purpose: Purpose,
    /// It may be lacking: other machines have other interrupts.
    pub(super) optional: bool,
    /// What it does.
    pub(super) code: Vec<Instruction>,
}

/// Interrupts have a tracepoint each; which there are depends on the architecture. The first is for devices,
/// and everywhere; `ipi_entry` is for Arm and others, the rest for x86.
const INTERRUPTS: [&CStr; 13] = [
    c"irq_handler_entry",
    c"ipi_entry",
    c"local_timer_entry",
    c"reschedule_entry",
    c"call_function_entry",
    c"call_function_single_entry",
    c"irq_work_entry",
    c"x86_platform_ipi_entry",
    c"spurious_apic_entry",
    c"error_apic_entry",
    c"thermal_apic_entry",
    c"threshold_apic_entry",
    c"deferred_error_apic_entry",
];

/// Soft interrupts that finish the work of devices, as bits: HI 0, NET_TX 2, NET_RX 3, BLOCK 4, IRQ_POLL 5,
/// TASKLET 6. The others (TIMER, SCHED, HRTIMER, RCU) belong to clocks.
const DEVICE_SOFTIRQS: [i32; 6] = [0, 2, 3, 4, 5, 6];

/// Every program that is attached once for the whole machine.
pub(super) fn all(rows: Rows) -> Vec<Program> {
    let mut programs = vec![
        at(&[Column::Csw, Column::Icsw], c"sched_switch", switch(rows)),
        at(&[Column::Migr], c"sched_migrate_task", migration(rows)),
        at(&[Column::Ithr], c"softirq_entry", softirq(rows)),
        at(&[Column::Ithr], c"irq_handler_exit", threaded(rows)),
        at(&[Column::Xcal], c"ipi_send_cpu", call(rows)),
        at(&[Column::Xcal], c"ipi_send_cpumask", call(rows)),
        at(&[Column::Smtx, Column::Srw], c"contention_begin", contention(rows)),
        at(&[Column::Syscl], c"sys_enter", plain(rows, Column::Syscl)),
        at(&[Column::Minf], c"page_fault_user", plain(rows, Column::Minf)),
        at(&[Column::Minf], c"page_fault_kernel", plain(rows, Column::Minf)),
    ];
    for (index, name) in INTERRUPTS.into_iter().enumerate() {
        let program = at(&[Column::Intr], name, plain(rows, Column::Intr));
        programs.push(Program { optional: index > 0, ..program });
    }
    programs
}

/// The program for an event of a single processor.
pub(super) fn of_event(rows: Rows, column: Column) -> Vec<Instruction> {
    plain(rows, column)
}

fn at(columns: &'static [Column], name: &'static CStr, code: Vec<Instruction>) -> Program {
    let purpose = Purpose::Tracepoint(name);
    Program { columns, name: name.to_string_lossy().into_owned(), purpose, optional: false, code }
}

/// The offset of an argument.
const fn argument(number: i16) -> i16 {
    number * 8
}

/// Leaves in `R7` the row of the processor whose number is in `R0`, or ends the program.
fn row(asm: &mut Assembler, rows: Rows) {
    let end = asm.label();
    asm.if_above(R0, rows.cpu_max, end);
    asm.shift_left(R0, ROW_SHIFT);
    asm.address_of_map(R7, rows.map);
    asm.add_register(R7, R0);
}

/// Begins a program: its arguments behind `R6`, the row of its processor behind `R7`.
fn begin(rows: Rows) -> Assembler {
    let mut asm = Assembler::default();
    asm.copy(R6, R1);
    asm.call(Helper::ProcessorId);
    row(&mut asm, rows);
    asm
}

/// Counts one in a column.
fn count(asm: &mut Assembler, column: Column) {
    // Eleven columns fit into sixteen words.
    let offset = i16::try_from(column.index() * size_of::<u64>()).unwrap_or(0);
    asm.set(R2, 1);
    asm.add_to_memory(R7, offset, R2);
}

/// The lower half of an argument.
fn half_argument(asm: &mut Assembler, to: Reg, number: i16) {
    asm.load(to, R6, argument(number));
    asm.copy_half(to, to);
}

fn plain(rows: Rows, column: Column) -> Vec<Instruction> {
    let mut asm = begin(rows);
    count(&mut asm, column);
    asm.finish()
}

/// Arguments: preempted, previous task, next task, state of the previous one (0: it could go on).
fn switch(rows: Rows) -> Vec<Instruction> {
    let mut asm = begin(rows);
    count(&mut asm, Column::Csw);
    let (involuntary, end) = (asm.label(), asm.label());
    // The idle thread is never preempted: it has nothing better to do. Its number is 0.
    asm.call(Helper::CurrentTask);
    asm.copy_half(R0, R0);
    asm.if_equal(R0, 0, end);
    asm.load(R1, R6, argument(0));
    asm.if_any_bit(R1, 0xff, involuntary);
    half_argument(&mut asm, R1, 3);
    asm.if_other(R1, 0, end);
    asm.place(involuntary);
    count(&mut asm, Column::Icsw);
    asm.finish()
}

/// Arguments: task, where it goes. Counted there.
fn migration(rows: Rows) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    asm.copy(R6, R1);
    half_argument(&mut asm, R0, 1);
    row(&mut asm, rows);
    count(&mut asm, Column::Migr);
    asm.finish()
}

/// Argument: which.
fn softirq(rows: Rows) -> Vec<Instruction> {
    let mut asm = begin(rows);
    let (device, end) = (asm.label(), asm.label());
    half_argument(&mut asm, R1, 0);
    for number in DEVICE_SOFTIRQS {
        asm.if_equal(R1, number, device);
    }
    asm.set(R1, 0);
    asm.if_equal(R1, 0, end);
    asm.place(device);
    count(&mut asm, Column::Ithr);
    asm.finish()
}

/// Arguments: number, action, result. A result with bit 1 wakes the thread that handles the interrupt.
fn threaded(rows: Rows) -> Vec<Instruction> {
    const WAKES_THREAD: i32 = 1 << 1;
    let mut asm = begin(rows);
    let end = asm.label();
    half_argument(&mut asm, R1, 2);
    asm.and(R1, WAKES_THREAD);
    asm.if_equal(R1, 0, end);
    count(&mut asm, Column::Ithr);
    asm.finish()
}

/// Arguments: whom, from where, what to call. Without a function it is a nudge, not a call.
fn call(rows: Rows) -> Vec<Instruction> {
    let mut asm = begin(rows);
    let end = asm.label();
    asm.load(R1, R6, argument(2));
    asm.if_equal(R1, 0, end);
    count(&mut asm, Column::Xcal);
    asm.finish()
}

/// Arguments: lock, flags (spinning 1, reader 2, writer 4, real-time 8, mutex 32).
fn contention(rows: Rows) -> Vec<Instruction> {
    let mut asm = begin(rows);
    let (no_mutex, mutex, end) = (asm.label(), asm.label(), asm.label());
    half_argument(&mut asm, R1, 1);
    // A mutex that spins: once per mutex that was not free. Or one of a real-time kernel.
    asm.copy(R2, R1);
    asm.and(R2, 33);
    asm.if_equal(R2, 33, mutex);
    asm.copy(R2, R1);
    asm.and(R2, 8 | 2 | 4);
    asm.if_other(R2, 8, no_mutex);
    asm.place(mutex);
    count(&mut asm, Column::Smtx);
    asm.place(no_mutex);
    // A reader or writer about to block.
    half_argument(&mut asm, R1, 1);
    asm.if_any_bit(R1, 1, end);
    asm.and(R1, 2 | 4);
    asm.if_equal(R1, 0, end);
    count(&mut asm, Column::Srw);
    asm.finish()
}
