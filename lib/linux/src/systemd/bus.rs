//! systemd over D-Bus. The administrator speaks to it directly, through the socket that it keeps for that, so that no
//! message bus need run.

use super::Manager;
use super::wire::{Answer, Conversation, Trouble};
use millpond_machine::KnobError;
use millpond_model::{CpuId, CpuSet, NodeSet};
use std::cell::RefCell;
use std::time::{Duration, Instant};
use zbus::wire::{DynamicType, OwnedObjectPath, OwnedVariant, Variant};

const SOCKET: &str = "/run/systemd/private";
const SERVICE: &str = "org.freedesktop.systemd1";
const OBJECT: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
/// How long a scope's name may stay taken after its last process left.
const REAPING: Duration = Duration::from_secs(5);

pub(super) struct Bus {
    conversation: RefCell<Conversation>,
}

type Properties<'a> = Vec<(&'a str, Variant<'a>)>;

impl Bus {
    pub fn connect() -> Result<Self, KnobError> {
        let conversation = Conversation::open(SOCKET).map_err(knob)?;
        Ok(Bus { conversation: RefCell::new(conversation) })
    }

    fn call<B>(&self, path: &str, interface: &str, method: &str, body: &B) -> Result<Answer, Trouble>
    where
        B: serde::Serialize + DynamicType,
    {
        self.conversation.borrow_mut().call(path, interface, method, body)
    }

    /// A property of a loaded unit.
    fn property<T>(&self, unit: &str, interface: &str, property: &str) -> Result<T, KnobError>
    where
        T: TryFrom<Variant<'static>, Error = zbus::wire::Error>,
    {
        let reply = self.call(OBJECT, MANAGER, "GetUnit", &(unit,)).map_err(knob)?;
        let path: OwnedObjectPath = reply.read().map_err(knob)?;
        let get = (interface, property);
        let reply = self.call(path.as_str(), "org.freedesktop.DBus.Properties", "Get", &get).map_err(knob)?;
        let value: OwnedVariant = reply.read().map_err(knob)?;
        Variant::from(value).try_into().map_err(|e: zbus::wire::Error| knob(e.into()))
    }

    fn start(&self, unit: &str, properties: Properties<'_>) -> Result<(), Trouble> {
        let auxiliary: Vec<(&str, Properties<'_>)> = Vec::new();
        self.call(OBJECT, MANAGER, "StartTransientUnit", &(unit, "fail", properties, auxiliary)).map(drop)
    }
}

impl Manager for Bus {
    fn start_slice(&self, unit: &str) -> Result<(), KnobError> {
        let description = Variant::from("Processors of a millpond set");
        self.start(unit, vec![("Description", description)]).map_err(knob)
    }

    fn start_scope(&self, unit: &str, slice: &str, pid: u32) -> Result<(), KnobError> {
        let start = Instant::now();
        loop {
            let properties = vec![
                ("Description", Variant::from("A process in a millpond set")),
                ("PIDs", Variant::from(vec![pid])),
                ("Slice", Variant::from(slice)),
                ("CollectMode", Variant::from("inactive-or-failed")),
            ];
            match self.start(unit, properties) {
                // The last one of this name is empty and not forgotten yet.
                Err(error) if is(&error, "UnitExists") && start.elapsed() < REAPING => {
                    std::thread::sleep(super::POLL);
                }
                result => return result.map_err(knob),
            }
        }
    }

    fn adopt(&self, unit: &str, pid: u32) -> Result<(), KnobError> {
        self.call(OBJECT, MANAGER, "AttachProcessesToUnit", &(unit, "", vec![pid])).map(drop).map_err(knob)
    }

    fn stop(&self, unit: &str) -> Result<(), KnobError> {
        self.call(OBJECT, MANAGER, "StopUnit", &(unit, "fail")).map(drop).map_err(knob)
    }

    fn is_active(&self, unit: &str) -> Result<bool, KnobError> {
        let state: Result<String, KnobError> = self.property(unit, &format!("{SERVICE}.Unit"), "ActiveState");
        match state.as_deref() {
            Err(KnobError::Gone) | Ok("inactive" | "failed") => Ok(false),
            Ok(_) => Ok(true),
            Err(error) => Err(error.clone()),
        }
    }

    fn allowed(&self, unit: &str) -> Result<Option<CpuSet>, KnobError> {
        let bytes: Vec<u8> = self.property(unit, &interface(unit), "AllowedCPUs")?;
        let cpus = from_bytes(&bytes);
        Ok((!cpus.is_empty()).then_some(cpus))
    }

    fn allow(&self, unit: &str, cpus: Option<&CpuSet>) -> Result<(), KnobError> {
        let bytes = cpus.map(|cpus| to_bytes(cpus.iter().map(|cpu| cpu.0))).unwrap_or_default();
        let properties: Properties<'_> = vec![("AllowedCPUs", Variant::from(bytes))];
        self.call(OBJECT, MANAGER, "SetUnitProperties", &(unit, true, properties)).map(drop).map_err(knob)
    }

    fn number(&self, unit: &str, property: &str) -> Result<Option<u64>, KnobError> {
        let number: u64 = self.property(unit, &interface(unit), property)?;
        // What is not set is the largest number there is.
        Ok((number != u64::MAX).then_some(number))
    }

    fn set_number(&self, unit: &str, property: &str, value: Option<u64>) -> Result<(), KnobError> {
        let properties: Properties<'_> = vec![(property, Variant::from(value.unwrap_or(u64::MAX)))];
        self.call(OBJECT, MANAGER, "SetUnitProperties", &(unit, true, properties)).map(drop).map_err(knob)
    }

    fn allow_memory(&self, unit: &str, nodes: &NodeSet) -> Result<(), KnobError> {
        let properties: Properties<'_> =
            vec![("AllowedMemoryNodes", Variant::from(to_bytes(nodes.iter().map(|node| node.0))))];
        self.call(OBJECT, MANAGER, "SetUnitProperties", &(unit, true, properties)).map(drop).map_err(knob)
    }

    fn reload(&self) -> Result<(), KnobError> {
        self.call(OBJECT, MANAGER, "Reload", &()).map(drop).map_err(knob)
    }
}

/// The interface of a unit of this name.
fn interface(unit: &str) -> String {
    let kind = unit.rsplit('.').next().unwrap_or_default();
    let (first, rest) = kind.split_at_checked(1).unwrap_or_default();
    format!("{SERVICE}.{}{rest}", first.to_ascii_uppercase())
}

fn is(trouble: &Trouble, name: &str) -> bool {
    matches!(trouble, Trouble::Refused(is, _) if is.rsplit('.').next() == Some(name))
}

fn knob(trouble: Trouble) -> KnobError {
    match &trouble {
        _ if is(&trouble, "NoSuchUnit") || is(&trouble, "NoSuchProcess") => KnobError::Gone,
        _ if is(&trouble, "AccessDenied") || is(&trouble, "InteractiveAuthorizationRequired") => {
            KnobError::NotPermitted
        }
        Trouble::Refused(_, words) => KnobError::Refused(format!("systemd says: {words}")),
        Trouble::Broken(why) => KnobError::Refused(format!("systemd cannot be asked: {why}")),
    }
}

/// systemd's form of a set of CPUs or nodes, ascending: number 0 is the lowest bit of the first byte.
fn to_bytes(numbers: impl Iterator<Item = u32>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in numbers {
        bytes.resize(number as usize / 8 + 1, 0);
        bytes[number as usize / 8] |= 1 << (number % 8);
    }
    bytes
}

fn from_bytes(bytes: &[u8]) -> CpuSet {
    let bits = bytes.iter().zip(0u32..).flat_map(|(byte, index)| {
        (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| CpuId(index * 8 + bit))
    });
    bits.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_survives_systemds_form(cpus in proptest::collection::btree_set(0u32..300, 0..40)) {
            let cpus: CpuSet = cpus.into_iter().map(CpuId).collect();
            prop_assert_eq!(from_bytes(&to_bytes(cpus.iter().map(|cpu| cpu.0))), cpus);
        }
    }

    #[test]
    fn the_first_processor_is_the_lowest_bit() {
        let cpus: CpuSet = "0,2,9".parse().unwrap();
        assert_eq!(to_bytes(cpus.iter().map(|cpu| cpu.0)), [0b101, 0b10]);
        assert_eq!(interface("mpset1.slice"), "org.freedesktop.systemd1.Slice");
    }
}
