//! Zone bindings in files: they are restored with the configuration, as a Solaris zone keeps its pool.
//!
//! A machine stores them next to its configuration ([`PoolsState::zones`]). In a file they are a property of the pool, `millpond.zones`: names
//! separated by semicolons. To other readers of such a file it is a user-defined property.

use crate::requests;
use millpond_model::pools::{PoolNode, PoolsConf, PoolsState};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The property of a pool that lists its zones.
pub const ZONES: &str = "millpond.zones";

/// The configuration for a file, with the zones of each pool as a property.
#[must_use]
pub fn described(state: PoolsState) -> PoolsConf {
    let PoolsState { mut conf, zones, .. } = state;
    conf.pools.iter_mut().for_each(|pool| requests::note(pool, 0));
    for pool in conf.pools.iter_mut().filter(|pool| !pool.is_default) {
        let id = pool.id;
        let own = zones.iter().filter(|(_, bound)| Some(**bound) == id).map(|(name, _)| escaped(name));
        let text = own.collect::<Vec<_>>().join(";");
        pool.user.remove(ZONES);
        if !text.is_empty() {
            pool.user.set(ZONES, text.as_str());
        }
    }
    conf
}

/// The zones in a file, each with the name of its pool.
#[must_use]
pub fn of_file(file: &PoolsConf) -> BTreeMap<String, String> {
    let of = |pool: &PoolNode| {
        let text = pool.user.string(ZONES).unwrap_or_default().to_owned();
        let name = pool.name.clone();
        let names: Vec<String> =
            text.split(';').map(str::trim).filter(|name| !name.is_empty()).map(plain).collect();
        names.into_iter().map(move |zone| (zone, name.clone()))
    };
    file.pools.iter().filter(|pool| !pool.is_default).flat_map(of).collect()
}

/// Binds the zones of a file. The property is removed, because the machine stores bindings elsewhere. Zones that the file does not name
/// keep their binding.
pub fn bind(file: &PoolsConf, mut state: PoolsState) -> PoolsState {
    for pool in &mut state.conf.pools {
        pool.user.remove(ZONES);
    }
    let bound = of_file(file);
    if bound.is_empty() {
        return state;
    }
    let mut state = state.numbered();
    for (zone, name) in bound {
        let pool = state.conf.pools.iter().find(|pool| pool.name == name).and_then(|pool| pool.id);
        state.zones.extend(pool.map(|pool| (zone, pool)));
    }
    state
}

/// Percent-encodes characters that would end a name or the property (`;` becomes `%3B`).
fn escaped(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if matches!(c, '%' | ';' | '"') || c.is_control() || c.is_whitespace() {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                let _ = write!(text, "%{byte:02X}");
            }
        } else {
            text.push(c);
        }
    }
    text
}

/// The reverse. Text that is not an escape stays as it is.
fn plain(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = behind.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let code = code.filter(|_| *first == b'%').and_then(|two| u8::from_str_radix(two, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::{CpuId, PoolId, State};
    use proptest::prelude::*;

    fn state(zones: &[(&str, u32)]) -> PoolsState {
        let mut conf = PoolsConf::fresh([(CpuId(0), State::OnLine)]);
        let set = conf.default_pset().unwrap().ref_id.clone();
        conf.pools.push(PoolNode::new("web", "pool_1", set.clone(), Some(PoolId(1))));
        conf.pools.push(PoolNode::new("shop", "pool_2", set, Some(PoolId(2))));
        let zones = zones.iter().map(|(name, pool)| ((*name).to_owned(), PoolId(*pool))).collect();
        PoolsState { conf, keep_others: false, zones }
    }

    #[test]
    fn a_file_has_the_zones_of_each_pool_and_a_machine_takes_them_over() {
        let bound = [("/system.slice/a b;c.service", 1), ("/z", 1), ("global", 2)];
        let file = described(state(&bound));
        let text = |name: &str| file.pools.iter().find(|p| p.name == name).unwrap().user.string(ZONES);
        assert_eq!(text("web"), Some("/system.slice/a%20b%3Bc.service;/z"));
        assert_eq!(text("shop"), Some("global"));
        assert_eq!(text("pool_default"), None);
        // The machine has one of them in another pool, and one that the file does not contain.
        let mut machine = state(&[("/z", 2), ("/own", 2)]);
        machine.conf.pools[1].user.set(ZONES, "/stale");
        let now = bind(&file, machine);
        let expected = [("/own", 2), ("/system.slice/a b;c.service", 1), ("/z", 1), ("global", 2)];
        assert_eq!(now, state(&expected));
    }

    #[test]
    fn pools_without_a_number_get_one_when_zones_are_theirs() {
        let file = described(state(&[("/z", 2)]));
        let mut machine = state(&[]);
        machine.conf.pools.retain(|pool| pool.name != "shop");
        let set = machine.conf.default_pset().unwrap().ref_id.clone();
        machine.conf.pools.push(PoolNode::new("shop", "new_1", set, None));
        assert_eq!(bind(&file, machine).zones, state(&[("/z", 2)]).zones);
    }

    proptest! {
        #[test]
        fn every_name_is_read_as_it_was_written(name in ".{0,20}") {
            let text = escaped(&name);
            prop_assert!(!text.contains([';', '"', ' ']));
            prop_assert_eq!(plain(&text), name);
        }
    }
}
