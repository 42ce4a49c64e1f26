//! Scanner for Rust files: separates code, literals and test items.

/// A scanned file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scan {
    /// The lines of the file, with blanked comments and literals.
    pub code: Vec<String>,
    /// String literals with their start lines (from 1) and their text as written.
    pub literals: Vec<(usize, String)>,
    /// For each line, whether it belongs to an item with `#[cfg(test)]`.
    pub is_test: Vec<bool>,
}

impl Scan {
    /// Scans `text`. Never fails; text that is not Rust gives a meaningless scan.
    #[must_use]
    pub fn of(text: &str) -> Scan {
        let mut reader =
            Reader { text: text.as_bytes(), at: 0, line: 1, code: Vec::new(), literals: Vec::new() };
        reader.read();
        let blanked = String::from_utf8_lossy(&reader.code).into_owned();
        let code: Vec<String> = blanked.lines().map(str::to_owned).collect();
        let is_test = test_lines(&blanked, code.len());
        Scan { code, literals: reader.literals, is_test }
    }

    /// Whether the line, counted from 1, belongs to the file's tests.
    #[must_use]
    pub fn is_test_line(&self, line: usize) -> bool {
        self.is_test.get(line.wrapping_sub(1)).copied().unwrap_or(false)
    }
}

/// Reads the bytes once. `code` grows in step with `at`, so positions in both agree.
struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    line: usize,
    code: Vec<u8>,
    literals: Vec<(usize, String)>,
}

impl Reader<'_> {
    fn read(&mut self) {
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            let after_word = self.code.last().is_some_and(|&b| b.is_ascii_alphanumeric() || b == b'_');
            if rest.starts_with(b"//") {
                self.blank_until(|rest| rest[0] == b'\n');
            } else if rest.starts_with(b"/*") {
                self.block_comment();
            } else if rest[0] == b'"' {
                self.string();
            } else if rest[0] == b'r'
                && (!after_word || self.follows_byte_mark())
                && raw_hashes(rest).is_some()
            {
                self.raw_string();
            } else if rest[0] == b'\'' && char_len(rest).is_some() {
                self.blank(char_len(rest).unwrap_or(1));
            } else {
                self.keep();
            }
        }
    }

    /// Whether the preceding byte is the `b` or `c` of `br"…"`, and not the end of a word.
    fn follows_byte_mark(&self) -> bool {
        match self.code.as_slice() {
            [.., before, b'b' | b'c'] => !(before.is_ascii_alphanumeric() || *before == b'_'),
            [b'b' | b'c'] => true,
            _ => false,
        }
    }

    fn keep(&mut self) {
        let byte = self.text[self.at];
        self.line += usize::from(byte == b'\n');
        self.code.push(byte);
        self.at += 1;
    }

    fn blank(&mut self, bytes: usize) {
        for _ in 0..bytes.min(self.text.len() - self.at) {
            let byte = self.text[self.at];
            self.line += usize::from(byte == b'\n');
            self.code.push(if byte == b'\n' { b'\n' } else { b' ' });
            self.at += 1;
        }
    }

    fn blank_until(&mut self, is_end: impl Fn(&[u8]) -> bool) {
        while self.at < self.text.len() && !is_end(&self.text[self.at..]) {
            self.blank(1);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            let (step, deeper) = match rest {
                [b'/', b'*', ..] => (2, 1),
                [b'*', b'/', ..] => (2, -1),
                _ => (1, 0),
            };
            depth = depth.saturating_add_signed(deeper);
            self.blank(step);
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.keep();
        let (start, line) = (self.at, self.line);
        while self.at < self.text.len() && self.text[self.at] != b'"' {
            self.blank(if self.text[self.at] == b'\\' { 2 } else { 1 });
        }
        self.literal(start, line);
        self.blank(1);
    }

    fn raw_string(&mut self) {
        let hashes = raw_hashes(&self.text[self.at..]).unwrap_or(0);
        self.blank(hashes + 2);
        let (start, line) = (self.at, self.line);
        let end: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
        self.blank_until(|rest| rest.starts_with(&end));
        self.literal(start, line);
        self.blank(end.len());
    }

    fn literal(&mut self, start: usize, line: usize) {
        let text = String::from_utf8_lossy(&self.text[start..self.at]).into_owned();
        self.literals.push((line, text));
    }
}

/// The number of hashes, if a raw string begins here.
fn raw_hashes(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|&&b| b == b'#').count();
    (rest.get(hashes + 1) == Some(&b'"')).then_some(hashes)
}

/// The length of the character literal that begins here; `None` for a lifetime.
fn char_len(rest: &[u8]) -> Option<usize> {
    match rest.get(1)? {
        b'\\' => rest.get(3..)?.iter().position(|&b| b == b'\'').map(|end| end + 4),
        &first => {
            let width = match first {
                0x00..=0x7f => 1,
                0xc0..=0xdf => 2,
                0xe0..=0xef => 3,
                _ => 4,
            };
            (rest.get(width + 1) == Some(&b'\'')).then_some(width + 2)
        }
    }
}

/// The lines of items with `#[cfg(test)]`, alone or combined: from the attribute to the end of the item's block.
fn test_lines(code: &str, lines: usize) -> Vec<bool> {
    const MARKS: [&str; 2] = ["#[cfg(test)]", "#[cfg(all(test, "];
    let mut is_test = vec![false; lines];
    let mut from = 0;
    while let Some(found) = MARKS.iter().filter_map(|mark| code[from..].find(mark)).min() {
        let start = from + found;
        let attribute = code[start..].find(']').map_or(code.len(), |end| start + end + 1);
        let end = item_end(code.as_bytes(), attribute);
        let first = code[..start].matches('\n').count();
        let last = code[..end].matches('\n').count();
        is_test[first..=last.min(lines - 1)].fill(true);
        from = end;
    }
    is_test
}

/// The position after the `;` or block that ends the item.
fn item_end(code: &[u8], from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.iter().enumerate().skip(from) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return at + 1,
            b'}' => depth -= 1,
            b';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_no_code_and_hold_no_literals() {
        let scan = Scan::of("a(); // \"/proc\" b()\n/* c /* d */ \"/sys\" */ e();\n");
        assert_eq!(scan.literals, []);
        assert_eq!(scan.code[0].trim_end(), "a();");
        assert_eq!(scan.code[1].trim(), "e();");
    }

    #[test]
    fn every_form_of_string_is_found_with_its_line() {
        let text = "x(\"one \\\" two\",\n  r#\"th\"ree\"#, br\"four\", b\"five\", r\"six\")\nvar\"seven\"";
        let found: Vec<_> = Scan::of(text).literals;
        let expected =
            [(1, "one \\\" two"), (2, "th\"ree"), (2, "four"), (2, "five"), (2, "six"), (3, "seven")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn characters_and_lifetimes_are_told_apart() {
        let scan = Scan::of("f::<'a>('\"', '\\'', '\\u{2f}', 'é', b'\"', &'static str) \"end\"");
        assert_eq!(scan.literals, [(1, "end".to_owned())]);
        assert!(scan.code[0].contains("'static str"));
    }

    #[test]
    fn an_item_under_cfg_test_is_a_test_to_the_end_of_its_block() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() { \"}\" }\n}\nfn c() {}\n#[cfg(test)]\nmod more;\nfn d() {}\n";
        assert_eq!(Scan::of(text).is_test, [false, true, true, true, true, false, true, true, false]);
        let text = "#[cfg(all(test, not(loom)))]\nmod a {\n}\n#[cfg(any(test, loom))]\nfn b() {}\n";
        assert_eq!(Scan::of(text).is_test, [true, true, true, false, false]);
    }

    #[test]
    fn a_file_that_ends_half_way_is_read_to_its_end() {
        for text in
            ["\"abc", "r#\"abc\"", "/* abc", "'", "'\\", "b", "r", "#[cfg(test)]", "#[cfg(test)] mod a {"]
        {
            let _ = Scan::of(text);
        }
    }
}
