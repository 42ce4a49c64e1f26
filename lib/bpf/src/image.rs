//! The objects that clang made of the programs.

/// One of them, with all its programs and maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image {
    /// The name of its folder.
    pub name: &'static str,
    /// The object; empty without the feature `programs`.
    pub(crate) bytes: &'static [u8],
}

/// What the folder `programs/NAME` became.
macro_rules! image {
    ($name:literal) => {
        $crate::Image {
            name: $name,
            #[cfg(feature = "programs")]
            bytes: $crate::image::aligned!(concat!(env!("OUT_DIR"), "/", $name, ".o")),
            #[cfg(not(feature = "programs"))]
            bytes: &[],
        }
    };
}

/// The bytes of a file at an address that suits any of their words, as readers of objects want it.
#[cfg(feature = "programs")]
macro_rules! aligned {
    ($path:expr) => {{
        #[repr(C, align(8))]
        struct Aligned<T: ?Sized>(T);
        static ALIGNED: &Aligned<[u8]> = &Aligned(*include_bytes!($path));
        &ALIGNED.0
    }};
}

#[cfg(feature = "programs")]
pub(crate) use aligned;
pub(crate) use image;
