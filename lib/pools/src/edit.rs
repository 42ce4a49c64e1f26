//! Changes to a configuration, one at a time, with the rules of poolcfg(8) and libpool(3LIB).
//!
//! A configuration is edited as a value. It is written to a file or committed to a machine only after all changes succeeded, so a failure
//! loses nothing.

use crate::error::{Code, PoolError};
use crate::values;
use millpond_formats::pools::properties::{self, NEXT_ID, Takes, name_property, rule};
use millpond_model::pools::{
    CpuNode, ElementKind, PoolNode, PoolsConf, PropValue, PsetNode, RefId, is_element_name, is_property_name,
};
use millpond_model::{CpuId, PoolId};
use std::collections::HashSet;

/// Where the configuration is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In a file.
    File,
    /// In the machine: minima and maxima must fit the number of CPUs at every moment.
    Machine,
}

/// An element of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Element {
    /// The system, by its name.
    System(String),
    /// A pool, by its name.
    Pool(String),
    /// A set, by its name.
    Pset(String),
    /// A CPU.
    Cpu(CpuId),
}

impl Element {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> ElementKind {
        match self {
            Element::System(_) => ElementKind::System,
            Element::Pool(_) => ElementKind::Pool,
            Element::Pset(_) => ElementKind::Pset,
            Element::Cpu(_) => ElementKind::Cpu,
        }
    }
}

/// An editor of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Editor {
    /// The current configuration.
    pub conf: PoolsConf,
    /// Where it is stored.
    pub place: Place,
}

fn fail<T>(code: Code, hint: impl Into<String>) -> Result<T, PoolError> {
    Err(PoolError::hinted(code, hint))
}

impl Editor {
    /// Starts with a configuration.
    #[must_use]
    pub fn new(conf: PoolsConf, place: Place) -> Self {
        Editor { conf, place }
    }

    /// Creates a pool with the default set.
    ///
    /// # Errors
    /// [`Code::BadParam`] for a name that is invalid or in use.
    pub fn create_pool(&mut self, name: &str) -> Result<(), PoolError> {
        free_name("pool", name, self.conf.pool(name).is_some())?;
        let pset = self.conf.default_pset().map(|s| s.ref_id.clone()).unwrap_or_default();
        let ref_id = self.next_ref();
        self.conf.pools.push(PoolNode::new(name, ref_id, pset, None));
        Ok(())
    }

    /// Creates an empty set. It takes no CPU before its maximum is raised. The first set of a file becomes the default one.
    ///
    /// # Errors
    /// [`Code::BadParam`] for a name that is invalid or in use.
    pub fn create_pset(&mut self, name: &str) -> Result<(), PoolError> {
        free_name("pset", name, self.conf.pset(name).is_some())?;
        let ref_id = self.next_ref();
        let mut pset = PsetNode::new(name, ref_id, None);
        pset.is_default = self.conf.psets.is_empty();
        self.conf.psets.push(pset);
        Ok(())
    }

    /// Removes a pool. Its processes are bound to the default pool at the commit.
    ///
    /// # Errors
    /// [`Code::InvalidSearch`], [`Code::BadParam`] for the default pool.
    pub fn destroy_pool(&mut self, name: &str) -> Result<(), PoolError> {
        let pool = self.conf.pool(name).ok_or_else(|| self.no_such_pool())?;
        if pool.is_default {
            return fail(Code::BadParam, "the default pool stays: everything is in it that is in no other");
        }
        self.conf.pools.retain(|p| p.name != name);
        Ok(())
    }

    /// Removes a set. Its pools get the default set, and its CPUs go there, independent of minima and maxima.
    ///
    /// # Errors
    /// [`Code::InvalidSearch`], [`Code::BadParam`] for the default set.
    pub fn destroy_pset(&mut self, name: &str) -> Result<(), PoolError> {
        let pset = self.conf.pset(name).ok_or_else(|| self.no_such_pset())?;
        if pset.is_default {
            return fail(Code::BadParam, "the default set stays: it has every CPU that is in no other");
        }
        let (ref_id, cpus) = (pset.ref_id.clone(), pset.cpu_set());
        let Some((default, default_ref)) =
            self.conf.default_pset().map(|s| (s.name.clone(), s.ref_id.clone()))
        else {
            return fail(Code::InvalidConf, "there is no default set to take its CPUs");
        };
        for pool in self.conf.pools.iter_mut().filter(|p| p.pset == ref_id) {
            pool.pset.clone_from(&default_ref);
        }
        for cpu in cpus.iter() {
            self.conf.move_cpu(cpu, &default);
        }
        self.conf.psets.retain(|s| s.name != name);
        Ok(())
    }

    /// Assigns a set to a pool; `None` is the default set.
    ///
    /// # Errors
    /// [`Code::InvalidSearch`]; [`Code::BadParam`] for the default pool, which keeps the default set: on Linux the processes
    /// without a pool cannot be moved.
    pub fn associate(&mut self, pool: &str, pset: Option<&str>) -> Result<(), PoolError> {
        let set = match pset {
            Some(name) => self.conf.pset(name).ok_or_else(|| self.no_such_pset())?,
            None => self.conf.default_pset().ok_or_else(|| self.no_such_pset())?,
        };
        let (ref_id, is_default) = (set.ref_id.clone(), set.is_default);
        let Some(pool) = self.conf.pool_mut(pool) else { return Err(self.no_such_pool()) };
        if pool.is_default && !is_default {
            return fail(
                Code::BadParam,
                "the default pool stays with the default set; make a pool of its own for the set",
            );
        }
        pool.pset = ref_id;
        Ok(())
    }

    /// Moves `count` on-line CPUs, lowest numbers first; CPUs with `cpu.requested` last.
    ///
    /// # Errors
    /// [`Code::InvalidSearch`]; [`Code::InvalidConf`] if a minimum or a maximum would be violated.
    pub fn transfer(&mut self, count: u64, from: &str, to: &str) -> Result<(), PoolError> {
        self.check_transfer(count, from, to)?;
        if from == to {
            return Ok(());
        }
        let mut cpus: Vec<(bool, CpuId)> = match self.conf.pset(from) {
            Some(set) => self.there(set).map(|c| (properties::is_requested(c), c.id)).collect(),
            None => Vec::new(),
        };
        cpus.sort_unstable();
        for (_, cpu) in cpus.into_iter().take(usize::try_from(count).unwrap_or(usize::MAX)) {
            self.conf.move_cpu(cpu, to);
        }
        Ok(())
    }

    /// Moves one CPU from the set that has it.
    ///
    /// # Errors
    /// [`Code::InvalidSearch`]; [`Code::InvalidConf`] if a minimum or a maximum would be violated.
    pub fn transfer_cpu(&mut self, cpu: CpuId, to: &str) -> Result<(), PoolError> {
        let Some(from) = self.conf.pset_with(cpu).map(|s| s.name.clone()) else {
            return Err(self.no_such_cpu());
        };
        let counts = self.conf.pset(&from).is_some_and(|set| self.there(set).any(|there| there.id == cpu));
        if from != to {
            self.check_transfer(u64::from(counts), &from, to)?;
            self.conf.move_cpu(cpu, to);
        }
        Ok(())
    }

    /// The CPUs of a set that count for its bounds: on a machine the on-line ones, in a file all.
    fn there<'s>(&self, set: &'s PsetNode) -> impl Iterator<Item = &'s CpuNode> + use<'s> {
        let is_file = self.place == Place::File;
        set.cpus().iter().filter(move |cpu| is_file || cpu.runs_threads())
    }

    fn size(&self, set: &PsetNode) -> u64 {
        self.there(set).count() as u64
    }

    fn check_transfer(&self, count: u64, from: &str, to: &str) -> Result<(), PoolError> {
        let source = self.conf.pset(from).ok_or_else(|| self.no_such_pset())?;
        let target = self.conf.pset(to).ok_or_else(|| self.no_such_pset())?;
        if count == 0 || from == to {
            return Ok(());
        }
        let (size, min) = (self.size(source), source.min);
        match size.checked_sub(count) {
            None => {
                let have = match size {
                    0 => "no CPU".to_owned(),
                    1 => "1 CPU".to_owned(),
                    n => format!("{n} CPUs"),
                };
                let online = if source.size() > size { " on-line" } else { "" };
                return fail(Code::InvalidConf, format!("pset {from} has {have}{online}"));
            }
            Some(left) if left < min => {
                let why =
                    format!("pset {from} would have {left} of its minimum of {min}; lower pset.min first");
                return fail(Code::InvalidConf, why);
            }
            Some(_) => {}
        }
        let grown = self.size(target).saturating_add(count);
        if !target.is_default && grown > target.max {
            let max = target.max;
            let why =
                format!("pset {to} would have {grown}, above its maximum of {max}; raise pset.max first");
            return fail(Code::InvalidConf, why);
        }
        Ok(())
    }

    /// Renames an element.
    ///
    /// # Errors
    /// [`Code::InvalidSearch`]; [`Code::PutProp`] for a name that is invalid or in use; [`Code::BadParam`] for a temporary element.
    pub fn rename(&mut self, element: &Element, to: &str) -> Result<(), PoolError> {
        self.put(element, name_property(element.kind()), PropValue::from(to))
    }

    /// Sets a property.
    ///
    /// # Errors
    /// As for [`values::check`]; [`Code::PutProp`] for a minimum above the maximum or a name in use; [`Code::InvalidConf`] if the CPUs of a
    /// machine cannot satisfy all minima and maxima.
    pub fn put(&mut self, element: &Element, name: &str, value: PropValue) -> Result<(), PoolError> {
        let kind = element.kind();
        let old = self.element(element)?.property(name);
        values::check(kind, name, &value, old.as_ref())?;
        if name == name_property(kind) {
            self.check_new_name(element, &value)?;
        }
        if let (Element::Pset(set), PropValue::Uint(bound)) = (element, &value) {
            self.check_bound(set, properties::takes(name), *bound)?;
        }
        self.element_mut(element)?.set_property(name, Some(value));
        Ok(())
    }

    /// Removes a property.
    ///
    /// # Errors
    /// [`Code::InvalidSearch`] if it does not exist, [`Code::BadParam`] if it is mandatory.
    pub fn remove(&mut self, element: &Element, name: &str) -> Result<(), PoolError> {
        let kind = element.kind();
        if let Some(rule) = rule(kind, name)
            && !rule.optional
        {
            return fail(Code::BadParam, format!("every {kind} has a {name}: set it instead"));
        }
        let properties = self.element_mut(element)?;
        if properties.property(name).is_none() {
            return fail(Code::InvalidSearch, format!("it has no property {name}"));
        }
        properties.set_property(name, None);
        Ok(())
    }

    fn element(&self, element: &Element) -> Result<&dyn properties::Element, PoolError> {
        let conf = &self.conf;
        let found: Option<&dyn properties::Element> = match element {
            Element::System(_) => Some(&conf.system),
            Element::Pool(name) => conf.pool(name).map(|p| p as _),
            Element::Pset(name) => conf.pset(name).map(|s| s as _),
            Element::Cpu(id) => conf.cpus().find(|c| c.id == *id).map(|c| c as _),
        };
        found.ok_or_else(|| self.not_found(element))
    }

    fn element_mut(&mut self, element: &Element) -> Result<&mut dyn properties::Element, PoolError> {
        let missing = self.not_found(element);
        let conf = &mut self.conf;
        let found: Option<&mut dyn properties::Element> = match element {
            Element::System(_) => Some(&mut conf.system),
            Element::Pool(name) => conf.pool_mut(name).map(|p| p as _),
            Element::Pset(name) => conf.pset_mut(name).map(|s| s as _),
            Element::Cpu(id) => conf.cpu_mut(*id).map(|c| c as _),
        };
        found.ok_or(missing)
    }

    fn check_new_name(&self, element: &Element, value: &PropValue) -> Result<(), PoolError> {
        let PropValue::String(new) = value else { return Ok(()) };
        let (taken, old, temporary) = match element {
            Element::Pool(old) => {
                let temporary = self.conf.pool(old).is_some_and(PoolNode::is_temporary);
                (self.conf.pool(new).is_some(), old, temporary)
            }
            Element::Pset(old) => {
                let temporary = self.conf.pset(old).is_some_and(PsetNode::is_temporary);
                (self.conf.pset(new).is_some(), old, temporary)
            }
            Element::System(old) => (false, old, false),
            Element::Cpu(_) => return fail(Code::BadParam, "CPUs have numbers, and no names"),
        };
        if temporary {
            return fail(Code::BadParam, format!("{old} is temporary, and keeps its name"));
        }
        if !is_element_name(new) {
            return fail(Code::PutProp, NAME_RULE);
        }
        if taken && old != new {
            return fail(Code::PutProp, format!("there is a {} of that name already", element.kind()));
        }
        Ok(())
    }

    fn check_bound(&self, set: &str, which: Takes, bound: u64) -> Result<(), PoolError> {
        let pset = self.conf.pset(set).ok_or_else(|| self.no_such_pset())?;
        let (min, max) = match which {
            Takes::Minimum => (bound, pset.max),
            Takes::Maximum => (pset.min, bound),
            _ => return Ok(()),
        };
        if min > max {
            return fail(Code::PutProp, format!("the minimum, {min}, would be above the maximum, {max}"));
        }
        if pset.is_default && min == 0 {
            return fail(Code::PutProp, "the default set keeps at least one CPU");
        }
        if self.place == Place::File {
            return Ok(());
        }
        let others = || self.conf.psets.iter().filter(|s| s.name != set);
        let sizes: u64 = self.conf.psets.iter().map(|set| self.size(set)).sum();
        let online = if self.conf.cpus().count() as u64 > sizes { " on-line" } else { "" };
        let mins = others().map(|s| s.min).fold(min, u64::saturating_add);
        let maxes = others().map(|s| s.max).fold(max, u64::saturating_add);
        if which == Takes::Minimum && mins > sizes {
            let why = format!("all minima together would be {mins}, and there are {sizes} CPUs{online}");
            return fail(Code::InvalidConf, why);
        }
        if which == Takes::Maximum && maxes < sizes {
            let why = format!("all maxima together would be {maxes}, and there are {sizes} CPUs{online}");
            return fail(Code::InvalidConf, why);
        }
        Ok(())
    }

    /// A key by which pools and sets of a file refer to each other. Those of a machine get their numbers at the commit.
    fn next_ref(&mut self) -> RefId {
        let next = self.conf.system.user.uint(NEXT_ID).unwrap_or(0);
        let key = |n: u64| RefId::from(format!("id_{n:x}"));
        let pools = self.conf.pools.iter().map(|p| &p.ref_id);
        let taken: HashSet<&RefId> = pools.chain(self.conf.psets.iter().map(|s| &s.ref_id)).collect();
        let free = (next..).find(|n| !taken.contains(&key(*n))).unwrap_or(next);
        if self.place == Place::File {
            self.conf.system.user.set(NEXT_ID, free + 1);
        }
        key(free)
    }

    fn not_found(&self, element: &Element) -> PoolError {
        match element {
            Element::System(_) | Element::Pool(_) => self.no_such_pool(),
            Element::Pset(_) => self.no_such_pset(),
            Element::Cpu(_) => self.no_such_cpu(),
        }
    }

    /// The error for a pool that does not exist.
    #[must_use]
    pub fn no_such_pool(&self) -> PoolError {
        there_are("pools", self.conf.pools.iter().map(|p| p.name.as_str()))
    }

    /// The error for a set that does not exist.
    #[must_use]
    pub fn no_such_pset(&self) -> PoolError {
        there_are("psets", self.conf.psets.iter().map(|s| s.name.as_str()))
    }

    /// The error for a CPU that does not exist.
    #[must_use]
    pub fn no_such_cpu(&self) -> PoolError {
        let all: millpond_model::CpuSet = self.conf.cpus().map(|c| c.id).collect();
        PoolError::hinted(Code::InvalidSearch, format!("there are CPUs {all}"))
    }

    /// The number of a pool of the machine.
    ///
    /// # Errors
    /// [`Code::InvalidSearch`].
    pub fn pool_id(&self, name: &str) -> Result<PoolId, PoolError> {
        self.conf.pool(name).and_then(|p| p.id).ok_or_else(|| self.no_such_pool())
    }
}

const NAME_RULE: &str = "a name begins with a letter, and goes on with letters, digits and , . _ -";

fn free_name(kind: &str, name: &str, taken: bool) -> Result<(), PoolError> {
    if !is_element_name(name) {
        return fail(Code::BadParam, NAME_RULE);
    }
    if taken {
        return fail(Code::BadParam, format!("there is a {kind} of that name already"));
    }
    Ok(())
}

fn there_are<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> PoolError {
    let names: Vec<&str> = names.take(10).collect();
    PoolError::hinted(Code::InvalidSearch, format!("there are the {what} {}", names.join(", ")))
}

/// Refuses a name that is not valid for any property.
pub(crate) fn property_name(name: &str) -> Result<(), PoolError> {
    if is_property_name(name) { Ok(()) } else { fail(Code::BadParam, NAME_RULE) }
}
