//! Values that are omitted from a saved kernel.

/// Whether a value is omitted.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
