//! A synthetic address space: mappings with contents, threads, symbols, and a clock that counts pauses.

use millpond_machine::Refusal;
use millpond_machine::facets::{Image, Mapping, StoppedThread, Symbol};
use millpond_model::Nanos;
use std::cell::Cell;
use std::collections::BTreeMap;

/// Duration of each pause.
pub(crate) const PAUSE: Nanos = Nanos(1_000_000);

/// The address space.
#[derive(Debug, Default)]
pub(crate) struct Space {
    mappings: BTreeMap<u64, (Mapping, Vec<u8>)>,
    pub(crate) threads: Vec<StoppedThread>,
    /// Functions by their address: module and name.
    pub(crate) functions: BTreeMap<u64, (&'static str, &'static str)>,
    /// The monotonic clock; `None`: a core.
    pub(crate) clock: Option<Nanos>,
    pub(crate) stopped: Cell<bool>,
    pub(crate) stops: Cell<u32>,
    /// The address of a byte that reads as 1 until the process was stopped this many times.
    pub(crate) busy: Option<(u64, u32)>,
}

impl Space {
    /// Maps zeroed pages with rights such as `rw`, `r` or `rws`.
    pub(crate) fn map(&mut self, begin: u64, bytes: u64, rights: &str, file: &str) {
        let mapping = Mapping {
            begin,
            end: begin + bytes,
            readable: rights.contains('r'),
            writable: rights.contains('w'),
            shared: rights.contains('s'),
            offset: 0,
            file: file.to_owned(),
        };
        self.mappings.insert(begin, (mapping, vec![0; bytes as usize]));
    }

    pub(crate) fn unmap(&mut self, begin: u64) {
        self.mappings.remove(&begin);
    }

    fn at(&self, address: u64) -> Option<(&Mapping, &[u8])> {
        let (_, (mapping, bytes)) = self.mappings.range(..=address).next_back()?;
        mapping.contains(address).then(|| (mapping, &bytes[(address - mapping.begin) as usize..]))
    }

    pub(crate) fn put(&mut self, address: u64, new: &[u8]) {
        let (_, (mapping, bytes)) = self.mappings.range_mut(..=address).next_back().unwrap();
        let from = (address - mapping.begin) as usize;
        bytes[from..from + new.len()].copy_from_slice(new);
    }

    pub(crate) fn word(&mut self, address: u64, value: u64) {
        self.put(address, &value.to_le_bytes());
    }

    pub(crate) fn half(&mut self, address: u64, value: u32) {
        self.put(address, &value.to_le_bytes());
    }

    pub(crate) fn get(&self, address: u64) -> u64 {
        u64::from_le_bytes(self.at(address).unwrap().1[..8].try_into().unwrap())
    }
}

impl Image for Space {
    fn name(&self) -> String {
        "process 7 (test)".into()
    }

    fn mappings(&self) -> Result<Vec<Mapping>, Refusal> {
        Ok(self.mappings.values().map(|(mapping, _)| mapping.clone()).collect())
    }

    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let mut read = 0;
        while read < into.len() {
            let at = address.checked_add(read as u64).and_then(|at| self.at(at));
            let Some((_, bytes)) = at.filter(|(mapping, _)| mapping.readable) else { break };
            let count = bytes.len().min(into.len() - read);
            into[read..read + count].copy_from_slice(&bytes[..count]);
            read += count;
        }
        if let Some((at, until)) = self.busy
            && self.stops.get() < until
            && let Some(at) = at.checked_sub(address).filter(|at| *at < read as u64)
        {
            into[at as usize] = 1;
        }
        read
    }

    fn written(&self, begin: u64, end: u64) -> Vec<(u64, u64)> {
        let mapped =
            self.mappings.values().map(|(mapping, _)| (mapping.begin.max(begin), mapping.end.min(end)));
        mapped.filter(|(begin, end)| begin < end).collect()
    }

    fn stop(&self) -> Result<(), Refusal> {
        assert!(!self.stopped.replace(true), "it is stopped twice");
        self.stops.set(self.stops.get() + 1);

        Ok(())
    }

    fn go_on(&self) -> Option<Nanos> {
        assert!(self.stopped.replace(false), "it was not stopped");
        self.clock.map(|_| PAUSE)
    }

    fn threads(&self) -> Vec<StoppedThread> {
        self.threads.clone()
    }

    fn symbol(&self, address: u64) -> Option<Symbol> {
        let (begin, (module, name)) = self.functions.range(..=address).next_back()?;
        Some(Symbol { module: (*module).into(), name: (*name).into(), offset: address - begin })
    }

    fn now(&self) -> Option<Nanos> {
        self.clock
    }
}
