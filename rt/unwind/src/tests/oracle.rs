//! Compares the rows of whole libraries with the output of readelf for each place.

use super::super::bytes::Image;
use super::super::row::{Address, Pointer, Row};
use super::super::{index, program};
use std::path::PathBuf;
use std::process::Command;

/// A library file, with the segment that contains its call frame information.
pub(super) struct File {
    bytes: Vec<u8>,
    segment: std::ops::Range<usize>,
    address: usize,
    pub(super) section: usize,
}

impl File {
    pub(super) fn read(path: &PathBuf) -> File {
        let bytes = std::fs::read(path).unwrap();
        let number = |at: usize, size: usize| {
            let mut word = [0; 8];
            word[..size].copy_from_slice(&bytes[at..at + size]);
            usize::from_le_bytes(word)
        };
        let (headers, count) = (number(32, 8), number(56, 2));
        // Kind, offset, address and size in the file of each program header.
        let headers: Vec<[usize; 4]> = (0..count)
            .map(|header| headers + 56 * header)
            .map(|at| [number(at, 4), number(at + 8, 8), number(at + 16, 8), number(at + 32, 8)])
            .collect();
        let section = headers.iter().find(|header| header[0] == 0x6474_e550).unwrap()[2];
        let [_, offset, address, size] = *headers
            .iter()
            .find(|header| header[0] == 1 && (header[2]..header[2] + header[3]).contains(&section))
            .unwrap();
        File { bytes, segment: offset..offset + size, address, section }
    }

    pub(super) fn image(&self) -> Image<'_> {
        Image { address: self.address, bytes: &self.bytes[self.segment.clone()] }
    }

    fn row(&self, place: usize) -> Option<Row> {
        let entry = index::find(self.image(), self.section, place)?;
        program::row(self.image(), entry, place)
    }
}

/// The libraries of this process.
pub(super) fn libraries() -> Vec<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut files: Vec<PathBuf> =
        maps.lines().filter_map(|line| line.find('/').map(|at| line[at..].into())).collect();
    files.sort();
    files.dedup();
    files.retain(|file| {
        let name = file.file_name().unwrap().to_string_lossy();
        ["libc.so", "libgcc_s.so", "ld-linux", "libm.so"].iter().any(|begin| name.starts_with(begin))
    });
    files
}

/// The row for readelf's columns. `None`: it is not supported.
fn expected(columns: &[&str], row: &[&str]) -> Option<Row> {
    let column = |name: &str| columns.iter().position(|column| *column == name).map(|at| row[at]);
    let words = |text: &str| text.parse::<u32>().unwrap() / 8;
    match column("ra")? {
        "c-8" => {}
        "u" => return Some(Row::End),
        _ => return None,
    }
    let address = match column("CFA").unwrap().split_once('+')? {
        ("rsp", bytes) => Address::AboveStack(words(bytes)),
        ("rbp", bytes) => Address::AboveFrame(words(bytes)),
        _ => return None,
    };
    let pointer = match column("rbp") {
        None | Some("u" | "s") => Pointer::Kept,
        Some(text) => match text.strip_prefix("c-") {
            Some(bytes) => Pointer::Below(u8::try_from(words(bytes)).unwrap()),
            None => Pointer::Lost,
        },
    };
    Some(Row::Frame { address, pointer })
}

#[test]
fn rows_are_those_that_readelf_shows() {
    let name = "rows_are_those_that_readelf_shows";
    if !Command::new("readelf").arg("--version").output().is_ok_and(|out| out.status.success()) {
        return println!("skipped: {name}: there is no readelf (binutils)");
    }
    let mut compared = 0;
    for path in libraries() {
        let file = File::read(&path);
        let out = Command::new("readelf").arg("--debug-dump=frames-interp").arg(&path).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout);
        let (mut end, mut columns, mut rows) = (0, Vec::new(), Vec::new());
        for line in text.lines().chain([""]) {
            // A register has a second name in brackets.
            let words: Vec<&str> = line.split_whitespace().filter(|word| !word.starts_with('(')).collect();
            if let Some((_, range)) = line.split_once(" pc=") {
                end = usize::from_str_radix(range.split_once("..").unwrap().1.trim(), 16).unwrap();
            } else if words.first() == Some(&"LOC") {
                columns = words.iter().map(|word| (*word).to_owned()).collect();
            } else if words.len() == columns.len() && end != 0 && words[0].len() == 16 {
                let place = usize::from_str_radix(words[0], 16).unwrap();
                rows.push((place, words[1..].iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()));
            } else if words.is_empty() {
                let columns: Vec<&str> = columns.iter().skip(1).map(String::as_str).collect();
                for (at, (place, row)) in rows.iter().enumerate() {
                    let next = rows.get(at + 1).map_or(end, |(next, _)| *next);
                    let row: Vec<&str> = row.iter().map(String::as_str).collect();
                    // Expressions have tests of their own.
                    if next > *place && row[0] != "exp" {
                        compared += 1;
                        let expected = expected(&columns, &row);
                        for place in [*place, next - 1] {
                            assert_eq!(file.row(place), expected, "{} {place:#x}", path.display());
                        }
                    }
                }
                (end, rows) = (0, Vec::new());
            }
        }
    }
    assert!(compared > 10_000, "{compared}");
    println!("compared: {compared} rows");
}
