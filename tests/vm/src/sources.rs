//! Parser of the machine's package sources, used to find its Debian archive. Pure functions.

/// One line of `sources.list`, or one stanza of a `.sources` file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Source {
    pub uris: Vec<String>,
    pub suites: Vec<String>,
    pub components: Vec<String>,
    /// As written: one key file, several, or a complete key block.
    pub signed_by: Option<String>,
    pub is_trusted: bool,
}

/// A Debian archive: its address and its signing key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Archive {
    pub uri: String,
    pub signed_by: Option<String>,
    pub is_trusted: bool,
}

/// Suites of the Debian archive by code name and by role. A mirror that has one has all.
const SUITES: [&str; 12] = [
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "duke",
    "sid",
    "oldoldstable",
    "oldstable",
    "stable",
    "testing",
    "unstable",
    "experimental",
];

/// Parses the one-line format: `deb [signed-by=KEY] URI SUITE COMPONENT…`. Other lines are ignored.
pub(crate) fn parse_list(text: &str) -> Vec<Source> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Source> {
    let line = line.split('#').next()?.trim();
    let rest = line.strip_prefix("deb")?;
    if !rest.starts_with([' ', '\t', '[']) {
        return None;
    }
    let rest = rest.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace().map(str::to_owned);
    let mut source = Source {
        uris: vec![words.next()?],
        suites: vec![words.next()?],
        components: words.collect(),
        ..Source::default()
    };
    for option in options.split_whitespace() {
        match option.split_once('=') {
            Some(("signed-by", keys)) => source.signed_by = Some(keys.replace(',', " ")),
            Some(("trusted", value)) => source.is_trusted = value == "yes",
            _ => {}
        }
    }
    Some(source)
}

/// Parses the stanza format (`Types:`, `URIs:`, `Suites:` …). Disabled stanzas are left out.
pub(crate) fn parse_stanzas(text: &str) -> Vec<Source> {
    let mut found = Vec::new();
    let mut fields: Vec<(String, String)> = Vec::new();
    // A comment line does not end a field or a stanza.
    for line in text.lines().filter(|l| !l.starts_with('#')).chain([""]) {
        if line.trim().is_empty() {
            found.extend(source_from(&fields));
            fields.clear();
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut() {
                value.push('\n');
                value.push_str(line);
            }
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    found
}

fn source_from(fields: &[(String, String)]) -> Option<Source> {
    let value = |name: &str| fields.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
    let words = |name: &str| -> Vec<String> {
        value(name).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    };
    let is_off = value("enabled").is_some_and(|v| matches!(v, "no" | "false" | "0"));
    if is_off || !words("types").iter().any(|t| t == "deb") {
        return None;
    }
    Some(Source {
        uris: words("uris"),
        suites: words("suites"),
        components: words("components"),
        signed_by: value("signed-by").map(str::to_owned),
        is_trusted: value("trusted") == Some("yes"),
    })
}

/// The first source that is Debian's main archive. The security archive and those of other vendors do not have all suites.
pub(crate) fn debian_archive(sources: &[Source]) -> Option<Archive> {
    let is_debian = |suite: &String| {
        let base = suite.split(['-', '/']).next().unwrap_or(suite);
        SUITES.contains(&base) && !suite.contains("security")
    };
    sources.iter().find_map(|source| {
        let fits = source.suites.iter().any(is_debian) && source.components.iter().any(|c| c == "main");
        let uri =
            source.uris.iter().find(|uri| !uri.starts_with("cdrom:") && !uri.contains("debian-security"))?;
        fits.then(|| Archive {
            uri: uri.clone(),
            signed_by: source.signed_by.clone(),
            is_trusted: source.is_trusted,
        })
    })
}

impl Archive {
    /// A stanza for the same archive with this suite.
    pub fn stanza(&self, suite: &str) -> String {
        let mut text = format!("Types: deb\nURIs: {}\nSuites: {suite}\nComponents: main\n", self.uri);
        if let Some(keys) = &self.signed_by {
            text.push_str(&format!("Signed-By: {keys}\n"));
        }
        if self.is_trusted {
            text.push_str("Trusted: yes\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_one_line_form_is_read_with_its_options() {
        let text = "# deb http://a.example/debian sid main\n\
                    deb-src http://a.example/debian bookworm main\n\
                    deb [ arch=amd64 signed-by=/k/a.gpg,/k/b.gpg ] http://a.example/debian bookworm main contrib # note\n";
        let want = Source {
            uris: vec!["http://a.example/debian".into()],
            suites: vec!["bookworm".into()],
            components: vec!["main".into(), "contrib".into()],
            signed_by: Some("/k/a.gpg /k/b.gpg".into()),
            is_trusted: false,
        };
        assert_eq!(parse_list(text), [want]);
    }

    #[test]
    fn the_stanza_form_is_read_with_comments_and_an_embedded_key() {
        let text = "Types: deb deb-src\n# a comment\nURIs: http://a.example/debian\nSuites: trixie trixie-updates\n\
                    Components: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n\n\
                    Types: deb\nEnabled: no\nURIs: http://b.example/debian\nSuites: sid\nComponents: main\n";
        let sources = parse_stanzas(text);
        assert_eq!(sources.len(), 1);
        let archive = debian_archive(&sources).unwrap();
        assert_eq!(
            archive.stanza("sid"),
            "Types: deb\nURIs: http://a.example/debian\nSuites: sid\nComponents: main\n\
             Signed-By: \n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n"
        );
    }

    #[test]
    fn other_vendors_and_the_security_archive_are_not_the_archive() {
        let text = "deb http://other.example/ubuntu noble main\n\
                    deb http://a.example/debian-security bookworm-security main\n\
                    deb cdrom:[Debian]/ bookworm main\n\
                    deb [trusted=yes] http://a.example/debian bookworm-updates main\n";
        let want = Archive { uri: "http://a.example/debian".into(), signed_by: None, is_trusted: true };
        assert_eq!(debian_archive(&parse_list(text)), Some(want));
        assert_eq!(debian_archive(&parse_list("deb http://other.example/ubuntu noble main\n")), None);
    }

    proptest! {
        #[test]
        fn what_a_stanza_says_is_read_back(host in "[a-z]{1,8}", suite in 0..SUITES.len(), key in proptest::option::of("/[a-z/]{1,12}\\.gpg"), is_trusted: bool) {
            let archive = Archive { uri: format!("http://{host}.example/debian"), signed_by: key, is_trusted };
            prop_assert_eq!(debian_archive(&parse_stanzas(&archive.stanza(SUITES[suite]))), Some(archive));
        }

        #[test]
        fn no_text_makes_the_readers_panic(text in "\\PC*|([a-zA-Z\\[\\]=:# \n\t-]{0,200})") {
            let _ = debian_archive(&parse_list(&text));
            let _ = debian_archive(&parse_stanzas(&text));
        }
    }
}
