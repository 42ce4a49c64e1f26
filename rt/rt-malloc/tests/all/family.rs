//! The whole malloc family in unmodified programs in C and C++: in one thread, in many, and in children of forks.

use crate::common::compiled::{How, Program, has};
use crate::common::library;

/// Compiled with `-fno-builtin`, because compilers otherwise optimise calls of malloc away.
const FAMILY: &str = "../rt-malloc/tests/family.c";

fn is_as_its_manual_has_it(test: &str, pairs: &[(&str, &str)], asked: &[&str]) {
    let there: Vec<_> = pairs.iter().filter(|(compiler, _)| has(compiler)).collect();
    if there.is_empty() {
        println!("skipped: {test}: there is no {}", pairs[0].0);
    }
    for (compiler, standard) in there {
        let program = Program::new(FAMILY, How { compiler, standard, library: "", more: &["-fno-builtin"] });
        for debug in asked {
            let mut command = program.command();
            let out = command.env("LD_PRELOAD", library()).env("UMEM_DEBUG", debug).output().unwrap();
            let said = [out.stdout, out.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            assert!(out.status.success(), "{compiler} {debug:?}: {}: {said}", out.status);
        }
    }
}

#[test]
fn the_family_is_as_its_manual_has_it() {
    let pairs = [("gcc", "c99"), ("g++", "c++11"), ("clang-19", "c99")];
    is_as_its_manual_has_it("the_family_is_as_its_manual_has_it", &pairs, &[""]);
}

#[test]
fn so_it_is_however_it_is_checked() {
    let asked = ["default,verbose", "lite", "audit", "firewall=1000", "default,random"];
    is_as_its_manual_has_it("so_it_is_however_it_is_checked", &[("cc", "c99")], &asked);
}
