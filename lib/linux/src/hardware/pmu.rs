//! Counters and events that the kernel lists for its CPUs: `/sys/bus/event_source/devices/*`.
//!
//! An event is a text such as `event=0x3c,umask=0x01`. A file per word has the position of its value in the kernel's three
//! configuration numbers: `config:0-7`, or in pieces, `config:0-7,32-35`.

use crate::Root;
use millpond_formats::events::c_integer;
use millpond_model::CpuSet;
use std::collections::BTreeMap;
use std::path::Path;

/// The counters of one type of CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pmu {
    pub(super) name: String,
    /// The kernel's type number.
    pub(super) type_: u32,
    /// The CPUs of this type; `None` for all.
    pub(super) cpus: Option<CpuSet>,
    events: BTreeMap<String, [u64; 3]>,
}

/// The counters of all CPU types. Counters of other devices (memory, links) are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Pmus(Vec<Pmu>);

/// The position of a word: index of the configuration number, and ranges of bits, lowest first.
type Field = (usize, Vec<(u32, u32)>);

impl Pmus {
    /// Reads them. Empty where none exist or can be read.
    pub(super) fn read(root: &Root) -> Pmus {
        let devices = root.sys.join("bus/event_source/devices");
        let names = root.names(&devices).unwrap_or_default();
        Pmus(names.iter().filter_map(|name| read_one(root, &devices.join(name), name)).collect())
    }

    /// All types.
    pub(super) fn core(&self) -> &[Pmu] {
        &self.0
    }

    /// The event of a name, `EVENT` or `PMU/EVENT`. `None` for a short name that several CPU types have.
    pub(super) fn find(&self, name: &str) -> Option<(&Pmu, [u64; 3])> {
        let (pmu, event) = match name.split_once('/') {
            Some((pmu, event)) => (Some(pmu), event.trim_end_matches('/')),
            None => (None, name),
        };
        let of_name = |other: &&Pmu| pmu.is_none_or(|pmu| pmu == other.name);
        let mut found = self.0.iter().filter(of_name).filter_map(|pmu| Some((pmu, *pmu.events.get(event)?)));
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }

    /// The shortest unambiguous name of each event.
    pub(super) fn names(&self) -> Vec<String> {
        let all = self.0.iter().flat_map(|pmu| pmu.events.keys().map(move |event| (pmu, event)));
        let name = |(pmu, event): (&Pmu, &String)| match self.find(event) {
            Some(_) => event.clone(),
            None => format!("{}/{event}/", pmu.name),
        };
        all.map(name).collect()
    }
}

fn read_one(root: &Root, dir: &Path, name: &str) -> Option<Pmu> {
    let value = |file: &Path| root.read_value(file).ok().flatten();
    let cpus = value(&dir.join("cpus"));
    // Without a CPU list, only the device `cpu` has counters of CPUs.
    if name != "cpu" && cpus.is_none() {
        return None;
    }
    let type_ = value(&dir.join("type"))?.trim().parse().ok()?;
    let fields: BTreeMap<String, Field> = root
        .names(&dir.join("format"))
        .unwrap_or_default()
        .into_iter()
        .filter_map(|name| Some((name.clone(), parse_field(&value(&dir.join("format").join(name))?)?)))
        .collect();
    let events = root.names(&dir.join("events")).unwrap_or_default();
    // The directory also has unit files: NAME.unit, NAME.scale.
    let events = events.into_iter().filter(|event| !event.contains('.'));
    let events = events.filter_map(|event| {
        let config = parse_event(&value(&dir.join("events").join(&event))?, &fields)?;
        Some((event, config))
    });
    let cpus = cpus.and_then(|text| text.trim().parse().ok());
    Some(Pmu { name: name.to_owned(), type_, cpus, events: events.collect() })
}

/// `config1:0-7,12` is number 1, bits 0 to 7 followed by bit 12.
fn parse_field(text: &str) -> Option<Field> {
    let (number, bits) = text.trim().split_once(':')?;
    let number = match number {
        "config" => 0,
        "config1" => 1,
        "config2" => 2,
        _ => return None,
    };
    let piece = |piece: &str| {
        let (low, high) = piece.split_once('-').unwrap_or((piece, piece));
        let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
        (low <= high && high < u64::BITS).then_some((low, high))
    };
    Some((number, bits.split(',').map(piece).collect::<Option<Vec<_>>>()?))
}

/// The configuration numbers of an event; `None` for one with an unknown word.
fn parse_event(text: &str, fields: &BTreeMap<String, Field>) -> Option<[u64; 3]> {
    let mut config = [0; 3];
    for term in text.trim().split(',') {
        let (word, value) = match term.split_once('=') {
            Some((word, value)) => (word, c_integer(value)?),
            None => (term, 1),
        };
        let whole = vec![(0, u64::BITS - 1)];
        let plain = (0, whole);
        let (number, pieces) = match fields.get(word) {
            Some(field) => field,
            None if word == "config" => &plain,
            None => return None,
        };
        let mut rest = value;
        for (low, high) in pieces {
            let width = high - low + 1;
            let mask = u64::MAX >> (u64::BITS - width);
            config[*number] |= (rest & mask) << low;
            rest = rest.checked_shr(width).unwrap_or(0);
        }
        // A value too large for its field would select another event.
        if rest != 0 {
            return None;
        }
    }
    Some(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn write(root: &Root, path: &str, text: &str) {
        let file = root.sys.join("bus/event_source/devices").join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// CPUs of two types, as on a machine with large and small cores, and memory counters.
    fn hybrid() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::captured(dir.path());
        for (name, number, cpus) in [("cpu_atom", "10", "4-7"), ("cpu_core", "4", "0-3")] {
            write(&root, &format!("{name}/type"), number);
            write(&root, &format!("{name}/cpus"), cpus);
            write(&root, &format!("{name}/format/event"), "config:0-7\n");
            write(&root, &format!("{name}/format/umask"), "config:8-15\n");
            write(&root, &format!("{name}/events/instructions"), "event=0xc0\n");
        }
        write(&root, "cpu_core/format/ldlat", "config1:0-15\n");
        write(&root, "cpu_core/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n");
        write(&root, "cpu_core/events/mem-loads.unit", "loads\n");
        write(&root, "cpu_core/events/odd", "nobody=1\n");
        write(&root, "uncore_imc/type", "20\n");
        write(&root, "uncore_imc/events/reads", "config=0x1\n");
        (dir, root)
    }

    #[test]
    fn events_of_processors_are_put_together_from_their_words() {
        let (_dir, root) = hybrid();
        let pmus = Pmus::read(&root);
        assert_eq!(pmus.core().len(), 2, "memory belongs to no processor");
        let (pmu, config) = pmus.find("mem-loads").unwrap();
        assert_eq!((pmu.type_, config), (4, [0x1cd, 3, 0]));
        assert_eq!(pmu.cpus.as_ref().map(ToString::to_string).as_deref(), Some("0-3"));
        assert!(pmus.find("odd").is_none() && pmus.find("reads").is_none());
    }

    #[test]
    fn an_event_of_two_types_needs_its_type() {
        let (_dir, root) = hybrid();
        let pmus = Pmus::read(&root);
        assert!(pmus.find("instructions").is_none());
        assert_eq!(pmus.find("cpu_atom/instructions/").unwrap().0.type_, 10);
        assert_eq!(pmus.names(), ["cpu_atom/instructions/", "cpu_core/instructions/", "mem-loads"]);
    }

    #[test]
    fn a_field_may_be_in_pieces() {
        let fields = BTreeMap::from([("event".to_owned(), parse_field("config:0-7,32-35").unwrap())]);
        assert_eq!(parse_event("event=0x1ff", &fields), Some([0x1_0000_00ff, 0, 0]));
        assert_eq!(parse_event("event=0x1fff", &fields), None, "it does not fit");
        assert_eq!(parse_event("config=0x11", &BTreeMap::new()), Some([0x11, 0, 0]));
        for bad in ["config", "config:7-0", "config:0-64", "config3:1", "config:x"] {
            assert_eq!(parse_field(bad), None, "{bad}");
        }
    }

    #[test]
    fn fuzz_events_of_processors() {
        let seeds = ["config:0-7,32-35\nevent=0x1ff,umask=1,any", "config1:0-63\nevent=18446744073709551615"];
        millpond_fuzz::check_text("linux-pmu", &seeds, |text| {
            let (field, event) = text.split_once('\n').unwrap_or((text, ""));
            let Some(field) = parse_field(field) else { return };
            let bits: u64 = field
                .1
                .iter()
                .fold(0, |bits, (low, high)| bits | (u64::MAX >> (u64::BITS - (high - low + 1))) << low);
            let number = field.0;
            let fields = BTreeMap::from([("event".to_owned(), field)]);
            if let Some(config) = parse_event(event, &fields)
                && !event.contains("config")
            {
                assert_eq!(config[number] & !bits, 0, "only bits of the field are set");
            }
        });
    }
}
