//! Values of knobs that say what sets and threads want of lgroups.

use crate::kernel::Wish;
use millpond_machine::Value;
use millpond_model::SetMemory;

/// The value of where the memory of a set comes from; none for anywhere.
#[must_use]
pub fn memory_value(memory: &SetMemory) -> Option<Value> {
    match memory {
        SetMemory::All => None,
        SetMemory::Local => Some("local".into()),
        SetMemory::Nodes(nodes) => Some(nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")),
    }
}

/// The inverse of [`memory_value`].
pub(crate) fn parse_memory(value: &str) -> Option<SetMemory> {
    if value == "local" {
        return Some(SetMemory::Local);
    }
    value.split(',').map(|node| node.parse().ok()).collect::<Option<_>>().map(SetMemory::Nodes)
}

/// The value of which lgroups a thread prefers.
#[must_use]
pub fn wish_value(wish: Wish) -> Value {
    let list = |bits: u64| {
        let set = (0..u64::BITS).filter(|bit| bits >> bit & 1 == 1);
        set.map(|bit| bit.to_string()).collect::<Vec<_>>().join(",")
    };
    let words = [("strong", wish.strong), ("weak", wish.weak)];
    let said =
        words.iter().filter(|(_, bits)| *bits > 0).map(|(word, bits)| format!("{word} {}", list(*bits)));
    let said = said.collect::<Vec<_>>().join(" ");
    if said.is_empty() { "none".into() } else { said }
}

/// The inverse of [`wish_value`].
pub(crate) fn parse_wish(value: &str) -> Option<Wish> {
    let mut wish = Wish::default();
    if value == "none" {
        return Some(wish);
    }
    let mut words = value.split(' ');
    while let Some(word) = words.next() {
        let bits = match word {
            "strong" => &mut wish.strong,
            "weak" => &mut wish.weak,
            _ => return None,
        };
        for bit in words.next()?.split(',') {
            *bits |= 1u64.checked_shl(bit.parse().ok()?)?;
        }
    }
    Some(wish)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_wish_is_read_as_it_is_written(strong in any::<u64>(), weak in any::<u64>()) {
            let wish = Wish { strong, weak };
            prop_assert_eq!(parse_wish(&wish_value(wish)), Some(wish));
        }

        #[test]
        fn reading_any_text_never_panics(text in "(strong|weak|local|none|[0-9 ,]){0,6}") {
            let _ = (parse_wish(&text), parse_memory(&text));
        }
    }

    #[test]
    fn values_are_words_and_places() {
        assert_eq!(wish_value(Wish { strong: 0b101, weak: 0b10 }), "strong 0,2 weak 1");
        assert_eq!(wish_value(Wish::default()), "none");
        assert_eq!(parse_wish("strong 64"), None);
        assert_eq!(parse_wish("strong"), None);
        assert_eq!(memory_value(&SetMemory::All), None);
        assert_eq!(parse_memory("0,2").as_ref().and_then(memory_value).as_deref(), Some("0,2"));
        assert_eq!(parse_memory("near"), None);
    }
}
