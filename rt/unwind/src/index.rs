//! `.eh_frame_hdr`: the linker's table of all entries, sorted by the addresses of functions.

use super::bytes::Image;

/// The only encoding that linkers use: four bytes, relative to the beginning of the section.
const FROM_SECTION: u8 = 0x3b;

/// The address of the entry for the last function that begins at or before `place`. `section` is the address of the table's section. `None`: there is
/// no such function, or the table is damaged or has another encoding.
pub(super) fn find(image: Image<'_>, section: usize, place: usize) -> Option<usize> {
    let mut bytes = image.from(section)?;
    let (version, frames, count, table) = (bytes.u8()?, bytes.u8()?, bytes.u8()?, bytes.u8()?);
    if version != 1 || table != FROM_SECTION {
        return None;
    }
    bytes.number(frames)?;
    let count = bytes.number(count)?;
    let (rows, _) = bytes.take(count.checked_mul(8)?)?.rest.as_chunks::<8>();
    let at = |row: &[u8; 8]| -> (usize, usize) {
        let [a, b, c, d, e, f, g, h] = *row;
        (from(section, [a, b, c, d]), from(section, [e, f, g, h]))
    };
    let next = rows.partition_point(|row| at(row).0 <= place);
    rows.get(next.checked_sub(1)?).map(|row| at(row).1)
}

fn from(section: usize, offset: [u8; 4]) -> usize {
    let offset = i64::from(i32::from_le_bytes(offset));
    isize::try_from(offset).map_or(0, |offset| section.wrapping_add_signed(offset))
}
