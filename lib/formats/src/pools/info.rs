//! Listings of configurations, exact to the byte: the output of `pooladm` and of the command `info` of `poolcfg`.
//!
//! An element is an empty line, its kind and name, its properties one per line, and then its children, indented by one tab. All
//! functions return several lines with newlines. `poolcfg` writes one more newline after them.
//!
//! The order of elements on Solaris is not defined. Here pools and sets are in order of creation, the default one last, and CPUs ascending.

use super::properties::{Element, is_listed};
use millpond_model::pools::{CpuNode, ElementKind, PoolNode, PoolsConf, PropValue, PsetNode};
use std::fmt::Write as _;

/// The whole configuration.
#[must_use]
pub fn system(conf: &PoolsConf) -> String {
    let mut text = String::new();
    push_element(&conf.system, &conf.system.name, 0, &mut text);
    for pool in default_last(&conf.pools, |pool| pool.is_default) {
        push_pool(conf, pool, 1, &mut text);
    }
    for set in default_last(&conf.psets, |set| set.is_default) {
        push_pset(set, 1, &mut text);
    }
    text
}

/// A pool, and its set with its CPUs.
#[must_use]
pub fn pool(conf: &PoolsConf, pool: &PoolNode) -> String {
    let mut text = String::new();
    push_pool(conf, pool, 0, &mut text);
    if let Some(set) = conf.pset_of(pool) {
        push_pset(set, 1, &mut text);
    }
    text
}

/// A set with its CPUs.
#[must_use]
pub fn pset(set: &PsetNode) -> String {
    let mut text = String::new();
    push_pset(set, 0, &mut text);
    text
}

/// A CPU.
#[must_use]
pub fn cpu(cpu: &CpuNode) -> String {
    let mut text = String::new();
    push_element(cpu, "", 0, &mut text);
    text
}

fn default_last<T>(all: &[T], is_default: impl Fn(&T) -> bool + Copy) -> impl Iterator<Item = &T> {
    all.iter().filter(move |one| !is_default(one)).chain(all.iter().filter(move |one| is_default(one)))
}

fn push_pool(conf: &PoolsConf, pool: &PoolNode, depth: usize, text: &mut String) {
    push_element(pool, &pool.name, depth, text);
    if let Some(set) = conf.pset_of(pool) {
        let _ = writeln!(text, "{}\tpset\t{}", "\t".repeat(depth), set.name);
    }
}

fn push_pset(set: &PsetNode, depth: usize, text: &mut String) {
    push_element(set, &set.name, depth, text);
    for cpu in set.cpus() {
        push_element(cpu, "", depth + 1, text);
    }
}

/// An element without its children. CPUs have no name.
fn push_element(element: &impl Element, name: &str, depth: usize, text: &mut String) {
    let (kind, tabs) = (element.kind(), "\t".repeat(depth));
    let blank = if kind == ElementKind::Cpu { "" } else { " " };
    let _ = writeln!(text, "\n{tabs}{kind}{blank}{name}");
    for (name, value) in element.properties().iter().filter(|(name, _)| is_listed(kind, name)) {
        let _ = writeln!(text, "{tabs}\t{}\t{name} {}", value.value_type(), shown(value));
    }
}

fn shown(value: &PropValue) -> String {
    match value {
        PropValue::Uint(value) => value.to_string(),
        PropValue::Int(value) => value.to_string(),
        PropValue::Float(value) => general(*value),
        PropValue::Boolean(value) => value.to_string(),
        PropValue::String(text) => text.clone(),
    }
}

/// Significant digits of a float.
const DIGITS: i32 = 6;

/// A float as C prints it with `%g`: at most six significant digits, an exponent if it is below -4 or above 5, and no trailing
/// zeros.
fn general(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    // The exponent after rounding: that of 999999.5 is 6.
    let rounded = format!("{value:.*e}", DIGITS as usize - 1);
    let (mantissa, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS).contains(&exponent) {
        let decimals = usize::try_from(DIGITS - 1 - exponent).unwrap_or(0);
        return without_zeros(&format!("{value:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs())
}

fn without_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pools::objectives;
    use millpond_model::{CpuId, PoolId, PsetId, State};

    /// A sample configuration, as created by its script.
    fn web() -> PoolsConf {
        let mut conf = PoolsConf::fresh((0..4).map(|n| (CpuId(n), State::OnLine)));
        let mut set = PsetNode::new("webset", "pset_1", Some(PsetId(1)));
        set.min = 1;
        set.max = 2;
        set.load = Some(1870);
        set.objectives = Some(objectives::parse("utilization < 80", ElementKind::Pset));
        conf.psets.push(set);
        let mut pool = PoolNode::new("web", "pool_1", "pset_1", Some(PoolId(1)));
        pool.importance = 5;
        pool.scheduler = Some("FSS".into());
        conf.pools.push(pool);
        assert!(conf.move_cpu(CpuId(1), "webset") && conf.move_cpu(CpuId(2), "webset"));
        conf.cpu_mut(CpuId(2)).unwrap().pinned = Some(true);
        conf.pset_mut("pset_default").unwrap().load = Some(22);
        conf
    }

    // Trailing blanks are written {} so that editors do not remove them.
    const WHOLE: &str = "
system default
	string	system.comment {}
	int	system.version 1
	boolean	system.bind-default true
	string	system.poold.objectives wt-load

	pool web
		int	pool.sys_id 1
		boolean	pool.active true
		boolean	pool.default false
		string	pool.scheduler FSS
		int	pool.importance 5
		string	pool.comment {}
		pset	webset

	pool pool_default
		int	pool.sys_id 0
		boolean	pool.active true
		boolean	pool.default true
		int	pool.importance 1
		string	pool.comment {}
		pset	pset_default

	pset webset
		int	pset.sys_id 1
		boolean	pset.default false
		uint	pset.min 1
		uint	pset.max 2
		string	pset.units population
		uint	pset.load 1870
		uint	pset.size 2
		string	pset.comment {}
		string	pset.poold.objectives utilization < 80

		cpu
			int	cpu.sys_id 1
			string	cpu.comment {}
			string	cpu.status on-line

		cpu
			int	cpu.sys_id 2
			string	cpu.comment {}
			string	cpu.status on-line
			boolean	cpu.pinned true

	pset pset_default
		int	pset.sys_id -1
		boolean	pset.default true
		uint	pset.min 1
		uint	pset.max 65536
		string	pset.units population
		uint	pset.load 22
		uint	pset.size 2
		string	pset.comment {}

		cpu
			int	cpu.sys_id 0
			string	cpu.comment {}
			string	cpu.status on-line

		cpu
			int	cpu.sys_id 3
			string	cpu.comment {}
			string	cpu.status on-line
";

    const POOL: &str = "
pool web
	int	pool.sys_id 1
	boolean	pool.active true
	boolean	pool.default false
	string	pool.scheduler FSS
	int	pool.importance 5
	string	pool.comment {}
	pset	webset

	pset webset
		int	pset.sys_id 1
		boolean	pset.default false
		uint	pset.min 1
		uint	pset.max 2
		string	pset.units population
		uint	pset.load 1870
		uint	pset.size 2
		string	pset.comment {}
		string	pset.poold.objectives utilization < 80

		cpu
			int	cpu.sys_id 1
			string	cpu.comment {}
			string	cpu.status on-line

		cpu
			int	cpu.sys_id 2
			string	cpu.comment {}
			string	cpu.status on-line
			boolean	cpu.pinned true
";

    const PSET: &str = "
pset empty
	int	pset.sys_id -2
	boolean	pset.default false
	uint	pset.min 0
	uint	pset.max 0
	string	pset.units population
	uint	pset.load 0
	uint	pset.size 0
	string	pset.comment {}
";

    const CPU: &str = "
cpu
	int	cpu.sys_id 2
	string	cpu.comment {}
	string	cpu.status on-line
	boolean	cpu.pinned true
	float	cpu.weight 0.5
";

    fn expected(text: &str) -> String {
        text.replace("{}", "")
    }

    #[test]
    fn the_whole_comes_out_as_the_reference_has_it() {
        assert_eq!(system(&web()), expected(WHOLE));
    }

    #[test]
    fn a_pool_comes_with_its_set_and_a_set_with_its_processors() {
        let conf = web();
        assert_eq!(pool(&conf, conf.pool("web").unwrap()), expected(POOL));
        assert_eq!(pset(&PsetNode::new("empty", "id_1", None)), expected(PSET));
    }

    #[test]
    fn free_properties_come_last_and_hidden_ones_not_at_all() {
        let mut conf = web();
        let node = conf.cpu_mut(CpuId(2)).unwrap();
        node.user.set("cpu._mark", 1u64);
        node.user.set("cpu.weight", PropValue::Float(0.5));
        node.user.set("_mark", 1u64);
        assert_eq!(cpu(node), expected(CPU));
    }

    #[test]
    fn a_pool_whose_set_is_missing_is_shown_without_it() {
        let mut conf = web();
        conf.pool_mut("web").unwrap().pset = "pset_9".into();
        let alone = expected(POOL).split("\tpset\twebset").next().unwrap().to_owned();
        assert_eq!(pool(&conf, conf.pool("web").unwrap()), alone);
    }

    #[test]
    fn floats_are_printed_as_c_does() {
        let all = [
            (0.0, "0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (0.1, "0.1"),
            (100_000.0, "100000"),
            (1_000_000.0, "1e+06"),
            (999_999.5, "1e+06"),
            (123_456.7, "123457"),
            (0.000_1, "0.0001"),
            (0.000_01, "1e-05"),
            (1.234_567_89, "1.23457"),
            (1.5e300, "1.5e+300"),
            (-1.25e-10, "-1.25e-10"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (value, text) in all {
            assert_eq!(general(value), text);
        }
    }
}
