//! Names of the kernel's functions by their addresses (`/proc/kallsyms`).

use crate::Root;

/// Functions by address, ascending. Empty where the kernel hides its addresses.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    functions: Vec<(u64, String)>,
}

impl Symbols {
    /// Reads `/proc/kallsyms`.
    pub(super) fn read(root: &Root) -> Symbols {
        Symbols::parse(&root.read(&root.proc.join("kallsyms")).ok().flatten().unwrap_or_default())
    }

    fn parse(text: &str) -> Symbols {
        let mut functions: Vec<(u64, String)> = text.lines().filter_map(parse_line).collect();
        // If an address has several names, the kernel uses the first one in the file.
        functions.sort_by_key(|(address, _)| *address);
        functions.dedup_by_key(|(address, _)| *address);
        Symbols { functions }
    }

    /// Whether the kernel hides its addresses.
    pub(super) fn are_hidden(&self) -> bool {
        self.functions.is_empty()
    }

    /// The function that contains an address.
    pub(super) fn name(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|(start, _)| *start <= address);
        let (_, name) = self.functions.get(after.checked_sub(1)?)?;
        Some(name)
    }

    /// The address of a function.
    pub(super) fn address(&self, name: &str) -> Option<u64> {
        self.functions.iter().find(|(_, known)| known == name).map(|(address, _)| *address)
    }
}

/// `ffffffff81000000 T _stext` or, of a module, `ffffffffc0000000 t work [virtio]`.
fn parse_line(line: &str) -> Option<(u64, String)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok().filter(|address| *address > 0)?;
    let is_function = matches!(words.next()?, "t" | "T" | "w" | "W");
    // A variant by the compiler (`.constprop`) counts as the function itself.
    let name = words.next()?;
    let name = name.split_once(".constprop").map_or(name, |(name, _)| name);
    is_function.then(|| (address, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "ffffffff81000000 T _stext\n\
        ffffffff81000000 T first\n\
        ffffffff81000200 t tick_nohz_handler\n\
        ffffffff81000300 D some_data\n\
        ffffffffc0000010 t work.constprop.0\t[virtio]\n";

    #[test]
    fn an_address_lies_in_the_function_that_begins_before_it() {
        let symbols = Symbols::parse(TEXT);
        assert_eq!(symbols.name(0xffff_ffff_8100_0000), Some("_stext"));
        assert_eq!(symbols.name(0xffff_ffff_8100_0234), Some("tick_nohz_handler"));
        assert_eq!(symbols.name(0xffff_ffff_c000_0010), Some("work"));
        assert_eq!(symbols.name(5), None);
        assert_eq!(symbols.address("tick_nohz_handler"), Some(0xffff_ffff_8100_0200));
        assert_eq!(symbols.address("some_data"), None);
    }

    #[test]
    fn hidden_addresses_have_no_names() {
        let symbols = Symbols::parse("0000000000000000 T _stext\n0000000000000000 t work\n");
        assert!(symbols.are_hidden());
        assert_eq!(symbols.name(0), None);
    }

    #[test]
    fn fuzz_names_of_functions() {
        millpond_fuzz::check_text("linux-symbols", &[TEXT, "0 T x\n", "zz t\n"], |text| {
            let symbols = Symbols::parse(text);
            for (address, name) in &symbols.functions {
                assert_eq!(symbols.name(*address), Some(name.as_str()));
            }
        });
    }
}
