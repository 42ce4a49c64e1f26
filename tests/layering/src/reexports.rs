//! Re-exports that circumvent the map: a room must not get the items of a forbidden room through a third one.

use crate::arrows::{Metadata, may_know, rooms};
use crate::{Breach, Scan, SourceFile, habits};

/// Each `pub use` or `pub type` that exports a room's items to a crate that must not depend on that room.
#[must_use]
pub fn check(metadata: &Metadata, files: &[SourceFile]) -> Vec<Breach> {
    let rooms = rooms(metadata);
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| habits::is_product(&file.path) && !file.is_test) {
        let here = rooms.iter().find(|room| file.path.starts_with(&format!("{}/src/", room.dir)));
        let Some(here) = here else { continue };
        for (line, code) in exports(&file.text) {
            for to in rooms.iter().filter(|to| {
                here.knows.contains(&to.package)
                    && code.contains(&format!("{}::", to.package.replace('-', "_")))
            }) {
                let around = rooms
                    .iter()
                    .find(|from| from.knows.contains(&here.package) && !may_know(from.room, to.room));
                if let Some(around) = around {
                    let what = format!(
                        "re-exports items of {} to {}, which must not depend on it",
                        to.room, around.room
                    );
                    breaches.push(Breach { place: format!("{}:{line}", file.path), what });
                }
            }
        }
    }
    breaches
}

/// Statements that begin with `pub use` or `pub type`, with their lines.
fn exports(text: &str) -> Vec<(usize, String)> {
    let scan = Scan::of(text);
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    for (at, code) in scan.code.iter().enumerate().filter(|(at, _)| !scan.is_test_line(at + 1)) {
        let begins = code.trim_start();
        if begins.starts_with("pub use ") || begins.starts_with("pub type ") {
            found.push((at + 1, String::new()));
            is_open = true;
        }
        if let (true, Some((_, statement))) = (is_open, found.last_mut()) {
            statement.push_str(code);
            is_open = !code.contains(';');
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrows::{Dependency, Package};

    fn package(name: &str, dir: &str, knows: &[&str]) -> Package {
        let dependency = |name: &&str| Dependency {
            name: format!("millpond-{name}"),
            path: Some(format!("/w/lib/{name}")),
            ..Dependency::default()
        };
        Package {
            name: format!("millpond-{name}"),
            manifest_path: format!("/w/{dir}/Cargo.toml"),
            dependencies: knows.iter().map(dependency).collect(),
            ..Package::default()
        }
    }

    fn found(path: &str, text: &str) -> Vec<String> {
        let metadata = Metadata {
            packages: vec![
                package("model", "lib/model", &[]),
                package("sim", "lib/sim", &["model"]),
                package("session", "lib/session", &["sim", "model"]),
                package("cmd", "cmd", &["session", "model"]),
            ],
            workspace_root: "/w".into(),
        };
        let file = SourceFile { path: path.into(), text: text.into(), is_test: false };
        check(&metadata, &[file]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_room_that_hands_on_what_its_users_must_not_know_is_found() {
        for statement in [
            "pub use millpond_sim::boot;",
            "pub use millpond_sim::{\n  Load,\n  Opt,\n};",
            "pub type A = millpond_sim::B;",
        ] {
            let text = format!("//! A.\nuse millpond_sim::c;\n{statement}\n");
            assert_eq!(
                found("lib/session/src/a.rs", &text),
                ["lib/session/src/a.rs:3: re-exports items of sim to cmd, which must not depend on it"]
            );
        }
    }

    #[test]
    fn what_users_may_know_and_what_stays_inside_may_be_re_exported() {
        for text in [
            "pub use millpond_model::CpuId;",
            "pub(crate) use millpond_sim::a;",
            "// pub use millpond_sim::a;",
        ] {
            assert_eq!(found("lib/session/src/a.rs", text), [""; 0]);
        }
        assert_eq!(found("lib/session/tests/a.rs", "pub use millpond_sim::a;"), [""; 0]);
        assert_eq!(found("cmd/src/a.rs", "pub use millpond_sim::a;"), [""; 0]);
    }
}
