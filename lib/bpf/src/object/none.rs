//! Without libbpf: nothing can be opened, so that no value of these types is ever made.

use crate::{Image, MappedWords, Refused};
use std::convert::Infallible;
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// An object before it is loaded.
#[derive(Debug)]
pub struct Opened<'a> {
    never: Infallible,
    lives: PhantomData<&'a ()>,
}

impl Opened<'_> {
    /// How many entries a map has.
    pub fn set_entries(&mut self, _: &str, _: u32) {
        match self.never {}
    }

    /// The constants of the program.
    pub fn set_constants(&mut self, _: &[u64]) {
        match self.never {}
    }

    /// A program is not even loaded.
    pub fn leave_out(&mut self, _: &str) {
        match self.never {}
    }
}

/// An object in the kernel.
#[derive(Debug)]
pub struct Object {
    never: Infallible,
}

#[allow(missing_docs, clippy::missing_errors_doc, reason = "said where there is something to be done")]
impl Object {
    /// Says that there is none.
    ///
    /// # Errors
    /// [`Refused::NotBuilt`], always.
    pub fn open(_: Image, _: impl FnOnce(&mut Opened<'_>)) -> Result<Object, Refused> {
        Err(Refused::NotBuilt)
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

    pub fn entries(&self, _: &str) -> Result<Entries<'_>, Refused> {
        match self.never {}
    }

    pub fn ring<'cb>(&self, _: &str, _: impl FnMut(&[u64]) + 'cb) -> Result<Ring<'cb>, Refused> {
        match self.never {}
    }
}

/// The entries of a map.
#[derive(Debug)]
pub struct Entries<'a> {
    never: Infallible,
    lives: PhantomData<&'a ()>,
}

#[allow(missing_docs, clippy::missing_errors_doc, reason = "said where there is something to be done")]
impl Entries<'_> {
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
