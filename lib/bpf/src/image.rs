//! The compiled BPF objects.

/// A compiled object, with all its programs and maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image {
    /// The name of its folder.
    pub name: &'static str,
    /// The object, compressed by `build.rs`; empty without the feature `programs`.
    pub(crate) packed: &'static [u8],
}

/// The object compiled from the folder `programs/NAME`.
macro_rules! image {
    ($name:literal) => {
        $crate::Image {
            name: $name,
            #[cfg(feature = "programs")]
            packed: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".o.deflate")),
            #[cfg(not(feature = "programs"))]
            packed: &[],
        }
    };
}

pub(crate) use image;
