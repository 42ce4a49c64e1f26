//! The environment of a script: the machine and the file, in addition to the edited configuration.

use crate::pools;
use millpond_machine::Machine;
use millpond_model::pools::PoolsConf;
use millpond_pools::script::{Said, Surroundings};
use millpond_pools::{dynamic, zones};
use millpond_session::LockedPools;

/// The machine alone, without a file.
pub struct OfMachine<'m>(pub &'m dyn Machine);

impl Surroundings for OfMachine<'_> {
    fn machine(&mut self) -> Result<PoolsConf, Said> {
        Ok(dynamic::read(self.0)?.conf)
    }

    fn write(&mut self, _: &PoolsConf) -> Result<(), Said> {
        Ok(())
    }

    fn remove(&mut self) -> Result<(), Said> {
        Ok(())
    }
}

/// The machine and a file that this command has locked.
pub struct OfFile<'m> {
    machine: &'m dyn Machine,
    /// The locked file.
    pub locked: LockedPools<'m>,
    only_shows: bool,
    /// Whether the file was written or removed, or would have been in a dry run.
    pub acted: bool,
}

impl<'m> OfFile<'m> {
    /// With `only_shows`, the file is not changed.
    pub fn new(machine: &'m dyn Machine, locked: LockedPools<'m>, only_shows: bool) -> Self {
        OfFile { machine, locked, only_shows, acted: false }
    }
}

impl Surroundings for OfFile<'_> {
    fn machine(&mut self) -> Result<PoolsConf, Said> {
        Ok(zones::described(dynamic::read(self.machine)?))
    }

    fn write(&mut self, conf: &PoolsConf) -> Result<(), Said> {
        let text = pools::printed(conf)?;
        self.acted = true;
        if self.only_shows { Ok(()) } else { self.locked.write(&text).map_err(pools::bad_file) }
    }

    fn remove(&mut self) -> Result<(), Said> {
        self.acted = true;
        if self.only_shows { Ok(()) } else { self.locked.remove().map_err(pools::bad_file) }
    }
}
