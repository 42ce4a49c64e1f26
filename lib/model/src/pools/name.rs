//! Names of elements and properties, by the rules of libpool(3LIB).

/// Whether a text can be the name of a system, a pool or a set: a letter, then letters, digits and `,._-`.
#[must_use]
pub fn is_element_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic()) && bytes.all(is_inner)
}

/// Whether a text can be the name of a property: a letter or `_`, then letters, digits and `,._-`.
#[must_use]
pub fn is_property_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_') && bytes.all(is_inner)
}

/// Whether a property is stored but not listed: the last dotted part of its name begins with `_`.
#[must_use]
pub fn is_hidden_name(name: &str) -> bool {
    name.rsplit('.').next().is_some_and(|last| last.starts_with('_'))
}

fn is_inner(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b",._-".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_begin_with_a_letter() {
        for good in ["a", "web", "pool_web-2.x,y", "Z9"] {
            assert!(is_element_name(good) && is_property_name(good), "{good}");
        }
        for bad in ["", "9a", "-a", ".a", "a b", "a/b", "é", "a\n", "a\""] {
            assert!(!is_element_name(bad) && !is_property_name(bad), "{bad}");
        }
        assert!(!is_element_name("_a"));
        assert!(is_property_name("_a"));
    }

    #[test]
    fn a_last_part_with_an_underscore_hides() {
        assert!(is_hidden_name("_x") && is_hidden_name("system._next_id") && is_hidden_name("a.b._c"));
        assert!(!is_hidden_name("a._b.c") && !is_hidden_name("pool.importance"));
    }
}
