//! The sections of a manual, in order. Help, man(7) pages and the reference are generated from this list.

use crate::prose::{self, Block};
use crate::spec::{Example, Flag, Spec};

/// A section of a manual; never empty.
pub(crate) enum Section {
    /// Text of the module's head, with its own headings.
    Prose(Vec<Block>),
    /// Options under a title; `true` for those that every command takes.
    Options(&'static str, Vec<Flag>, bool),
    /// Command lines.
    Examples(&'static [Example]),
    /// Names with their meanings, under a title.
    Rows(&'static str, &'static [(&'static str, &'static str)]),
    /// Pages to read next.
    SeeAlso(&'static [&'static str]),
}

/// The sections of a command's manual after its name and its forms.
pub(crate) fn sections(spec: &Spec) -> Vec<Section> {
    let (description, rest) = prose::parts(spec.prose);
    let all = [
        Section::Prose(description),
        Section::Options("Options", spec.own_flags().copied().collect(), false),
        Section::Options("Options of every command", spec.common.to_vec(), true),
        Section::Examples(spec.examples),
        Section::Prose(rest),
        Section::Rows("Files", spec.files),
        Section::Rows("Exit status", spec.status),
        Section::SeeAlso(spec.see_also),
    ];
    let is_empty = |section: &Section| match section {
        Section::Prose(blocks) => blocks.is_empty(),
        Section::Options(_, flags, _) => flags.is_empty(),
        Section::Examples(examples) => examples.is_empty(),
        Section::Rows(_, rows) => rows.is_empty(),
        Section::SeeAlso(pages) => pages.is_empty(),
    };
    all.into_iter().filter(|section| !is_empty(section)).collect()
}
