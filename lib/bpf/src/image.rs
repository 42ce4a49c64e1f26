//! The objects that clang made of the programs.

/// One of them, with all its programs and maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image {
    /// The name of its folder.
    pub name: &'static str,
    /// The object, packed by `build.rs`; empty without the feature `programs`.
    pub(crate) packed: &'static [u8],
}

/// What the folder `programs/NAME` became.
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
