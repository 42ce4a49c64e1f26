//! Phrases to avoid in texts for users and heads of modules, and long sentences.
//!
//! The table has the standard term for each phrase. A phrase of the table is a breach in a page, a manual, a message or the head
//! of a module. A long sentence in a page or a manual is a warning.

use crate::links::Page;
use crate::prose::{self, Paragraph};
use crate::{Breach, House, Scan, SourceFile, habits};

/// Maximal number of words of a sentence.
pub const SENTENCE_WORDS_MAX: usize = 25;

/// A standard term, and phrases that paraphrase it.
struct Term {
    /// In lower case, with single spaces between the words.
    avoid: &'static [&'static str],
    /// The term to use.
    say: &'static str,
}

const TERMS: [Term; 16] = [
    Term { avoid: &["place of new interrupts", "place for new interrupts"], say: "default IRQ affinity" },
    Term { avoid: &["place of unbound work", "place for unbound work"], say: "unbound workqueue cpumask" },
    Term { avoid: &["packet steering list", "packet steering lists"], say: "RPS/XPS masks" },
    Term {
        avoid: &[
            "switch of processor",
            "switch of a processor",
            "switch of the processor",
            "switches of processors",
        ],
        say: "online state of CPU N",
    },
    Term { avoid: &["what disturbs", "is it still", "is it quiet"], say: "OS noise, jitter" },
    Term { avoid: &["from a timer to a program", "from timer to program"], say: "timer wake-up latency" },
    Term { avoid: &["what was lost", "who lost it", "what is lost"], say: "leak, allocation stack" },
    Term {
        avoid: &[
            "overran its end",
            "overruns its end",
            "ran over its end",
            "runs over its end",
            "past its end",
        ],
        say: "buffer overflow; use after free; double free",
    },
    Term {
        avoid: &["invert priorities", "inverts priorities", "inverting priorities"],
        say: "priority-inheritance (PI) mutex",
    },
    Term {
        avoid: &["has the processor", "had the processor", "away from the processor", "is away from it"],
        say: "is running on the CPU, is preempted",
    },
    Term {
        avoid: &[
            "processor time",
            "other processor",
            "other processors",
            "all processors",
            "of its processors",
            "off-line processors",
        ],
        say: "CPU",
    },
    Term { avoid: &["fought for", "fight for", "fights for", "fighting for"], say: "is contended" },
    Term {
        avoid: &["in turns", "beside a peer", "beside its peer", "beside theirs", "ours beside"],
        say: "interleaved, compared with",
    },
    Term { avoid: &["makes no sense", "make no sense", "made no sense"], say: "invalid" },
    Term {
        avoid: &["becomes the machine's", "become the machine's", "became the machine's"],
        say: "is applied",
    },
    Term {
        avoid: &[
            "made-up",
            "hand-made",
            "handmade",
            "keep these looks",
            "keeps these looks",
            "keep the looks",
        ],
        say: "synthetic; verify",
    },
];

/// Pronouns for persons. Threads, files, locks and pages are not persons.
const PERSONS: [&str; 9] =
    ["who", "whom", "whoever", "nobody", "somebody", "anybody", "someone", "nobody's", "somebody's"];

/// Nouns for persons, after which `who` is correct.
const PEOPLE: [&str; 19] = [
    "user",
    "users",
    "reader",
    "readers",
    "person",
    "people",
    "engineer",
    "engineers",
    "administrator",
    "administrators",
    "operator",
    "operators",
    "author",
    "authors",
    "developer",
    "developers",
    "maintainer",
    "maintainers",
    "programmer",
];

/// Phrases to avoid in a source file: in its head, and in its messages if it ships.
#[must_use]
pub fn check(file: &SourceFile) -> Vec<Breach> {
    let mut breaches = phrases(&file.path, &prose::of_head(file));
    if habits::is_product(&file.path) && !file.is_test {
        breaches.extend(phrases(&file.path, &prose::of_literals(&Scan::of(&file.text))));
    }
    breaches
}

/// Phrases to avoid in a page.
#[must_use]
pub fn check_page(page: &Page) -> Vec<Breach> {
    phrases(&page.path, &prose::of_page(&page.text))
}

/// Long sentences of pages and manuals.
#[must_use]
pub fn long_sentences(house: &House) -> Vec<Breach> {
    let pages = house.pages.iter().filter(|page| page.path != "CHANGELOG.md").flat_map(long_in_page);
    pages.chain(house.files.iter().flat_map(long_in_manual)).collect()
}

fn long_in_page(page: &Page) -> Vec<Breach> {
    long_in(&page.path, &prose::of_page(&page.text))
}

/// Empty for a file without a manual.
fn long_in_manual(file: &SourceFile) -> Vec<Breach> {
    if is_manual(&file.path) { long_in(&file.path, &prose::of_head(file)) } else { Vec::new() }
}

/// Whether a file's head is a manual: that of a command's folder, or of the daemon.
fn is_manual(path: &str) -> bool {
    let command = path.strip_prefix("cmd/src/").and_then(|rest| rest.strip_suffix("/mod.rs"));
    command.is_some_and(|folder| !folder.contains('/')) || path == "svc/poold/src/lib.rs"
}

fn phrases(path: &str, paragraphs: &[Paragraph]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for paragraph in paragraphs {
        let words: Vec<String> = paragraph.words().iter().map(|(_, word)| bare(word)).collect();
        let mut breach = |at: usize, what: String| {
            breaches.push(Breach { place: format!("{path}:{}", paragraph.words()[at].0), what });
        };
        for term in &TERMS {
            for avoid in term.avoid {
                let avoided: Vec<&str> = avoid.split(' ').collect();
                for (at, _) in words.windows(avoided.len()).enumerate().filter(|(_, found)| *found == avoided)
                {
                    breach(at, format!("\"{avoid}\": say {}", term.say));
                }
            }
        }
        for (at, word) in words.iter().enumerate().filter(|(_, word)| PERSONS.contains(&word.as_str())) {
            let is_of_people = word == "who" && at > 0 && PEOPLE.contains(&words[at - 1].as_str());
            if !is_of_people {
                breach(
                    at,
                    format!("\"{word}\": only a person is one; name the process, thread, file or lock"),
                );
            }
        }
    }
    breaches.sort();
    breaches
}

/// A word in lower case, without punctuation at its ends.
fn bare(word: &str) -> String {
    word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase()
}

fn long_in(path: &str, paragraphs: &[Paragraph]) -> Vec<Breach> {
    let mut found = Vec::new();
    for sentence in paragraphs.iter().flat_map(Paragraph::sentences) {
        let is_word = |word: &str| word.contains(|c: char| c.is_alphanumeric() || c == '`');
        let words: Vec<&(usize, String)> = sentence.iter().filter(|(_, word)| is_word(word)).collect();
        // A table row is not a sentence.
        if words.len() > SENTENCE_WORDS_MAX && sentence[0].1 != "|" {
            let (line, first) = words[0];
            let begin = [first, &words[1].1, &words[2].1].map(String::as_str).join(" ");
            found.push(Breach {
                place: format!("{path}:{line}"),
                what: format!("a sentence of {} words: \"{begin} …\"", words.len()),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.into(), text: text.into(), is_test: false }
    }

    fn page(path: &str, text: &str) -> Page {
        Page { path: path.into(), text: text.into() }
    }

    fn in_page(text: &str) -> Vec<String> {
        check_page(&page("README.md", text)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_phrase_of_the_table_is_found() {
        for term in &TERMS {
            for avoid in term.avoid {
                let found = in_page(&format!("A line.\n\nHere {avoid}, it says.\n"));
                assert!(found.contains(&format!("README.md:3: \"{avoid}\": say {}", term.say)), "{found:?}");
            }
        }
    }

    #[test]
    fn a_phrase_is_found_across_lines_and_in_any_case() {
        assert_eq!(in_page("It Makes\nno sense.\n"), ["README.md:1: \"makes no sense\": say invalid"]);
    }

    #[test]
    fn every_pronoun_of_a_person_is_found_but_behind_a_person() {
        for pronoun in PERSONS {
            let found = in_page(&format!("The lock knows {pronoun} here.\n"));
            assert_eq!(found.len(), 1, "{pronoun}: {found:?}");
            assert!(found[0].starts_with(&format!("README.md:1: \"{pronoun}\": ")), "{found:?}");
        }
        for noun in PEOPLE {
            assert_eq!(in_page(&format!("A {noun} who looks.\n")), [""; 0]);
        }
        assert_eq!(in_page("The lock who waits, of the user nobody.\n").len(), 2);
        assert_eq!(in_page("The program `who`, the user `nobody`.\n"), [""; 0]);
    }

    #[test]
    fn heads_of_all_files_and_messages_of_what_ships_are_read() {
        let text = "//! Nobody waits.\n\n// Nobody.\nfn f() { g(\"it makes no sense\"); }\n#[cfg(test)]\nmod tests { fn a() { f(\"it makes no sense\"); } }\n";
        let lines = |path: &str| check(&file(path, text)).into_iter().map(|b| b.place).collect::<Vec<_>>();
        assert_eq!(lines("cmd/src/a.rs"), ["cmd/src/a.rs:1", "cmd/src/a.rs:4"]);
        assert_eq!(lines("cmd/tests/a.rs"), ["cmd/tests/a.rs:1"]);
    }

    #[test]
    fn a_long_sentence_of_a_manual_or_a_page_is_found() {
        let words = |n: usize| vec!["word"; n].join(" ");
        let head = format!("//! {}.\n//! {} {}.\n", words(25), words(13), words(13));
        let found = long_in_manual(&file("cmd/src/psrset/mod.rs", &head));
        assert_eq!(
            found[0].to_string(),
            "cmd/src/psrset/mod.rs:2: a sentence of 26 words: \"word word word …\""
        );
        assert_eq!(found.len(), 1);
        assert_eq!(long_in_manual(&file("cmd/src/psrset/change.rs", &head)), []);
        let text = format!("{} `a b`\n\n| {} |\n", words(25), words(30));
        assert_eq!(long_in_page(&page("README.md", &text)).len(), 1);
    }
}
