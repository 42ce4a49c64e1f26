//! The published figures, and texts for invented figures.

use super::*;
use serde_json::json;

fn look(touched: Touched, resident: usize, pages: usize) -> Look {
    Look { touched, count: Count { resident, pages } }
}

fn stack(kind: Kind, looks: &[Look]) -> Stack {
    Stack { kind, looks: looks.to_vec(), left_out: None }
}

/// A machine with pages of 4 KB and stacks of 8 MB.
fn linux() -> E7 {
    let main = [look(Touched::Nothing, 3, 33), look(Touched::LowestByte, 4, 2048)];
    let default = [
        look(Touched::Nothing, 2, 2048),
        look(Touched::LowestByte, 3, 2048),
        look(Touched::EveryPage, 2048, 2048),
    ];
    let own = [look(Touched::Nothing, 17, 17)];
    let stacks = vec![stack(Kind::Main, &main), stack(Kind::Default, &default), stack(Kind::Own, &own)];
    E7 {
        published: Published::read(),
        here: StacksResult { kernel: "6.12.1".into(), page_bytes: 4096, stacks },
        library: Ok(Count { resident: 16, pages: 16 }),
    }
}

#[test]
fn the_published_listing_is_there() {
    let text = include_str!("published.json");
    let published: Published = serde_json::from_str(text).unwrap();
    assert_eq!(published, Published::read());
    let counts = |stack: &Stack| -> Vec<(usize, usize)> {
        stack.looks.iter().map(|look| (look.count.resident, look.count.pages)).collect()
    };
    let figures: Vec<_> = published.stacks.iter().map(|stack| (stack.kind, counts(stack))).collect();
    assert_eq!(
        figures,
        [
            (Kind::Main, vec![(4, 4), (2120, 2120)]),
            (Kind::Default, vec![(1, 254), (2, 254), (254, 254)]),
            (Kind::Own, vec![(17, 17)]),
        ]
    );
}

#[test]
fn each_part_stands_beside_ours_with_its_lesson() {
    let expected = "\
e7: what of a thread's stack is in memory
published: a program on 32-bit Solaris, pages of 4 KB; 2007
here: kernel 6.12.1, pages of 4 KB

the main stack              published       here
nothing touched                4 of 4    3 of 33
its lowest byte touched  2120 of 2120  4 of 2048
On Solaris a touch of its lowest byte fills the gap. Here the stack grows down to there, and 1 page of it comes: 2044 pages are still to come, \
each when it is touched. A real-time thread touches every page of it first, or locks the whole (stack_lock of millpond-rt).

the default stack of a thread   published          here
nothing touched                  1 of 254     2 of 2048
its lowest byte touched          2 of 254     3 of 2048
every page touched             254 of 254  2048 of 2048
A touch brings 1 page, on both systems: a thread that must not wait touches every page first, and each thread anew.

one that was written to before  published      here
nothing touched                  17 of 17  17 of 17
All of it is there when its thread begins, on both systems: no touch of it waits. stack_alloc of millpond-rt gives such stacks, with a guard \
on each side.

one of stack_alloc, 64 KB  published      here
nothing touched                    -  16 of 16
The library has touched it before, and keeps it for the next thread that wants one of its size.
";
    assert_eq!(linux().text(), expected);
}

#[test]
fn lessons_follow_from_figures() {
    let main = |before, after| lesson(&stack(Kind::Main, &[before, after])).unwrap();
    let begins = look(Touched::Nothing, 4, 4);
    assert_eq!(
        main(begins, look(Touched::LowestByte, 2120, 2120)),
        "To touch its lowest byte brings all of it."
    );
    let larger = main(look(Touched::Nothing, 4, 33), look(Touched::LowestByte, 20, 21));
    assert!(larger.contains(", and 16 pages of it come: 1 page is still to come, each"), "{larger}");
    let all = look(Touched::LowestByte, 254, 254);
    let locked = stack(Kind::Default, &[look(Touched::Nothing, 254, 254), all]);
    assert_eq!(lesson(&locked).unwrap(), "All of it was there before anything was touched.");
    let huge = [look(Touched::Nothing, 2, 2048), look(Touched::LowestByte, 514, 2048)];
    let huge = lesson(&stack(Kind::Default, &huge)).unwrap();
    assert!(huge.starts_with("A touch brings 512 pages, and brought 1 on Solaris: "), "{huge}");
    let swapped = lesson(&stack(Kind::Own, &[look(Touched::Nothing, 15, 17)])).unwrap();
    assert_eq!(swapped, "2 pages of it went away again before its thread began.");
    assert_eq!(lesson(&stack(Kind::Main, &[begins])), None);
    assert_eq!(lesson(&stack(Kind::Main, &[])), None);
}

#[test]
fn what_could_not_be_seen_is_said_and_the_published_figures_stay() {
    let mut e7 = linux();
    e7.here.stacks[0] = Stack { left_out: Some("it cannot grow".into()), ..stack(Kind::Main, &[]) };
    let expected = "
the main stack              published  here
nothing touched                4 of 4     -
its lowest byte touched  2120 of 2120     -
left out: it cannot grow

the default stack";
    assert!(e7.text().contains(expected), "{}", e7.text());
    e7.library = Err("libmillpond_rt.so.0 is not installed".into());
    let expected = "
one of stack_alloc, 64 KB  published  here
nothing touched                    -     -
left out: libmillpond_rt.so.0 is not installed
";
    assert!(e7.text().ends_with(expected), "{}", e7.text());
    assert!(!e7.csv().contains("stack_alloc"));
    let left_out = json!({ "here": null, "left_out": "libmillpond_rt.so.0 is not installed" });
    assert_eq!(serde_json::to_value(e7.json()).unwrap()["library"], left_out);
    e7.library = Ok(Count { resident: 15, pages: 16 });
    assert!(e7.text().ends_with("\n1 page of it went away again.\n"), "{}", e7.text());
}

#[test]
fn spreadsheets_and_programs_have_every_look() {
    let expected = "\
stack,touched,published,published pages,here,here pages
main,nothing,4,4,3,33
main,lowest byte,2120,2120,4,2048
default,nothing,1,254,2,2048
default,lowest byte,2,254,3,2048
default,every page,254,254,2048,2048
own,nothing,17,17,17,17
stack_alloc,nothing,,,16,16
";
    assert_eq!(linux().csv(), expected);
    let value = serde_json::to_value(linux().json()).unwrap();
    assert_eq!((&value["experiment"], &value["page_bytes"]), (&json!("e7"), &json!(4096)));
    let touched = json!({ "touched": "lowest-byte", "published": { "resident": 2120, "pages": 2120 }, "here": { "resident": 4, "pages": 2048 } });
    assert_eq!(value["stacks"][0]["looks"][1], touched);
    assert_eq!(value["stacks"][2]["left_out"], Value::Null);
}

#[test]
fn a_program_that_says_something_else_is_told() {
    let library = || linux().library;
    let said = E7::of(json!({ "kernel": 7 }), library()).unwrap_err().to_string();
    assert!(said.starts_with("cannot run load stacks: it said what is no result: invalid type: "), "{said}");
    let here = linux().here;
    assert_eq!(E7::of(json!(here), library()).unwrap(), linux());
}
