//! The catalogue of fields: everything that the observers show, each with its unit, its kind, where it comes from, how exact it is and what
//! it costs. Screens, text, JSON, recordings and metrics are drawn from it, so that a field which is added here appears in all of them.
//!
//! An [`Entity`] is a kind of thing, such as CPUs or threads; each has its fields in [`fields`]. A [`Field`] is named by its [`FieldId`], a
//! constant of the module of its entity (`cpu::USER`).

mod entities;
mod field;

pub use entities::{
    cpu, decision, fence, fields, interrupt, latency, machine, noise, pool, process, pset, thread,
};
pub use field::{Cost, Entity, Exactness, Field, FieldId, FieldKind, Unit};

use std::fmt::Write;

/// The whole catalogue as a page of Markdown: what `docs/reference/fields.md` holds.
///
/// A name ends with its unit where that is no count.
#[must_use]
pub fn page() -> String {
    let mut text = HEAD.to_owned();
    for entity in Entity::ALL {
        let _ = write!(
            text,
            "\n## {}\n\nA row for each {}.\n\n| field | unit | kind | what it is | on Linux from | exactness | cost |\n|---|---|---|---|---|---|---|\n",
            entity.word(),
            entity.what(),
        );
        for field in fields(entity) {
            let Field { name, unit, kind, help, source, exactness, cost, .. } = field;
            let _ =
                writeln!(text, "| `{name}` | {unit} | {kind} | {help} | {source} | {exactness} | {cost} |");
        }
    }
    text
}

const HEAD: &str = "# Fields

What `millpond top` shows, `top --json` prints, and `millpond gauge` serves. Each field has one name everywhere.

* **kind**: a *key* tells rows of a table apart. A *label* is text or a number that identifies or describes. A *counter* only grows, from the boot or
  from the beginning of the watch; screens show its rate. A *gauge* is a value at the moment. A *histogram* counts events by their length, in
  buckets that are 9 % apart, from the beginning of the watch; screens show what came in the interval.
* **exactness**: *exact*: counted or measured at each event. *ticks*: by clock ticks, as most kernels divide the time of CPUs; over an interval of
  1 s with 100 ticks it is right to about 1 %. *estimate*: computed from something else.
* **cost**: *free*: read with something else. *read*: reads files at each frame. *slow*: read every five seconds. *programs*: BPF programs count as it
  happens, some tens of nanoseconds for each event; without them the field is unknown or less exact.

What is unknown on a machine is null in JSON and a dash elsewhere, and a message says why.
";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_entity_has_keys_first_and_each_name_once() {
        for entity in Entity::ALL {
            let own = fields(entity);
            let names: BTreeSet<&str> = own.iter().map(|field| field.name).collect();
            assert_eq!(names.len(), own.len(), "{entity}");
            let keys = own.iter().filter(|field| field.kind == FieldKind::Key).count();
            assert!(keys > 0 && own[..keys].iter().all(|field| field.kind == FieldKind::Key), "{entity}");
            assert!(own.iter().all(|field| !field.help.is_empty() && !field.source.is_empty()), "{entity}");
        }
    }

    #[test]
    fn a_number_of_a_field_finds_it() {
        assert_eq!(cpu::USER.field().name, "user_s");
        assert_eq!(thread::LATENCY.field().heading, "LAT");
        assert_eq!(fields(Entity::Cpu)[cpu::USER.index].name, "user_s");
        assert_eq!(FieldId::named(Entity::Pset, "busy_s"), Some(pset::BUSY));
        assert_eq!(FieldId::named(Entity::Pset, "user_s"), None);
    }

    #[test]
    fn the_page_has_a_line_for_each_field() {
        let page = page();
        let rows = page.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(rows, Entity::ALL.iter().map(|entity| fields(*entity).len()).sum::<usize>());
        assert!(page.contains("\n## cpu\n\nA row for each CPU that runs threads.\n"));
        assert!(page.contains(
            "| `user_s` | seconds | counter | time in user mode | `/proc/stat`: user, nice | ticks | read |\n"
        ));
    }
}
