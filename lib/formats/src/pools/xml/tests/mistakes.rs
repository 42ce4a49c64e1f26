//! Invalid files, and configurations that cannot be written.

use super::{EXAMPLE, web};
use crate::pools::xml::{Fault, PUBLIC_ID, read, write};
use millpond_model::pools::{ElementKind, PoolNode, PoolsConf, PropValue};
use millpond_model::{CpuId, PoolId};

/// Line, column and message for the example with one change.
fn told(from: &str, to: &str) -> (usize, usize, String) {
    assert!(EXAMPLE.contains(from), "{from}");
    let error = read(&EXAMPLE.replacen(from, to, 1)).unwrap_err();
    assert!(!error.hint().is_empty());
    (error.line, error.column, error.to_string())
}

fn at(line: usize, column: usize, text: &str) -> (usize, usize, String) {
    (line, column, text.to_owned())
}

#[test]
fn what_is_no_xml_is_told_with_its_place() {
    let error = |text: &str| {
        let error = read(text).unwrap_err();
        assert!(matches!(error.what, Fault::NotXml(_)), "{error:?}");
        assert!(error.to_string().starts_with("the file is no well-formed XML: "), "{error}");
        (error.line, error.column)
    };
    assert_eq!(error(""), (1, 1));
    assert_eq!(error("pools = 3\n"), (1, 1));
    assert_eq!(error(&EXAMPLE.replace("</system>\n", "")), (37, 1));
    assert_eq!(error(&EXAMPLE.replace("</pool>\n  <res", "</pol>\n  <res")), (14, 3));
    assert_eq!(error(&EXAMPLE.replace("wt-load", "é&nothing;")).0, 7);
    assert_eq!(error(&EXAMPLE.replace("name=\"web\"", "name=\"web\" name=\"b\"")).0, 11);
}

#[test]
fn a_file_follows_our_dtd_and_declares_nothing() {
    let (head, rest) = EXAMPLE.split_once("<!DOCTYPE").unwrap();
    let (_, rest) = rest.split_once(">\n").unwrap();
    let told = |doctype: &str| {
        let error = read(&format!("{head}{doctype}\n{rest}")).unwrap_err();
        (error.line, error.column, error.to_string())
    };
    let unnamed = "the file does not say which DTD it follows";
    assert_eq!(told(""), at(6, 1, unnamed));
    assert_eq!(told("<!DOCTYPE system>"), at(2, 1, unnamed));
    assert_eq!(
        told(r#"<!DOCTYPE system PUBLIC "-//OTHER//EN" "file:///rm_pool.dtd.1">"#),
        at(2, 1, "the file follows another DTD, `-//OTHER//EN`")
    );
    assert_eq!(
        told(r#"<!DOCTYPE system SYSTEM "other.dtd">"#),
        at(2, 1, "the file follows another DTD, `other.dtd`")
    );
    assert_eq!(
        told(r#"<!DOCTYPE html PUBLIC "x" "y">"#),
        at(2, 1, "the outermost element is `html`, not `system`")
    );
    for declarations in ["[]", " [<!ENTITY a 'b'>]", "[ <!ENTITY % a SYSTEM 'file:///etc/passwd'> %a; ]"] {
        let doctype = format!("<!-- a --> <!DOCTYPE system SYSTEM 'rm_pool.dtd.1' {declarations}>");
        assert_eq!(told(&doctype), at(2, 12, "the DOCTYPE has declarations of its own"));
    }
    assert!(told("<!DOCTYPE system PUBLIC 'x'>").2.starts_with("the file is no well-formed XML"));
    let unclosed = read(&format!("{head}<!-- <!DOCTYPE system [")).unwrap_err();
    assert!(matches!(unclosed.what, Fault::NotXml(_)));
    let by_file = EXAMPLE.replace(&format!("PUBLIC \"{PUBLIC_ID}\""), "SYSTEM");
    assert_eq!(read(&by_file).unwrap(), web());
    let marked = format!("\u{feff}{EXAMPLE}");
    assert_eq!(read(&marked).unwrap(), web());
}

#[test]
fn an_entity_bomb_is_not_lit() {
    let mut bomb = String::from("<!DOCTYPE system SYSTEM 'rm_pool.dtd.1' [\n<!ENTITY l0 'lol'>\n");
    for level in 1..30 {
        bomb += &format!("<!ENTITY l{level} '{}'>\n", format!("&l{};", level - 1).repeat(10));
    }
    bomb += "]>\n<system ref_id='a' name='&l29;'/>";
    let error = read(&bomb).unwrap_err();
    assert_eq!((error.line, error.column, &error.what), (1, 1, &Fault::Declarations));
    assert_eq!(
        error.hint(),
        "take out what stands between [ and ], and write the text itself instead of entities"
    );
    let deep = "<system>".repeat(200_000);
    assert!(matches!(read(&deep).unwrap_err().what, Fault::NotXml(_)));
    let nested = format!("{}{}</system>", "<pool>".repeat(100_000), "</pool>".repeat(100_000));
    let nested = EXAMPLE.replace("</system>", &nested);
    assert!(matches!(read(&nested).unwrap_err().what, Fault::Missing { .. } | Fault::Element { .. }));
}

/// The texts for `count` numbers, concatenated.
fn many(count: usize, one: impl Fn(usize) -> String) -> String {
    (0..count).map(one).collect()
}

#[test]
fn a_large_file_is_read_in_proportion_or_refused_with_its_place() {
    // With pairwise comparisons, each of these took longer than a minute to read.
    let count = 60_000;
    let attributes = many(count, |i| format!(" a{i}='>'"));
    assert_eq!(
        told("<pool name=\"web\"", &format!("<pool{attributes} name=\"web\"")),
        at(11, 3, "there are more than 64 attributes")
    );
    let nested = many(count, |i| format!("<pool xmlns:a{i} = ''>"));
    let (_, _, text) = told("<pool name=\"web\"", &format!("{nested}<pool name=\"web\""));
    assert_eq!(text, "there are more than 64 namespaces");
    let properties = many(count, |i| format!("<property name='p{i}' type='int'>1</property>"));
    let (line, _, text) = told("<pool name=\"web\"", &format!("{properties}\n<pool name=\"web\""));
    assert_eq!((line, text.as_str()), (11, "there are more than 1000 properties"));

    let sixty = many(64, |i| format!(" a{i} = \"=='\""));
    assert_eq!(
        told("<pool name=\"web\"", &format!("<!-- <a{attributes}> --><pool{sixty}/><pool name=\"web\"")),
        at(11, 648_890 + 21, "`pool` has no attribute `a0`")
    );
}

#[test]
fn many_pools_sets_and_processors_in_any_order_are_read() {
    let count = 10_000;
    let sets = many(count, |i| {
        format!(
            "<res_comp type='pset' sys_id='{i}' name='s{i}' min='0' max='1' units='population' ref_id='s{i}'/>"
        )
    });
    let pools =
        many(count, |i| format!("<pool name='p{i}' importance='1' res='s{}' ref_id='p{i}'/>", count - 1 - i));
    let cpus = many(count, |i| format!("<comp type='cpu' sys_id='{}' ref_id='c{i}'/>", count + 9 - i));
    let text = EXAMPLE.replace("</system>", &format!("{sets}{pools}</system>"));
    let text = text.replacen("</comp>\n  </res_comp>\n</system>", "</comp>\n  </res_comp></system>", 1);
    let text = text.replacen(
        "<comp type=\"cpu\" sys_id=\"1\"",
        &format!("{cpus}<comp type=\"cpu\" sys_id=\"1\""),
        1,
    );
    let conf = read(&text).unwrap();
    assert_eq!((conf.pools.len(), conf.psets.len()), (count + 2, count + 2));
    assert_eq!(conf.pools.last().unwrap().pset.as_str(), "s0");
    let webset = conf.psets.iter().find(|set| set.name == "webset").unwrap();
    let ids: Vec<u32> = webset.cpus().iter().map(|cpu| cpu.id.0).collect();
    let wanted: Vec<u32> = [1, 2].into_iter().chain(10..=10_009).collect();
    assert_eq!((ids, webset.size()), (wanted, 10_002));
}

#[test]
fn elements_have_their_places() {
    assert_eq!(
        told("<pool name=\"web\"", "<web/><pool name=\"web\""),
        at(11, 3, "`web` has no place in `system`")
    );
    assert_eq!(
        told("<comp type=\"cpu\" sys_id=\"1\"", "<pool/><comp type=\"cpu\" sys_id=\"1\""),
        at(29, 5, "`pool` has no place in `res_comp`")
    );
    assert_eq!(told("wt-load", "wt<b/>load"), at(7, 60, "`b` has no place in `property`"));
    assert_eq!(
        told("<pool name=\"web\"", "<res_agg/><pool name=\"web\""),
        at(11, 3, "`res_agg` is a kind of resource that does not exist yet")
    );
    assert_eq!(
        told("</pool>\n  <res", "</pool> or\n  <res"),
        at(14, 11, "there is text in `system`, which holds elements only")
    );
    let error = read(&EXAMPLE.replace("<system", "<pools").replace("</system", "</pools")).unwrap_err();
    assert_eq!(error.to_string(), "the outermost element is `pools`, not `system`");
    let error = read(&EXAMPLE.replacen("<pool name=\"web\"", "<web/><pool", 1)).unwrap_err();
    assert_eq!(error.hint(), "in `system` there can be: pool, res_comp, property");
}

#[test]
fn attributes_are_known_and_complete() {
    assert_eq!(told("name=\"web\"", "name=\"web\" size=\"2\""), at(11, 20, "`pool` has no attribute `size`"));
    assert_eq!(told("type=\"int\">1<", "kind=\"int\">1<"), at(12, 34, "`property` has no attribute `kind`"));
    assert_eq!(
        told("name=\"web\"", "name=\"web\" xml:lang=\"en\""),
        at(11, 20, "`pool` has no attribute `xml:lang`")
    );
    assert_eq!(
        told("<pool name=\"web\"", "<pool xmlns=\"x\" name=\"web\""),
        at(11, 3, "`pool` has no attribute `xmlns`")
    );
    assert_eq!(told(" res=\"pset_1\"", ""), at(11, 3, "`pool` lacks its attribute `res`"));
    assert_eq!(told(" min=\"1\" max=\"2\"", " max=\"2\""), at(25, 3, "`res_comp` lacks its attribute `min`"));
    assert_eq!(told(" type=\"int\">1<", ">1<"), at(12, 5, "`property` lacks its attribute `type`"));
    let error = read(&EXAMPLE.replacen(" res=\"pset_1\"", "", 1)).unwrap_err();
    assert_eq!(error.hint(), "write res=\"…\"");
}

#[test]
fn values_have_their_types() {
    assert_eq!(told("min=\"1\" max=\"2\"", "min=\"one\" max=\"2\""), at(25, 71, "pset.min cannot be `one`"));
    assert_eq!(told("min=\"1\" max=\"2\"", "min=\"-1\" max=\"2\"").2, "pset.min cannot be `-1`");
    assert_eq!(told("active=\"true\"", "active=\"yes\"").2, "pool.active cannot be `yes`");
    assert_eq!(told("version=\"1\"", "version=\"2\""), at(6, 59, "system.version cannot be `2`"));
    assert_eq!(told("type=\"pset\"", "type=\"mset\"").2, "type cannot be `mset`");
    assert_eq!(told("sys_id=\"0\"", "sys_id=\"-1\"").2, "cpu.sys_id cannot be `-1`");
    assert_eq!(told("name=\"web\"", "name=\"2web\""), at(11, 15, "pool.name cannot be `2web`"));
    assert_eq!(told("ref_id=\"dummy\"", "ref_id=\"a b\"").2, "system.ref_id cannot be `a b`");
    assert_eq!(told("type=\"uint\">22<", "type=\"uint\">many<"), at(16, 44, "pset.load cannot be `many`"));
    assert_eq!(
        told("type=\"uint\">22<", "type=\"int\">22<"),
        at(16, 21, "pset.load is of type uint, not int")
    );
    assert_eq!(told("type=\"uint\">22<", "type=\"long\">22<"), at(16, 38, "there is no type `long`"));
    assert_eq!(told("type=\"boolean\">true", "type=\"boolean\">1").2, "cpu.pinned cannot be `1`");
    let error = read(&EXAMPLE.replacen("active=\"true\"", "active=\"yes\"", 1)).unwrap_err();
    assert_eq!(error.hint(), "it is true or false");
}

#[test]
fn properties_are_kept_where_they_belong() {
    let with = |property: &str| {
        told("<property name=\"pool.scheduler\"", &format!("{property}\n<property name=\"pool.scheduler\""))
    };
    assert_eq!(
        with("<property name=\"pool.importance\" type=\"int\">5</property>"),
        at(13, 21, "pool.importance stands by itself, and is an attribute of `pool`")
    );
    assert_eq!(
        with("<property name=\"pool.sys_id\" type=\"int\">5</property>"),
        at(13, 21, "pool.sys_id is there twice")
    );
    assert_eq!(
        with("<property name=\"a b\" type=\"int\">5</property>"),
        at(13, 21, "`a b` cannot be the name of a property in a file")
    );
    assert_eq!(with("<property name=\"a,b\" type=\"int\">5</property>").1, 21);
    let text = EXAMPLE.replacen(
        "<property",
        "<property name=\"pool.importance\" type=\"int\">5</property><property",
        1,
    );
    assert_eq!(
        read(&text).unwrap().system.user.int("pool.importance"),
        Some(5),
        "of a system it is a free one"
    );
}

#[test]
fn nothing_is_there_twice_and_references_meet() {
    assert_eq!(
        told("name=\"web\"", "name=\"pool_default\""),
        at(11, 15, "there are two pools named `pool_default`")
    );
    assert_eq!(
        told("name=\"webset\"", "name=\"pset_default\"").2,
        "there are two psets named `pset_default`"
    );
    assert!(
        read(&EXAMPLE.replace("name=\"webset\"", "name=\"web\"")).is_ok(),
        "a pool and a set may share a name"
    );
    assert_eq!(told("ref_id=\"cpu_2\"", "ref_id=\"pool_1\"").2, "two elements have the ref_id `pool_1`");
    assert_eq!(told("sys_id=\"2\"", "sys_id=\"0\""), at(32, 30, "processor 0 is there twice"));
    assert_eq!(
        told("name=\"web\" active=\"true\" default=\"false\"", "name=\"web\" default=\"true\"").2,
        "there are two default pools"
    );
    assert_eq!(
        told("min=\"1\" max=\"2\"", "min=\"3\" max=\"2\""),
        at(25, 71, "pset.min is 3, and pset.max is 2")
    );
    assert_eq!(
        told("res=\"pset_1\"", "res=\"pset_1 pset_2\""),
        at(11, 81, "the pool refers to `pset_2`, and no element has that ref_id")
    );
    assert_eq!(told("res=\"pset_1\"", "res=\"pool_0\"").2, "the pool refers to no processor set");
    assert_eq!(told("res=\"pset_1\"", "res=\"\"").2, "the pool refers to no processor set");
}

#[test]
fn temporary_elements_are_not_written() {
    let mut conf = web();
    conf.pset_mut("webset").unwrap().temporary = Some(true);
    let mut pool = PoolNode::new("SUNWtmp_a", "pool_2", "pset_1", Some(PoolId(2)));
    pool.temporary = Some(true);
    conf.pools.push(pool);
    let back = read(&write(&conf).unwrap()).unwrap();
    assert_eq!((back.pools.len(), back.psets.len()), (2, 1));
    assert_eq!(back.pool("web").unwrap().pset.as_str(), "pset_-1");
}

#[test]
fn what_a_file_cannot_hold_is_refused() {
    let refused = |change: fn(&mut PoolsConf)| {
        let mut conf = web();
        change(&mut conf);
        let error = write(&conf).unwrap_err();
        assert!(!error.hint().is_empty());
        error.to_string()
    };
    assert_eq!(
        refused(|c| c.pool_mut("web").unwrap().comment = "a\u{1}".to_owned()),
        "cannot keep pool web in a file: pool.comment has the character U+0001, which XML lacks"
    );
    assert_eq!(
        refused(|c| c.system.user.set("a,b", true)),
        "cannot keep system default in a file: `a,b` cannot be the name of a property in a file"
    );
    assert_eq!(
        refused(|c| c.pool_mut("web").unwrap().user.set("pool.importance", "high")),
        "cannot keep pool web in a file: pool.importance is of type int, not string"
    );
    assert_eq!(
        refused(|c| c.pool_mut("web").unwrap().pset = "pset_7".into()),
        "cannot keep pool web in a file: the pool refers to `pset_7`, and no element has that ref_id"
    );
    assert_eq!(
        refused(|c| c.pset_mut("webset").unwrap().user.set("ratio", PropValue::Float(f64::NAN))),
        "cannot keep pset webset in a file: ratio cannot be `NaN`"
    );
    assert_eq!(
        refused(|c| c.cpu_mut(CpuId(2)).unwrap().ref_id = "cpu 2".into()),
        "cannot keep cpu 2 in a file: cpu.ref_id cannot be `cpu 2`"
    );
}

#[test]
fn kinds_are_told_apart_in_words() {
    let sentence = Fault::SecondDefault(ElementKind::Pset).to_string();
    assert_eq!(sentence, "there are two default psets");
}
