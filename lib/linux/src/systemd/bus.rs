//! systemd over D-Bus, on the system bus: `DBUS_SYSTEM_BUS_ADDRESS`, else the socket below `/run/dbus`.

use super::Manager;
use millpond_machine::KnobError;
use millpond_model::{CpuId, CpuSet, NodeSet};
use std::time::{Duration, Instant};
use zbus::wire::{DynamicType, OwnedObjectPath, OwnedVariant, Type, Variant};
use zbus::{Connection, DBusError, Error, block_on};

/// Address of the bus, unless the environment sets another one.
const SYSTEM_BUS: &str = "unix:path=/run/dbus/system_bus_socket";
const SERVICE: &str = "org.freedesktop.systemd1";
const OBJECT: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const UNIT: &str = "org.freedesktop.systemd1.Unit";
/// Timeout of an answer: systemd may be waiting for the kernel to change cpusets.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long the name of a scope may stay in use after its last process left.
const REAPING: Duration = Duration::from_secs(5);

pub(super) struct Bus {
    connection: Connection,
}

type Properties<'a> = Vec<(&'a str, Variant<'a>)>;

impl Bus {
    pub fn connect() -> Result<Self, KnobError> {
        let address = std::env::var("DBUS_SYSTEM_BUS_ADDRESS").unwrap_or_else(|_| SYSTEM_BUS.to_owned());
        let opening = zbus::conn::Builder::address(address.as_str()).method_timeout(TIMEOUT).build();
        match block_on(opening) {
            Ok(connection) => Ok(Bus { connection }),
            Err(why) => Err(super::no_bus(&why.to_string())),
        }
    }

    fn call<B>(&self, path: &str, interface: &str, method: &str, body: &B) -> Result<zbus::Message, Error>
    where
        B: serde::Serialize + DynamicType,
    {
        block_on(self.connection.call_method(Some(SERVICE), path, Some(interface), method, body))
    }

    /// Calls a method of the manager and ignores its result.
    fn ask<B>(&self, method: &str, body: &B) -> Result<(), KnobError>
    where
        B: serde::Serialize + DynamicType,
    {
        self.call(OBJECT, MANAGER, method, body).map(drop).map_err(knob)
    }

    /// A property of a unit, whose object `method` returns.
    fn property<T>(&self, method: &str, unit: &str, interface: &str, property: &str) -> Result<T, KnobError>
    where
        T: TryFrom<Variant<'static>, Error = zbus::wire::Error>,
    {
        let reply = self.call(OBJECT, MANAGER, method, &(unit,)).map_err(knob)?;
        let path: OwnedObjectPath = body(&reply)?;
        let get = (interface, property);
        let reply = self.call(path.as_str(), "org.freedesktop.DBus.Properties", "Get", &get).map_err(knob)?;
        let value: OwnedVariant = body(&reply)?;
        Variant::from(value).try_into().map_err(knob)
    }

    fn start(&self, unit: &str, properties: Properties<'_>) -> Result<(), Error> {
        let auxiliary: Vec<(&str, Properties<'_>)> = Vec::new();
        self.call(OBJECT, MANAGER, "StartTransientUnit", &(unit, "fail", properties, auxiliary)).map(drop)
    }

    fn set(&self, unit: &str, property: &str, value: Variant<'_>) -> Result<(), KnobError> {
        let properties: Properties<'_> = vec![(property, value)];
        self.ask("SetUnitProperties", &(unit, true, properties))
    }
}

/// The body of a reply.
fn body<T>(reply: &zbus::Message) -> Result<T, KnobError>
where
    T: for<'d> serde::Deserialize<'d> + Type,
{
    reply.body().deserialize_ignore_signature::<T>().map_err(knob)
}

impl Manager for Bus {
    fn start_slice(&self, unit: &str) -> Result<(), KnobError> {
        let description = Variant::from("CPUs of a millpond set");
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
                // The previous scope of this name is empty but not removed yet.
                Err(error) if is(&error, "UnitExists") && start.elapsed() < REAPING => {
                    std::thread::sleep(super::POLL);
                }
                result => return result.map_err(knob),
            }
        }
    }

    fn adopt(&self, unit: &str, pid: u32) -> Result<(), KnobError> {
        self.ask("AttachProcessesToUnit", &(unit, "", vec![pid]))
    }

    fn stop(&self, unit: &str) -> Result<(), KnobError> {
        self.ask("StopUnit", &(unit, "fail"))
    }

    fn is_active(&self, unit: &str) -> Result<bool, KnobError> {
        let state: Result<String, KnobError> = self.property("GetUnit", unit, UNIT, "ActiveState");
        match state.as_deref() {
            Err(KnobError::Gone) | Ok("inactive" | "failed") => Ok(false),
            Ok(_) => Ok(true),
            Err(error) => Err(error.clone()),
        }
    }

    fn allowed(&self, unit: &str) -> Result<Option<CpuSet>, KnobError> {
        let bytes: Vec<u8> = self.property("GetUnit", unit, &interface(unit), "AllowedCPUs")?;
        let cpus = from_bytes(&bytes);
        Ok((!cpus.is_empty()).then_some(cpus))
    }

    fn allow(&self, unit: &str, cpus: Option<&CpuSet>) -> Result<(), KnobError> {
        let bytes = cpus.map(|cpus| to_bytes(cpus.iter().map(|cpu| cpu.0))).unwrap_or_default();
        self.set(unit, "AllowedCPUs", Variant::from(bytes))
    }

    fn number(&self, unit: &str, property: &str) -> Result<Option<u64>, KnobError> {
        let number: u64 = self.property("GetUnit", unit, &interface(unit), property)?;
        // An unset property has the largest number.
        Ok((number != u64::MAX).then_some(number))
    }

    fn set_number(&self, unit: &str, property: &str, value: Option<u64>) -> Result<(), KnobError> {
        self.set(unit, property, Variant::from(value.unwrap_or(u64::MAX)))
    }

    fn allow_memory(&self, unit: &str, nodes: &NodeSet) -> Result<(), KnobError> {
        let bytes = to_bytes(nodes.iter().map(|node| node.0));
        self.set(unit, "AllowedMemoryNodes", Variant::from(bytes))
    }

    fn is_started_after(&self, unit: &str, other: &str) -> Result<bool, KnobError> {
        let after: Vec<String> = self.property("LoadUnit", unit, UNIT, "After")?;
        Ok(after.iter().any(|name| name == other))
    }

    fn reload(&self) -> Result<(), KnobError> {
        self.ask("Reload", &())
    }
}

/// The D-Bus interface of a unit, from its name.
fn interface(unit: &str) -> String {
    let kind = unit.rsplit('.').next().unwrap_or_default();
    let (first, rest) = kind.split_at_checked(1).unwrap_or_default();
    format!("{SERVICE}.{}{rest}", first.to_ascii_uppercase())
}

/// The name and the text of an error reply.
fn refusal(error: &Error) -> Option<(String, String)> {
    match error {
        Error::MethodError(name, words, _) => Some((name.to_string(), words.clone().unwrap_or_default())),
        Error::FDO(error) => {
            Some((error.name().to_string(), error.description().unwrap_or_default().to_owned()))
        }
        _ => None,
    }
}

fn is(error: &Error, name: &str) -> bool {
    refusal(error).is_some_and(|(is, _)| is.rsplit('.').next() == Some(name))
}

fn knob(error: Error) -> KnobError {
    match refusal(&error) {
        Some(_) if is(&error, "NoSuchUnit") || is(&error, "NoSuchProcess") => KnobError::Gone,
        Some(_) if is(&error, "AccessDenied") || is(&error, "InteractiveAuthorizationRequired") => {
            KnobError::NotPermitted
        }
        Some((_, words)) => KnobError::Refused(format!("systemd says: {words}")),
        None => KnobError::Refused(format!("systemd cannot be asked: {error}")),
    }
}

/// systemd's format of a set of CPUs or nodes: number 0 is the lowest bit of the first byte. The numbers are ascending.
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
