//! A self-contained page: texts, tables and pictures in one file.

use crate::svg::escaped;
use std::fmt::Write as _;

/// A page under construction, from top to bottom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// A page with only a title.
    #[must_use]
    pub fn new(title: &str) -> Page {
        Page { title: escaped(title), body: String::new() }
    }

    /// A heading.
    #[must_use]
    pub fn heading(mut self, text: &str) -> Page {
        let _ = writeln!(self.body, "<h2>{}</h2>", escaped(text));
        self
    }

    /// Preformatted lines in a fixed-width font: a table as text.
    #[must_use]
    pub fn lines(mut self, text: &str) -> Page {
        let lines: Vec<String> = text.lines().map(escaped).collect();
        let _ = writeln!(self.body, "<pre>{}</pre>", lines.join("\n"));
        self
    }

    /// A picture of this crate.
    #[must_use]
    pub fn picture(mut self, svg: &str) -> Page {
        let _ = writeln!(self.body, "<div>{}</div>", svg.trim_end());
        self
    }

    /// The whole document. It loads no other resource.
    #[must_use]
    pub fn html(&self) -> String {
        let Page { title, body } = self;
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
             <style>body {{ font-family: sans-serif; margin: 2em; }} pre {{ overflow-x: auto; }}</style>\n</head>\n\
             <body>\n<h1>{title}</h1>\n{body}</body>\n</html>\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_stays_text() {
        let page = Page::new("a & b").heading("<c>").lines("d < e\nf").picture("<svg></svg>\n").html();
        assert!(page.starts_with("<!DOCTYPE html>\n"));
        assert!(page.contains("<title>a &amp; b</title>") && page.contains("<h1>a &amp; b</h1>"));
        let body = "<h2>&lt;c&gt;</h2>\n<pre>d &lt; e\nf</pre>\n<div><svg></svg></div>\n</body>";
        assert!(page.contains(body), "{page}");
        assert!(!page.contains("http"), "it loads nothing");
    }
}
