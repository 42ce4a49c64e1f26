//! The machines that come with the program.

/// Their names, in the order in which help shows them.
pub const NAMES: [&str; 4] = ["t2000", "t2-64", "x4200", "smartos-2"];

/// The machine file of that name.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    Some(match name {
        "t2000" => include_str!("../machines/t2000.json"),
        "t2-64" => include_str!("../machines/t2-64.json"),
        "x4200" => include_str!("../machines/x4200.json"),
        "smartos-2" => include_str!("../machines/smartos-2.json"),
        _ => return None,
    })
}
