//! Typed indices of threads, CPUs, dispatch queues and others, and tables indexed by them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Index, IndexMut};

/// An index of a [`Table`].
pub trait Id: Copy {
    /// From a position.
    fn at(place: usize) -> Self;

    /// The position.
    fn place(self) -> usize;
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl Id for $name {
            #[inline]
            fn at(place: usize) -> Self {
                $name(u32::try_from(place).unwrap_or(u32::MAX))
            }

            #[inline]
            fn place(self) -> usize {
                self.0 as usize
            }
        }

        impl From<u32> for $name {
            fn from(number: u32) -> Self {
                $name(number)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A thread of the kernel.
    ThreadId
);
id!(
    /// A station: a shared resource, numbered within its kind.
    StationId
);
id!(
    /// A CPU, by its position in the topology.
    CpuIndex
);
id!(
    /// A dispatch queue: those of CPUs come first, then those of partitions.
    QueueId
);
id!(
    /// A partition: see [`super::DEFAULT`], [`super::ASIDE`] and [`super::SETS`].
    PartitionId
);
id!(
    /// A holder of shares and caps.
    HolderIndex
);
id!(
    /// A channel, where threads wait for posts.
    ChannelId
);
id!(
    /// A barrier, where threads wait for one another.
    BarrierId
);
id!(
    /// A mix of instructions.
    MixId
);
id!(
    /// A segment of shared memory.
    SegmentId
);
id!(
    /// A log of timestamps.
    LogId
);
id!(
    /// A pipeline, shared by CPUs.
    PipelineId
);
id!(
    /// An outer cache, shared by CPUs.
    CacheId
);

/// The queue of a CPU.
impl From<CpuIndex> for QueueId {
    #[inline]
    fn from(cpu: CpuIndex) -> Self {
        QueueId(cpu.0)
    }
}

/// A vector that only one type of index can index.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Table<I, T> {
    rows: Vec<T>,
    #[serde(skip)]
    by: PhantomData<fn(I)>,
}

impl<I, T> Default for Table<I, T> {
    fn default() -> Self {
        Table { rows: Vec::new(), by: PhantomData }
    }
}

impl<I, T: fmt::Debug> fmt::Debug for Table<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows.fmt(f)
    }
}

impl<I: Id, T> Table<I, T> {
    /// A row, if it exists.
    #[must_use]
    pub fn row(&self, id: I) -> Option<&T> {
        self.rows.get(id.place())
    }

    /// Adds a row and returns its index.
    pub fn add(&mut self, row: T) -> I {
        self.rows.push(row);
        I::at(self.rows.len() - 1)
    }

    /// All indices, ascending.
    pub fn ids(&self) -> impl Iterator<Item = I> + Clone + use<I, T> {
        (0..self.rows.len()).map(I::at)
    }

    /// All rows with their indices.
    pub fn with_ids(&self) -> impl Iterator<Item = (I, &T)> + Clone {
        self.rows.iter().enumerate().map(|(place, row)| (I::at(place), row))
    }
}

impl<I, T> From<Vec<T>> for Table<I, T> {
    fn from(rows: Vec<T>) -> Self {
        Table { rows, by: PhantomData }
    }
}

impl<I, T> FromIterator<T> for Table<I, T> {
    fn from_iter<R: IntoIterator<Item = T>>(rows: R) -> Self {
        rows.into_iter().collect::<Vec<T>>().into()
    }
}

impl<I: Id, T> Index<I> for Table<I, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: I) -> &T {
        &self.rows[id.place()]
    }
}

impl<I: Id, T> IndexMut<I> for Table<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.rows[id.place()]
    }
}

impl<I, T> Deref for Table<I, T> {
    type Target = Vec<T>;

    #[inline]
    fn deref(&self) -> &Vec<T> {
        &self.rows
    }
}

impl<I, T> DerefMut for Table<I, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.rows
    }
}

impl<'a, I, T> IntoIterator for &'a Table<I, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.iter()
    }
}

impl<'a, I, T> IntoIterator for &'a mut Table<I, T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.iter_mut()
    }
}
