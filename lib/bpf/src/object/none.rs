//! Types without libbpf. [`Object::open`] always fails, so no value of these types exists.

use crate::{Image, MappedWords, Refused};
use std::convert::Infallible;
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

/// An object before it is loaded.
#[derive(Debug)]
pub struct Opened<'a> {
    never: Infallible,
    lives: PhantomData<&'a ()>,
}

impl Opened<'_> {
    /// Sets the number of a map's entries.
    pub fn set_entries(&mut self, _: &str, _: u32) {
        match self.never {}
    }

    /// Sets the program's constants.
    pub fn set_constants(&mut self, _: &[u64]) {
        match self.never {}
    }

    /// Sets a word of a structure of callbacks.
    pub fn set_operation(&mut self, _: &str, _: usize, _: u64) {
        match self.never {}
    }

    /// Uses a map that another object pinned.
    pub fn reuse(&mut self, _: &str, _: &Path) {
        match self.never {}
    }

    /// Does not load a program.
    pub fn leave_out(&mut self, _: &str) {
        match self.never {}
    }
}

/// A loaded object.
#[derive(Debug)]
pub struct Object {
    never: Infallible,
}

#[allow(missing_docs, clippy::missing_errors_doc, reason = "said where there is something to be done")]
impl Object {
    /// Always fails.
    ///
    /// # Errors
    /// [`Refused::NotBuilt`].
    pub fn open(_: Image, _: impl FnOnce(&mut Opened<'_>)) -> Result<Object, Refused> {
        Err(Refused::NotBuilt)
    }

    #[must_use]
    pub fn kernel_has(_: &str) -> bool {
        false
    }

    #[must_use]
    pub fn members_of(_: &str) -> Vec<String> {
        Vec::new()
    }

    pub fn attach(&mut self, _: &str) -> Result<(), Refused> {
        match self.never {}
    }

    pub fn program(&self, _: &str) -> Result<BorrowedFd<'_>, Refused> {
        match self.never {}
    }

    pub fn iterate(&self, _: &str, _: &mut Vec<u8>) -> Result<(), Refused> {
        match self.never {}
    }

    pub fn words(&self, _: &str, _: usize) -> Result<MappedWords, Refused> {
        match self.never {}
    }

    pub fn entries(&self, _: &str) -> Result<Entries, Refused> {
        match self.never {}
    }

    pub fn attach_operations(&mut self, _: &str) -> Result<(), Refused> {
        match self.never {}
    }

    pub fn pin_map(&mut self, _: &str, _: &Path) -> Result<(), Refused> {
        match self.never {}
    }

    pub fn pin_program(&mut self, _: &str, _: &Path) -> Result<(), Refused> {
        match self.never {}
    }

    pub fn callable(&self, _: &str) -> Result<Callable, Refused> {
        match self.never {}
    }

    pub fn ring<'cb>(&self, _: &str, _: impl FnMut(&[u64]) + 'cb) -> Result<Ring<'cb>, Refused> {
        match self.never {}
    }
}

/// The entries of a map.
#[derive(Debug)]
pub struct Entries {
    never: Infallible,
}

#[allow(missing_docs, clippy::missing_errors_doc, reason = "said where there is something to be done")]
impl Entries {
    pub fn at(_: &Path) -> Result<Entries, Refused> {
        Err(Refused::NotBuilt)
    }

    pub fn words(&self, _: usize) -> Result<MappedWords, Refused> {
        match self.never {}
    }

    #[must_use]
    pub fn most(&self) -> u32 {
        match self.never {}
    }

    #[must_use]
    pub fn all(&self) -> Vec<(Vec<u64>, Vec<u64>)> {
        match self.never {}
    }

    #[must_use]
    pub fn get(&self, _: &[u64]) -> Option<Vec<u64>> {
        match self.never {}
    }

    pub fn put(&self, _: &[u64], _: &[u64]) -> Result<(), Refused> {
        match self.never {}
    }

    pub fn remove(&self, _: &[u64]) {
        match self.never {}
    }
}

/// A program that runs on request.
#[derive(Debug)]
pub struct Callable {
    never: Infallible,
}

#[allow(missing_docs, clippy::missing_errors_doc, reason = "said where there is something to be done")]
impl Callable {
    pub fn at(_: &Path) -> Result<Callable, Refused> {
        Err(Refused::NotBuilt)
    }

    pub fn call(&self, _: &mut [u64]) -> Result<(), Refused> {
        match self.never {}
    }
}

/// A ring that programs write records into.
#[derive(Debug)]
pub struct Ring<'cb> {
    never: Infallible,
    lives: PhantomData<&'cb ()>,
}

#[allow(missing_docs, clippy::missing_errors_doc, reason = "said where there is something to be done")]
impl Ring<'_> {
    pub fn take(&self) -> io::Result<()> {
        match self.never {}
    }

    pub fn poll(&self, _: Duration) -> io::Result<()> {
        match self.never {}
    }
}
