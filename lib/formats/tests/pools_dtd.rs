//! Checks with an independent validator: output is valid by the DTD, and the DTD rejects what the reader rejects.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is how a test fails, in its helpers too"
)]

use millpond_formats::pools::objectives;
use millpond_formats::pools::xml::{DTD, read, write};
use millpond_model::pools::{ElementKind, PoolNode, PoolsConf, PropValue, PsetNode};
use millpond_model::{CpuId, State};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// The path of [`DTD`].
const DTD_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/pools/rm_pool.dtd.1");

/// Whether a document is valid, with the message of the validator. `None` if it is not installed, which is reported.
fn validate(test: &str, text: &str) -> Option<(bool, String)> {
    let mut command = Command::new("xmllint");
    command.args(["--noout", "--nonet", "--dtdvalid", DTD_FILE, "-"]);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            println!("skipped: {test}: there is no xmllint ({error}; apt-get install libxml2-utils)");
            return None;
        }
    };
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    Some((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

fn fresh() -> PoolsConf {
    PoolsConf::fresh((0..4).map(|n| (CpuId(n), State::OnLine)))
}

/// A configuration with every kind of content.
fn full() -> PoolsConf {
    let mut conf = fresh();
    conf.system.comment = "a \"b\" <c> & 'd'\n\té".to_owned();
    conf.system.user.set("system._next_id", 27u64);
    conf.system.user.set("ratio", PropValue::Float(0.1));
    let mut set = PsetNode::new("web.set-1,a", "id_1a", None);
    set.max = 2;
    set.objectives = Some(objectives::parse("utilization < 80; locality tight", ElementKind::Pset));
    conf.psets.push(set);
    let mut pool = PoolNode::new("web", "id_1b", "id_1a", None);
    pool.importance = -5;
    pool.user.set("below", -1i64);
    pool.user.set("empty", "");
    conf.pools.push(pool);
    assert!(conf.move_cpu(CpuId(2), "web.set-1,a"));
    conf.cpu_mut(CpuId(2)).unwrap().pinned = Some(true);
    conf
}

/// An empty configuration.
fn bare() -> PoolsConf {
    PoolsConf { pools: Vec::new(), psets: Vec::new(), ..fresh() }
}

#[test]
fn what_is_written_is_valid() {
    assert_eq!(DTD, std::fs::read_to_string(DTD_FILE).unwrap());
    for conf in [fresh(), full(), bare()] {
        let text = write(&conf).unwrap();
        let Some((is_valid, words)) = validate("what_is_written_is_valid", &text) else { return };
        assert!(is_valid, "{words}{text}");
        assert_eq!(read(&text).unwrap(), conf);
    }
}

#[test]
fn the_reader_refuses_what_the_dtd_refuses() {
    let text = write(&full()).unwrap();
    for (from, to) in [
        ("<pool name=\"web\"", "<web/><pool name=\"web\""),
        ("<pool name=\"web\"", "text<pool name=\"web\""),
        ("<pool name=\"web\"", "<pool size=\"2\" name=\"web\""),
        ("<pool name=\"web\"", "<pool xmlns=\"x\" name=\"web\""),
        ("<pool name=\"web\"", "<comp type=\"cpu\" sys_id=\"9\" ref_id=\"cpu_9\"/><pool name=\"web\""),
        ("ref_id=\"cpu_0\"", "ref_id=\"cpu_1\""),
        ("ref_id=\"cpu_0\"", "ref_id=\"0\""),
        ("ref_id=\"cpu_0\"", ""),
        ("res=\"id_1a\"", "res=\"id_9\""),
        ("res=\"id_1a\"", "res=\"\""),
        ("version=\"1\"", "version=\"2\""),
        ("active=\"true\"", "active=\"1\""),
        ("name=\"below\"", "name=\"be low\""),
        ("name=\"below\" type=\"int\"", "name=\"below\""),
        ("units=\"population\"", ""),
        ("-1</property>", "<b/></property>"),
    ] {
        assert!(text.contains(from), "{from}");
        let text = text.replacen(from, to, 1);
        assert!(read(&text).is_err(), "{to}");
        let Some((is_valid, _)) = validate("the_reader_refuses_what_the_dtd_refuses", &text) else { return };
        assert!(!is_valid, "{to}");
    }
}

#[test]
fn what_the_dtd_allows_is_read() {
    let text = write(&full()).unwrap();
    for (from, to) in [
        (" comment=\"\"", ""),
        (" version=\"1\"", ""),
        (" bind-default=\"true\"", ""),
        (" active=\"true\"", ""),
        (" default=\"false\"", ""),
        ("<pool name", "<!-- a --><?b c?><pool a-dtype=\"importance int\" name"),
        ("</pool>", "words</pool>"),
        ("res=\"id_1a\"", "res=\"id_1a pset_-1\""),
        ("name=\"below\"", "a-dtype=\"\" name=\"below\""),
        ("-1</property>", "<![CDATA[-1]]><!-- a --></property>"),
    ] {
        assert!(text.contains(from), "{from}");
        let text = text.replacen(from, to, 1);
        assert!(read(&text).is_ok(), "{to}: {:?}", read(&text));
        let Some((is_valid, words)) = validate("what_the_dtd_allows_is_read", &text) else { return };
        assert!(is_valid, "{to}: {words}");
    }
}
