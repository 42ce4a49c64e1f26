//! Size classes of `umem_alloc`: the default list, and its changes by `size_add`, `size_remove` and `size_clear`.

use super::items::Trouble;
use millpond_rt_layout::LARGEST;

const USUAL: [usize; 46] = [
    8, 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1152, 1344,
    1600, 2048, 2304, 2688, 4096, 4544, 8192, 9216, 12288, 16384, 24576, 32768, 40960, 49152, 57344, 65536,
    73728, 81920, 90112, 98304, 106_496, 114_688, 122_880, LARGEST,
];

/// Maximum number of sizes that can be added to the default ones.
const FREE: usize = 24;

const COUNT_MAX: usize = USUAL.len() + FREE;

/// Sizes in ascending order, without duplicates, all multiples of 8. The rest is zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes([usize; COUNT_MAX]);

impl Sizes {
    pub(crate) const STANDARD: Sizes = {
        let mut all = [0; COUNT_MAX];
        let mut at = 0;
        while at < USUAL.len() {
            all[at] = USUAL[at];
            at += 1;
        }
        Sizes(all)
    };

    /// All sizes. The list may be empty, and its largest size may be any.
    pub(crate) fn as_slice(&self) -> &[usize] {
        self.0.split(|size| *size == 0).next().unwrap_or_default()
    }

    /// Adds a size. An existing one has no effect.
    pub(super) fn add(&mut self, size: usize) -> Result<(), Trouble> {
        if size == 0 || !size.is_multiple_of(8) {
            return Err(Trouble::Says("a size is a multiple of 8. ignored"));
        }
        if size > LARGEST {
            return Err(Trouble::Says("a size is at most 131072. ignored"));
        }
        if self.0.contains(&size) {
            return Ok(());
        }
        if self.0.last() != Some(&0) {
            return Err(Trouble::Says("there is no room for more sizes; remove one first. ignored"));
        }
        let mut carried = size;
        for place in &mut self.0 {
            if *place == 0 {
                *place = carried;
                break;
            }
            if carried < *place {
                core::mem::swap(place, &mut carried);
            }
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, size: usize) -> Result<(), Trouble> {
        if size == 0 || !self.0.contains(&size) {
            return Err(Trouble::Says("there is no such size. ignored"));
        }
        let before = *self;
        self.clear();
        let kept = before.as_slice().iter().filter(|other| **other != size);
        for (place, other) in self.0.iter_mut().zip(kept) {
            *place = *other;
        }
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        self.0 = [0; COUNT_MAX];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(result: Result<(), Trouble>) -> &'static str {
        match result {
            Ok(()) => "",
            Err(trouble) => trouble.text(),
        }
    }

    #[test]
    fn the_usual_sizes_are_in_order_and_multiples_of_eight() {
        let sizes = Sizes::STANDARD;
        assert_eq!(sizes.as_slice().len(), 46);
        assert!(sizes.as_slice().is_sorted_by(|low, high| low < high));
        assert!(sizes.as_slice().iter().all(|size| size.is_multiple_of(8)));
        assert_eq!((sizes.as_slice()[0], sizes.as_slice()[45]), (8, 131_072));
    }

    #[test]
    fn sizes_come_and_go_and_stay_in_order() {
        let mut sizes = Sizes::STANDARD;
        for size in [1000, 24, 131_064, 24] {
            assert_eq!(said(sizes.add(size)), "");
        }
        assert_eq!(sizes.as_slice().len(), 49);
        assert_eq!(sizes.as_slice()[..4], [8, 16, 24, 32]);
        assert_eq!(sizes.as_slice()[46..], [122_880, 131_064, 131_072]);
        for size in [8, 131_072] {
            assert_eq!(said(sizes.remove(size)), "");
        }
        assert_eq!((sizes.as_slice()[0], sizes.as_slice()[46]), (16, 131_064));
        sizes.clear();
        assert_eq!(sizes.as_slice(), [0; 0]);
        assert_eq!(said(sizes.add(4096)), "");
        assert_eq!(sizes.as_slice(), [4096]);
    }

    #[test]
    fn what_cannot_be_a_size_is_refused() {
        let mut sizes = Sizes::STANDARD;
        for size in [0, 1, 12, 131_071] {
            assert_eq!(said(sizes.add(size)), "a size is a multiple of 8. ignored");
        }
        for size in [131_080, usize::MAX - 7] {
            assert_eq!(said(sizes.add(size)), "a size is at most 131072. ignored");
        }
        for size in [0, 24] {
            assert_eq!(said(sizes.remove(size)), "there is no such size. ignored");
        }
        assert_eq!(sizes, Sizes::STANDARD);
    }

    #[test]
    fn twenty_four_can_be_added_and_not_one_more() {
        let mut sizes = Sizes::STANDARD;
        for at in 0..24 {
            assert_eq!(said(sizes.add(2696 + 8 * at)), "");
        }
        assert_eq!(sizes.as_slice().len(), 70);
        assert_eq!(said(sizes.add(24)), "there is no room for more sizes; remove one first. ignored");
        assert_eq!(said(sizes.add(8)), "", "it is there");
        assert_eq!(said(sizes.remove(8)), "");
        assert_eq!(said(sizes.add(24)), "");
        assert_eq!(sizes.as_slice()[..2], [16, 24]);
    }
}
