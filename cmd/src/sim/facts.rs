//! Facts that programs query on a simulated machine: its number of CPUs, and its memory size.

use super::shell::{Shell, Trouble, none};
use crate::ctx::Ctx;

/// The names that this `getconf` supports.
const NAMES: [&str; 2] = ["_NPROCESSORS_CONF", "_NPROCESSORS_ONLN"];

/// `getconf NAME`, in the global zone.
pub fn getconf(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    getconf_in(shell, "global", words, 1, ctx)
}

/// The same in a zone. `skipped` is the number of words before the name.
pub fn getconf_in(
    shell: &Shell,
    zone: &str,
    words: &[String],
    skipped: usize,
    ctx: &mut Ctx<'_>,
) -> Result<(), Trouble> {
    let [name] = words else {
        let at = skipped + words.len().min(1);
        return Err(Trouble::misuse(at, "getconf takes one name"));
    };
    let counts = shell.simulated()?.processors_of_zone(zone);
    match NAMES.iter().zip(counts).find(|(known, _)| *known == name) {
        Some((_, count)) => ctx.out.line(count),
        None => {
            let what = format!("getconf does not know `{}` here", name.escape_debug());
            let remedy =
                format!("there are {}; millpond posix has the options of POSIX", NAMES.join(" and "));
            return Err(Trouble::new(skipped, what).remedy(remedy));
        }
    }
    Ok(())
}

/// `prtconf`, but only the size of memory; with `-m` the number alone.
pub fn prtconf(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let is_number = words.first().is_some_and(|word| word == "-m");
    none("prtconf", &words[usize::from(is_number)..])?;
    let Some(kib) = shell.simulated()?.memory_kib() else {
        return Err(Trouble::new(0, "the machine file does not say how much memory there is")
            .remedy("docs/reference/simulator.md: memory_mib of a node"));
    };
    let mib = kib / 1_024;
    match is_number {
        true => ctx.out.line(mib),
        false => ctx.out.line(format_args!("Memory size: {mib} Megabytes")),
    }
    Ok(())
}
