//! Parser of memory maps: the text of `/proc/PID/maps`.

use millpond_machine::facets::Mapping;

/// The mappings of all valid lines, in file order, which is ascending.
pub(crate) fn parse_maps(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(line).collect()
}

/// `7f1c-7f1d rw-p 00000000 fe:00 123   /usr/lib/libc.so.6`.
fn line(line: &str) -> Option<Mapping> {
    let (range, rest) = line.split_once(' ')?;
    let (begin, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let mut fields = rest.splitn(4, ' ');
    let (rights, offset, _device, inode) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let file = inode.trim_start().split_once(' ').map_or("", |(_, file)| file.trim());
    let (begin, end) = (number(begin)?, number(end)?);
    (begin < end).then(|| Mapping {
        begin,
        end,
        readable: rights.starts_with('r'),
        writable: rights.contains('w'),
        shared: rights.contains('s'),
        offset: number(offset).unwrap_or(0),
        file: file.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0c0000000-55d0c0001000 r-xp 00003000 fe:00 1234       /usr/bin/server worker
7f2a08000000-7f2a08021000 rw-p 00000000 00:00 0 
7f2a09000000-7f2a09001000 ---p 00000000 00:00 0 
7f2a0a000000-7f2a0a001000 rw-s 00001000 00:05 77                         /dev/shm/ring (deleted)
7ffd0000000-7ffd0021000 rw-p 00000000 00:00 0                            [stack]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

    #[test]
    fn every_line_is_a_mapping() {
        let maps = parse_maps(MAPS);
        let rights: Vec<_> = maps.iter().map(|m| (m.readable, m.writable, m.shared)).collect();
        let plain = (true, true, false);
        let none = (false, false, false);
        assert_eq!(rights, [(true, false, false), plain, none, (true, true, true), plain, none]);
        assert_eq!((maps[0].offset, maps[0].module()), (0x3000, "server worker"));
        assert_eq!(
            (maps[1].begin, maps[1].end, maps[1].file.as_str()),
            (0x7f2a_0800_0000, 0x7f2a_0802_1000, "")
        );
        assert_eq!((maps[3].file.as_str(), maps[4].file.as_str()), ("/dev/shm/ring (deleted)", "[stack]"));
    }

    #[test]
    fn fuzz_maps() {
        millpond_fuzz::check_text("linux-mappings", &[MAPS], |text| {
            assert!(parse_maps(text).iter().all(|mapping| mapping.begin < mapping.end));
        });
    }
}
