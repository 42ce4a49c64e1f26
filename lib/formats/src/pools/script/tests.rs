//! Scripts and their errors. Expected values are written by hand.

use super::*;

/// The commands, printed again.
fn read(text: &str) -> Vec<String> {
    parse(text)
        .unwrap_or_else(|e| panic!("{text}: {e}, {}", e.hint()))
        .iter()
        .map(|c| c.value.to_string())
        .collect()
}

/// The position, the message and the remedy.
fn told(text: &str) -> (usize, usize, String, String) {
    let error = parse(text).unwrap_err();
    (error.line, error.column, error.to_string(), error.hint())
}

fn error(line: usize, column: usize, text: &str, hint: &str) -> (usize, usize, String, String) {
    (line, column, text.to_owned(), hint.to_owned())
}

const EXAMPLE: &str = r#"create pset webset ( uint pset.min = 1 ; uint pset.max = 2 ;
                     string pset.poold.objectives = "utilization < 80" )
create pool web ( int pool.importance = 5 ; string pool.scheduler = "FSS" )
associate pool web ( pset webset )
transfer to pset webset ( cpu 1 ; cpu 2 )
modify cpu 2 ( boolean cpu.pinned = true )
"#;

#[test]
fn the_example_of_the_reference_is_understood() {
    let commands = parse(EXAMPLE).unwrap();
    let places: Vec<_> = commands.iter().map(|c| (c.line, c.column)).collect();
    assert_eq!(places, [(1, 1), (3, 1), (4, 1), (5, 1), (6, 1)]);
    let Command::Create { entity, props } = &commands[0].value else { panic!("no create") };
    assert_eq!((entity.kind, entity.name.value.as_str()), (ElementKind::Pset, "webset"));
    assert_eq!((entity.name.line, entity.name.column), (1, 13));
    let edit = |name: &str, value: PropValue| PropEdit::Set(name.to_owned(), value);
    let at = |line, column, value| Located { line, column, value };
    assert_eq!(
        *props,
        [
            at(1, 22, edit("pset.min", 1u64.into())),
            at(1, 42, edit("pset.max", 2u64.into())),
            at(2, 22, edit("pset.poold.objectives", "utilization < 80".into())),
        ]
    );
    let named = |line, column, name: &str| Located { line, column, value: name.to_owned() };
    assert_eq!(
        commands[2].value,
        Command::Associate { pool: named(4, 16, "web"), psets: vec![named(4, 27, "webset")] }
    );
    assert_eq!(
        commands[3].value,
        Command::TransferCpus {
            to: named(5, 18, "webset"),
            cpus: vec![named(5, 31, "1"), named(5, 39, "2")]
        }
    );
    let props = vec![at(6, 16, edit("cpu.pinned", true.into()))];
    let entity = Entity { kind: ElementKind::Cpu, name: named(6, 12, "2") };
    assert_eq!(commands[4].value, Command::Modify { entity, props });
}

#[test]
fn every_command_is_understood() {
    for text in [
        "info",
        "info system default",
        "info pool web",
        "info pset webset",
        "info cpu 3",
        "create system default",
        "create pool web",
        "create pset webset ( uint pset.min = 1 )",
        "destroy system default",
        "destroy pool web",
        "destroy pset webset",
        "modify pool web",
        "modify pool web ( ~ string pool.scheduler ; int pool.importance = -5 )",
        "modify system default ( float x = 1.5 ; boolean system.bind-default = false )",
        "associate pool web",
        "associate pool web ( pset a ; pset b )",
        "transfer to pset a",
        "transfer to pset a ( cpu 0 ; cpu 17 )",
        "transfer 2 from pset a to b",
        "discover",
        "rename pool web to net",
        "rename system default to other",
    ] {
        assert_eq!(read(text), [text]);
    }
    assert_eq!(read("transfer 2 to pset b from a"), ["transfer 2 from pset a to b"]);
}

#[test]
fn commands_need_no_separator_and_the_longest_word_counts() {
    assert_eq!(
        read("info info pool web info create pool pool1 discover"),
        ["info", "info pool web", "info", "create pool pool1", "discover"]
    );
    assert_eq!(read("transfer 2from pset pset_a to b"), ["transfer 2 from pset pset_a to b"]);
    assert_eq!(
        read("create pool toto(int x=1;uint infos=2)info# the rest is nothing (\n\tpool\n true"),
        ["create pool toto ( int x = 1 ; uint infos = 2 )", "info pool true"]
    );
    assert_eq!(read("create pool A-b.c,d_1\r\n# end"), ["create pool A-b.c,d_1"]);
}

#[test]
fn the_order_of_properties_is_kept_and_the_type_of_a_removed_one_says_nothing() {
    assert_eq!(
        read("modify pset a (uint pset.min=3;~uint _x;uint pset.min=1;~ float pset.min)"),
        ["modify pset a ( uint pset.min = 3 ; ~ string _x ; uint pset.min = 1 ; ~ string pset.min )"]
    );
}

#[test]
fn values_have_the_forms_of_their_types() {
    assert_eq!(
        read(
            "modify cpu 0 (int a=007;int b=-0;uint c=18446744073709551615;float d=3;float e=0.5e-1;float f=2.5E2)"
        ),
        [
            "modify cpu 0 ( int a = 7 ; int b = 0 ; uint c = 18446744073709551615 ; float d = 3 ; float e = 0.05 ; float f = 250 )"
        ]
    );
    assert_eq!(
        read(r#"modify cpu 0 (string a="";string b="\n # ; ) 'é'")"#),
        [r#"modify cpu 0 ( string a = "" ; string b = "\n # ; ) 'é'" )"#]
    );
    for (value, hint) in [
        ("uint x = -1", "expected a whole number from 0, not `-1`"),
        ("uint x = 1.5", "expected a whole number from 0, not `1.5`"),
        ("int x = 1.5", "expected a whole number, not `1.5`"),
        ("int x = \"1\"", "expected a whole number, not `\"1\"`"),
        ("boolean x = 1", "expected true or false, not `1`"),
        ("boolean x = yes", "expected true or false, not `yes`"),
        ("string x = FSS", "expected a string in \"\", not `FSS`"),
        ("float x = web", "expected a number, not `web`"),
    ] {
        let (line, column, text, told) = told(&format!("modify pool a ( {value} )"));
        let offending = value.split(" = ").nth(1).unwrap();
        assert_eq!((line, column), (1, 17 + value.len() - offending.len()));
        assert_eq!((text, told.as_str()), (format!("syntax error at '{offending}'"), hint));
    }
    assert_eq!(
        told("modify pool a ( uint x = 18446744073709551616 )"),
        error(1, 26, "syntax error at '18446744073709551616'", "a uint is 0 to 18446744073709551615")
    );
    assert_eq!(
        told("modify pool a ( int x = 9223372036854775808 )").3,
        "an int is -9223372036854775808 to 9223372036854775807"
    );
    assert_eq!(told("transfer 99999999999999999999 to pset a from b").1, 10);
    let huge = format!("modify pool a ( float x = {}.0 )", "9".repeat(400));
    assert_eq!(told(&huge).3, "the number is too large for a float");
}

#[test]
fn a_mistake_is_told_with_its_place_and_what_was_expected() {
    let command = "a command: info, create, destroy, modify, associate, transfer, discover or rename";
    assert_eq!(
        told("info\n  pools"),
        error(2, 3, "syntax error at 'pools'", &format!("expected {command}, not `pools`"))
    );
    assert_eq!(
        told("create pool web int x = 5").3,
        format!("expected a list in ( ) or {command}, not `int`")
    );
    assert_eq!(
        told("create cpu 3"),
        error(1, 8, "syntax error at 'cpu'", "expected system, pool or pset, not `cpu`")
    );
    assert_eq!(
        told("create pool pool"),
        error(
            1,
            13,
            "syntax error at 'pool'",
            "expected a name; `pool` is a word of the language and cannot be one"
        )
    );
    assert_eq!(told("create pool 2web").2, "syntax error at '2'");
    assert_eq!(told("create pool \"web\"").2, "syntax error at '\"web\"'");
    assert_eq!(told("modify web").3, "expected system, pool, pset or cpu, not `web`");
    assert_eq!(told("info cpu -1").3, "expected the number of a processor, not `-1`");
    assert_eq!(told("associate pset web").3, "expected pool, not `pset`");
    assert_eq!(told("associate pool web ( webset )").3, "expected pset, not `webset`");
    assert_eq!(told("transfer two from pset a to b").3, "expected to, or how many processors, not `two`");
    assert_eq!(told("transfer 2 pset a").3, "expected from pset or to pset, not `pset`");
    assert_eq!(
        told("transfer 2 from pset a to pset b"),
        error(
            1,
            27,
            "syntax error at 'pset'",
            "expected the name alone here, without its kind in front, not `pset`"
        )
    );
    assert_eq!(told("rename pool a b").3, "expected to, not `b`");
    assert_eq!(
        told("create pool a ( )").3,
        "expected a property: boolean, int, uint, string or float, or ~ to remove one, not `)`"
    );
    assert_eq!(
        told("modify pool a ( ~ x )").3,
        "expected a type: boolean, int, uint, string or float, not `x`"
    );
    assert_eq!(told("modify pool a ( int x = 1 ; )").1, 29);
    assert_eq!(told("modify pool a ( int x = 1, int y = 2 )").2, "Illegal character at ','");
    assert_eq!(told("modify pool a ( int x = 1 int y = 2 )").3, "expected ; or ), not `int`");
    assert_eq!(told("modify pool a ( int x 1 )").3, "expected =, not `1`");
    assert_eq!(told("info\ninfo x").0, 2);
    assert_eq!(parse("info\ninfo x").unwrap_err().with_line(), "line 2, syntax error at 'x'");
}

#[test]
fn a_script_that_ends_too_early_says_what_is_missing() {
    let end = |line, column, expected: &str| {
        error(
            line,
            column,
            "syntax error, token expected",
            &format!("expected {expected}, and the script ends"),
        )
    };
    assert_eq!(told("create pool"), end(1, 12, "a name"));
    assert_eq!(told("modify pool a ( int x = 1 \n"), end(2, 1, "; or )"));
    assert_eq!(told("transfer 2 to pset a"), end(1, 21, "from"));
    let command = "a command: info, create, destroy, modify, associate, transfer, discover or rename";
    assert_eq!(told(""), end(1, 1, command));
    assert_eq!(told("# nothing\n"), end(2, 1, command));
}

#[test]
fn what_the_language_does_not_have_is_an_illegal_character() {
    let hint = "names are letters, digits and ,._-; strings stand in \"\", and a comment begins with #";
    assert_eq!(told("info pool é"), error(1, 11, "Illegal character at 'é'", hint));
    assert_eq!(told("info - 1").2, "Illegal character at '-'");
    assert_eq!(told("info pool .web").2, "Illegal character at '.'");
    assert_eq!(told("info\n'x'").0, 2);
}

#[test]
fn a_string_ends_in_its_line() {
    assert_eq!(
        told("modify pool a (\n string pool.comment = \"not ended )\n)"),
        error(2, 24, "syntax error at '\"not ended )'", "end the string with \" on the same line")
    );
}

#[test]
fn fuzz_minute_scripts() {
    let seeds = [
        EXAMPLE,
        "info info system default info pool web info cpu 3",
        "transfer 2 from pset a to b transfer 2 to pset b from a # all",
        "modify pset a (uint pset.min=3;~uint _x;float y=-1.5e-7;string s=\"a # b\")",
        "rename pool a to b destroy pset c discover create system d",
    ];
    millpond_fuzz::check_text("formats-poolcfg", &seeds, |text| match parse(text) {
        Ok(commands) => {
            let printed: Vec<String> = commands.iter().map(|c| c.value.to_string()).collect();
            assert_eq!(read(&printed.join(" ")), printed);
            let places: Vec<_> = commands.iter().map(|c| (c.line, c.column)).collect();
            assert!(places.is_sorted() && !places.is_empty());
        }
        Err(error) => {
            let line = text.split('\n').nth(error.line - 1).unwrap();
            assert!(line[error.column - 1..].starts_with(&error.text), "{error:?}");
            assert!(!error.to_string().is_empty() && !error.hint().is_empty());
        }
    });
}

proptest::proptest! {
    #[test]
    fn reading_any_text_never_panics(text in ".{0,60}") {
        let _ = parse(&text);
    }
}
