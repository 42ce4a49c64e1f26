//! Entries that are written by hand after the DWARF standard; and nearly correct entries, which must be refused or parsed, without a panic.

use super::super::bytes::Image;
use super::super::row::{Address, Pointer, Row};
use super::super::{index, program};
use super::oracle::{File, libraries};

/// Address and size of the code of the entries below.
const CODE: usize = 0x4000;
const CODE_SIZE: usize = 0x100;

/// Address of the entries.
const HERE: usize = 0x1000;

/// A common part and an entry with these programs. Returns the address of the entry.
fn entries(augmentation: &[u8], data: &[u8], common: &[u8], program: &[u8]) -> (Vec<u8>, usize) {
    let mut bytes = Vec::new();
    let record = |bytes: &mut Vec<u8>, content: &[u8]| {
        bytes.extend(u32::try_from(content.len()).unwrap().to_le_bytes());
        bytes.extend(content);
    };
    // Version 1, code unit 1, data unit -8, return address in column 16.
    let content = [&[0, 0, 0, 0, 1], augmentation, &[0, 1, 0x78, 16], data, common].concat();
    record(&mut bytes, &content);
    let entry = bytes.len();
    let back = u32::try_from(entry + 4).unwrap().to_le_bytes();
    let begin = i32::try_from(CODE - (HERE + entry + 8)).unwrap().to_le_bytes();
    let size = u32::try_from(CODE_SIZE).unwrap().to_le_bytes();
    let block: &[u8] = if augmentation.starts_with(b"z") { &[0] } else { &[] };
    record(&mut bytes, &[&back[..], &begin, &size, block, program].concat());
    bytes.extend([0; 4]);
    (bytes, HERE + entry)
}

/// The state at the entry of every function: the frame address is 8 above the stack pointer, the return address directly below it.
const USUAL: &[u8] = &[0x0c, 7, 8, 0x90, 1];

/// The row at an offset into a function with that program.
fn row(program: &[u8], place: usize) -> Option<Row> {
    let (bytes, entry) = entries(b"zR", &[1, 0x1b], USUAL, program);
    program::row(Image { address: HERE, bytes: &bytes }, entry, CODE + place)
}

fn above_stack(words: u32, pointer: Pointer) -> Option<Row> {
    Some(Row::Frame { address: Address::AboveStack(words), pointer })
}

fn above_frame(words: u32, pointer: Pointer) -> Option<Row> {
    Some(Row::Frame { address: Address::AboveFrame(words), pointer })
}

#[test]
fn a_function_that_keeps_the_frame_pointer_is_followed_step_by_step() {
    // push rbp at 0; mov rbp, rsp at 1; leave and ret at 0x40.
    let program = [0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x02, 0x3d, 0x0c, 7, 8, 0xc6];
    assert_eq!(row(&program, 0), above_stack(1, Pointer::Kept));
    assert_eq!(row(&program, 1), above_stack(2, Pointer::Below(2)));
    assert_eq!(row(&program, 3), above_stack(2, Pointer::Below(2)));
    assert_eq!(row(&program, 4), above_frame(2, Pointer::Below(2)));
    assert_eq!(row(&program, 0x40), above_frame(2, Pointer::Below(2)));
    assert_eq!(row(&program, 0x41), above_stack(1, Pointer::Kept));
    assert_eq!(row(&program, 0xff), above_stack(1, Pointer::Kept));
    assert_eq!(row(&program, 0x100), None, "behind the function");
    let (bytes, entry) = entries(b"zR", &[1, 0x1b], USUAL, &program);
    assert_eq!(program::row(Image { address: HERE, bytes: &bytes }, entry, CODE - 1), None);
}

#[test]
fn each_instruction_does_what_the_standard_says() {
    let at_end = |program: &[u8]| row(program, 0x80);
    for (program, expected) in [
        (&[][..], above_stack(1, Pointer::Kept)),
        (&[0x00, 0x00, 0x0e, 32], above_stack(4, Pointer::Kept)),
        (&[0x0e, 0x80, 0x80, 4], above_stack(0x2000, Pointer::Kept)),
        (&[0x03, 0x10, 0, 0x0e, 16, 0x04, 0x10, 0, 0, 0, 0x0e, 24], above_stack(3, Pointer::Kept)),
        (&[0x05, 6, 3], above_stack(1, Pointer::Below(3))),
        (&[0x86, 3, 0x06, 6], above_stack(1, Pointer::Kept)),
        (&[0x86, 3, 0x08, 6], above_stack(1, Pointer::Kept)),
        (&[0x07, 6], above_stack(1, Pointer::Lost)),
        (&[0x07, 16], Some(Row::End)),
        (&[0x09, 6, 3], above_stack(1, Pointer::Lost)),
        (&[0x11, 6, 2], above_stack(1, Pointer::Below(2))),
        (&[0x12, 7, 0x7e], above_stack(2, Pointer::Kept)),
        (&[0x13, 0x7d], above_stack(3, Pointer::Kept)),
        (&[0x14, 6, 2], above_stack(1, Pointer::Lost)),
        (&[0x15, 6, 2], above_stack(1, Pointer::Lost)),
        (&[0x16, 6, 2, 0x76, 8], above_stack(1, Pointer::Lost)),
        (&[0x2e, 16], above_stack(1, Pointer::Kept)),
        (&[0x2f, 3, 5], above_stack(1, Pointer::Kept)),
        (&[0x0a, 0x0e, 64, 0x86, 2, 0x0b], above_stack(1, Pointer::Kept)),
        (&[0x0e, 64, 0x86, 2, 0x0a, 0x0c, 6, 16, 0xc6, 0x0b], above_stack(8, Pointer::Below(2))),
        // Rules of other registers are ignored, but their operands are read.
        (
            &[0x83, 2, 0x8c, 3, 0x05, 12, 4, 0xc3, 0x10, 3, 2, 0x76, 8, 0x0e, 16],
            above_stack(2, Pointer::Kept),
        ),
        // A function that aligns its stack: the frame address in r10, then in memory.
        (&[0x0c, 10, 0], None),
        (&[0x10, 6, 2, 0x76, 0, 0x0f, 3, 0x76, 0x78, 6], stored(1, Pointer::AtFrame)),
        (&[0x10, 6, 2, 0x76, 0, 0x0f, 3, 0x76, 0x58, 6], stored(5, Pointer::AtFrame)),
        (&[0x10, 6, 2, 0x76, 8, 0x0f, 3, 0x76, 0x58, 6], stored(5, Pointer::Lost)),
        // Unsupported rules.
        (&[0x0f, 2, 0x77, 8], None),
        (&[0x0f, 4, 0x76, 0x78, 6, 6], None),
        (&[0x0c, 3, 16], None),
        (&[0x0e, 17], None),
        (&[0x90, 2], None),
        (&[0x0b], None),
        (&[0x17], None),
        (&[0x3f], None),
        (&[0x0f, 3, 0x76, 0x78, 6, 0x0e, 16], None),
        // Truncated instructions.
        (&[0x0e], None),
        (&[0x0c, 7], None),
        (&[0x0e, 0x80], None),
        (&[0x02], None),
        (&[0x0f, 9, 0x76], None),
        (&[0x86], None),
    ] {
        assert_eq!(at_end(program), expected, "{program:x?}");
    }
    assert_eq!(at_end(&[0x0a; 8]), above_stack(1, Pointer::Kept));
    assert_eq!(at_end(&[0x0a; 9]), None, "remembered too often");
}

fn stored(words: u32, pointer: Pointer) -> Option<Row> {
    Some(Row::Frame { address: Address::StoredBelowFrame(words), pointer })
}

#[test]
fn a_stub_of_the_linker_has_two_rows_by_the_last_four_bits() {
    // Lazy binding stubs of GNU ld; 11 is the offset after the stub has pushed its number.
    for pushed in [10_u8, 11] {
        let program = [0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x30 + pushed, 0x2a, 0x33, 0x24, 0x22];
        for place in 0..48 {
            let words = if place % 16 < usize::from(pushed) { 1 } else { 2 };
            assert_eq!(row(&program, place), above_stack(words, Pointer::Kept), "{place}");
        }
    }
}

#[test]
fn common_parts_are_read_with_all_that_compilers_put_there() {
    let row = |augmentation: &[u8], data: &[u8]| {
        let (bytes, entry) = entries(augmentation, data, USUAL, &[0x0e, 16]);
        program::row(Image { address: HERE, bytes: &bytes }, entry, CODE)
    };
    let usual = above_stack(2, Pointer::Kept);
    assert_eq!(row(b"zR", &[1, 0x1b]), usual);
    assert_eq!(row(b"zPLR", &[7, 0x9b, 1, 2, 3, 4, 0x1b, 0x1b]), usual);
    assert_eq!(row(b"zRS", &[1, 0x1b]), Some(Row::Signal));
    for (augmentation, data) in [
        (&b"zX"[..], &[1, 0x1b][..]),
        (b"eh", &[]),
        (b"zR", &[0]),
        (b"zR", &[200, 0x1b]),
        (b"zR", &[1, 0xff]),
        (b"zP", &[1, 0xff]),
        (b"zPR", &[3, 0x1b, 1, 2]),
    ] {
        assert_eq!(row(augmentation, data), None, "{augmentation:?} {data:x?}");
    }
}

#[test]
fn a_table_is_searched_and_one_that_is_damaged_refused() {
    let table = |places: &[i32]| {
        let mut bytes = vec![1, 0x1b, 3, 0x3b, 0, 0, 0, 0];
        bytes.extend(u32::try_from(places.len()).unwrap().to_le_bytes());
        for (at, place) in places.iter().enumerate() {
            bytes.extend(place.to_le_bytes());
            bytes.extend(i32::try_from(0x100 * (at + 1)).unwrap().to_le_bytes());
        }
        bytes
    };
    let find = |bytes: &[u8], place| index::find(Image { address: HERE, bytes }, HERE, place);
    let three = table(&[-0x800, 0x3000, 0x3010]);
    for (place, entry) in [
        (0x7ff, None),
        (0x800, Some(0x1100)),
        (0x3fff, Some(0x1100)),
        (0x4000, Some(0x1200)),
        (0x400f, Some(0x1200)),
        (0x4010, Some(0x1300)),
        (usize::MAX, Some(0x1300)),
    ] {
        assert_eq!(find(&three, place), entry, "{place:#x}");
    }
    assert_eq!(find(&table(&[]), 0x4000), None);
    for length in 0..three.len() {
        assert_eq!(find(&three[..length], 0x4000), None, "cut to {length}");
    }
    for (at, byte) in [(0, 2), (1, 0xff), (2, 0xff), (3, 0x1b), (3, 0xff), (8, 4), (11, 0xff)] {
        let mut bytes = three.clone();
        bytes[at] = byte;
        assert_eq!(find(&bytes, 0x4000), None, "{at}: {byte:#x}");
    }
    assert_eq!(index::find(Image { address: HERE, bytes: &three }, HERE - 1, 0x4000), None);
}

#[test]
fn fuzz_entries_that_are_almost_right_are_refused_or_understood() {
    let programs: [&[u8]; 4] = [
        &[0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x02, 0x3d, 0x0c, 7, 8, 0xc6],
        &[0x0a, 0x0e, 64, 0x86, 2, 0x0b, 0x10, 6, 2, 0x76, 0, 0x0f, 3, 0x76, 0x78, 6],
        &[0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22],
        &[0x03, 0x10, 0, 0x12, 7, 0x7e, 0x13, 0x7d, 0x16, 6, 2, 0x76, 8, 0x2e, 16, 0x2f, 3, 5, 0x11, 6, 2],
    ];
    let mut seeds: Vec<Vec<u8>> =
        programs.iter().map(|program| entries(b"zR", &[1, 0x1b], USUAL, program).0).collect();
    seeds.push(entries(b"zPLR", &[7, 0x9b, 1, 2, 3, 4, 0x1b, 0x1b], USUAL, programs[0]).0);
    let seeds: Vec<&[u8]> = seeds.iter().map(Vec::as_slice).collect();
    millpond_fuzz::check("rt-umem-frames-entry", &seeds, |bytes| {
        let image = Image { address: HERE, bytes };
        for entry in HERE..HERE + bytes.len() {
            for place in [CODE, CODE + 3, CODE + 0x80] {
                if let Some(row) = program::row(image, entry, place) {
                    assert_packed(row);
                }
            }
        }
    });
}

#[test]
fn fuzz_tables_and_entries_of_a_real_library_may_be_damaged() {
    let Some(path) = libraries().pop() else {
        return println!(
            "skipped: fuzz_tables_and_entries_of_a_real_library_may_be_damaged: there is no shared library here"
        );
    };
    let file = File::read(&path);
    let (image, section) = (file.image(), file.section);
    // The table, and the beginning of the entries after it.
    let from = section - image.address;
    let seed = image.bytes[from..image.bytes.len().min(from + 20_000)].to_vec();
    millpond_fuzz::check("rt-umem-frames-table", &[&seed], move |bytes| {
        let image = Image { address: section, bytes };
        for step in 0..64 {
            let place = image.address.wrapping_sub(step * 0x1357) & 0x7fff_ffff_ffff;
            if let Some(entry) = index::find(image, section, place)
                && let Some(row) = program::row(image, entry, place)
            {
                assert_packed(row);
            }
        }
    });
}

/// A row fits into its bits, or becomes `End`.
fn assert_packed(row: Row) {
    let bits = Row::unpack(row.pack());
    assert!(bits == row || bits == Row::End, "{row:?}");
}
