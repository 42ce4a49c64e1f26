//! The machine files that are part of the program.

/// Their names, in the order of help.
pub const NAMES: [&str; 10] =
    ["t2000", "t2-64", "x4200", "smartos-2", "ff2", "dc1", "dc3", "e6900", "e25k", "u2i"];

/// The machine file of that name.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    Some(match name {
        "t2000" => include_str!("../machines/t2000.json"),
        "t2-64" => include_str!("../machines/t2-64.json"),
        "x4200" => include_str!("../machines/x4200.json"),
        "smartos-2" => include_str!("../machines/smartos-2.json"),
        "ff2" => include_str!("../machines/ff2.json"),
        "dc1" => include_str!("../machines/dc1.json"),
        "dc3" => include_str!("../machines/dc3.json"),
        "e6900" => include_str!("../machines/e6900.json"),
        "e25k" => include_str!("../machines/e25k.json"),
        "u2i" => include_str!("../machines/u2i.json"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn every_figure_of_every_machine_has_a_source() {
        for name in NAMES {
            let file: Value = serde_json::from_str(text(name).unwrap()).unwrap();
            let sources = file["sources"].as_object().unwrap();
            let figures = [
                "processor",
                "core",
                "pipeline",
                "caches",
                "cache_cycles",
                "memory",
                "switch_ns",
                "handover_trips",
                "stations",
            ];
            for figure in figures {
                let has_source = sources.get(figure).and_then(Value::as_str).is_some_and(|s| s.len() > 10);
                assert_eq!(has_source, !file[figure].is_null(), "{name}: {figure}");
            }
            assert_eq!(crate::SimMachine::named(name).unwrap().view(|s| s.check()), Ok(()), "{name}");
        }
    }
}
