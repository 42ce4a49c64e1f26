//! Round trips of frames, and malformed bytes.

use super::schema::Schema;
use super::*;
use millpond_model::{Histogram, Nanos, WallTime};
use millpond_observe::catalogue::{Entity, FieldKind, Unit, cpu, fields, latency, machine, thread};
use millpond_observe::{Frame, Row, Value};
use proptest::prelude::{Just, Strategy, any as any_of, prop_assert, prop_assert_eq, prop_oneof, proptest};

/// Without a practical limit.
fn any() -> Meter {
    Meter::of_reader(1 << 30, 0)
}

fn round_trip(frames: &[Frame]) -> (Vec<Frame>, Vec<usize>) {
    let schema = Schema::of_catalogue();
    let (mut encoder, mut decoder) = (Encoder::new(&schema), Decoder::new(&schema, any()));
    let mut sizes = Vec::new();
    let mut read = Vec::new();
    for frame in frames {
        let mut bytes = Vec::new();
        encoder.frame(frame, &mut bytes);
        sizes.push(bytes.len());
        let mut rest = bytes.as_slice();
        read.push(decoder.frame(&mut rest).unwrap());
        assert!(rest.is_empty());
        assert_eq!(decoder.meter().spent, encoder.spent(), "both count the same");
    }
    (read, sizes)
}

fn at(millis: u64) -> Frame {
    Frame::at(Nanos::from_millis(millis), WallTime(1_000 + (millis / 1000).cast_signed()))
}

#[test]
fn what_goes_on_as_it_went_takes_a_byte_a_value() {
    let frames: Vec<Frame> = (0..4)
        .map(|n: u64| {
            let mut frame = at(n * 1000);
            let row = |id: u32| {
                Row::of(Entity::Cpu)
                    .with(cpu::ID, id)
                    .with(cpu::USER, Nanos::from_millis(n * 300))
                    .with(cpu::CSW, n * 17)
            };
            frame.set_rows(Entity::Cpu, (0..8).map(row).collect());
            frame
        })
        .collect();
    let (read, sizes) = round_trip(&frames);
    assert_eq!(read, frames);
    // at 5, wall 1, missing 1, marks 11, age 1, rows 4, and a token for each of 8 times 21 values
    assert_eq!(sizes[3], 5 + 1 + 1 + 11 + 1 + 4 + 8 * 21);
}

#[test]
fn rows_that_come_and_go_keep_their_order_and_their_values() {
    let table = |millis: u64, lwps: &[u32]| {
        let mut frame = at(millis);
        let row =
            |lwp: &u32| Row::of(Entity::Thread).with(thread::LWP, *lwp).with(thread::NAME, format!("t{lwp}"));
        frame.set_rows(Entity::Thread, lwps.iter().map(row).collect());
        frame
    };
    let frames = [
        table(0, &[1, 2, 3]),
        table(1, &[2, 3, 4]),
        table(2, &[4, 3, 2, 9]),
        table(3, &[]),
        table(4, &[7, 7, 1]),
        table(5, &[7, 1]),
        at(6),
        table(7, &[5]),
    ];
    assert_eq!(round_trip(&frames).0, frames);
}

#[test]
fn a_table_that_was_not_read_anew_is_not_written_again() {
    let mut first = at(0);
    first.set_rows(Entity::Cpu, vec![Row::of(Entity::Cpu).with(cpu::ID, 0u32)]);
    let mut second = at(1000);
    second.take_rows_of(Entity::Cpu, &first);
    second.missing = vec!["thing: it is not there".into()];
    let third = at(2000);
    let frames = [first, second, third];
    let (read, sizes) = round_trip(&frames);
    assert_eq!(read, frames);
    assert_eq!(sizes[2], 5 + 1 + 1 + 11);
}

#[test]
fn of_a_histogram_what_was_added_is_written() {
    let table = |millis: u64, waits: Option<&[u64]>| {
        let mut frame = at(millis);
        let row = Row::of(Entity::Latency).with(latency::SET, 0u32).with(latency::STAGE, "run-queue");
        let mut histogram = Histogram::default();
        waits.into_iter().flatten().for_each(|ns| histogram.record(Nanos(*ns)));
        frame.set_rows(Entity::Latency, vec![row.with(latency::WAITS, waits.map(|_| histogram))]);
        frame
    };
    let frames = [
        table(0, Some(&[1000])),
        table(1000, Some(&[1000, 1000, 2_000_000])),
        table(2000, Some(&[1000, 1000, 2_000_000])),
        table(3000, None),
        table(4000, Some(&[5])),
        // From another watch.
        table(5000, Some(&[7])),
        table(6000, Some(&[])),
    ];
    let (read, sizes) = round_trip(&frames);
    assert_eq!(read, frames);
    // at 5, wall 1, missing 1, marks 11, age 1, rows 4, two labels 2; then as before: 1; a token, two buckets of 2, the sum 3
    assert_eq!(sizes[2], 5 + 1 + 1 + 11 + 1 + 4 + 2 + 1);
    assert_eq!(sizes[1], sizes[2] - 1 + 1 + 2 + 2 + 3);
}

#[test]
fn what_another_version_wrote_is_read_as_far_as_it_is_known() {
    let text = r#"[{"of":"weather","fields":[{"name":"rain","counts":true}]},{"of":"cpu","fields":[{"name":"cpu"},{"name":"colour"},{"name":"user_s","time":true,"counts":true}]}]"#;
    let schema: Schema = serde_json::from_str(text).unwrap();
    // at 1, wall 0, nothing missing; a row of weather; a row of cpu: number 2, a colour, 3 microseconds
    let bytes = [1, 0, 0, 2, 0, 1, 0, 0, 1, 9, 2, 0, 1, 0, 0, 1, 9, 3, 3, b'r', b'e', b'd', 11];
    let mut rest = bytes.as_slice();
    let frame = Decoder::new(&schema, any()).frame(&mut rest).unwrap();
    assert!(rest.is_empty());
    let row = &frame.rows(Entity::Cpu)[0];
    assert_eq!(
        (row.number(cpu::ID), row.number(cpu::USER), row.number(cpu::IDLE)),
        (Some(2.0), Some(3e-6), None)
    );
}

#[test]
fn bytes_that_are_no_frame_are_refused_with_the_reason() {
    let schema = Schema::of_catalogue();
    let refused = |bytes: &[u8]| Decoder::new(&schema, any()).frame(&mut &*bytes).unwrap_err().0;
    assert_eq!(refused(&[]), "it ends in the middle");
    assert_eq!(refused(&[0xff; 11]), "a number is longer than ten bytes");
    assert_eq!(refused(&[0, 0, 0, 7]), "there is no such mark of a table");
    assert_eq!(refused(&[0, 0, 0, 2, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]), "there are more rows than bytes");
    assert_eq!(refused(&[0, 0, 2, 2, 0xff, 0xfe]), "a text is not UTF-8");
    let far = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0];
    assert_eq!(refused(&far), "its clock goes further than any clock does");
}

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        2 => Just(Value::Unknown),
        4 => (0u32..2000).prop_map(Value::from),
        2 => (-1e9..1e9f64).prop_map(Value::Number),
        1 => any_of::<f64>().prop_filter("a number", |n| !n.is_nan()).prop_map(Value::Number),
        3 => "[a-c]{0,3}".prop_map(Value::from),
        1 => any_of::<String>().prop_map(Value::from),
    ]
}

fn tables(entity: Entity) -> impl Strategy<Value = Vec<Vec<Row>>> {
    let row = proptest::collection::vec(values(), fields(entity).len()).prop_map(move |values| {
        let ids = (0..).map(|index| millpond_observe::catalogue::FieldId { entity, index });
        ids.zip(values).fold(Row::of(entity), |row, (id, value)| row.with(id, value))
    });
    proptest::collection::vec(proptest::collection::vec(row, 0..6), 1..8)
}

/// Whether the difference is within the rounding for an interval of one second.
fn is_near(entity: Entity, index: usize, wrote: &Value, read: &Value) -> bool {
    let field = &fields(entity)[index];
    match (wrote, read) {
        (Value::Number(a), Value::Number(b)) if field.unit == Unit::Seconds && (a * 1e6).abs() < 9e15 => {
            let off = if field.kind == FieldKind::Counter { 0.000_501 } else { 0.000_001 };
            (a - b).abs() <= off + a.abs() * 1e-15
        }
        (a, b) => a == b,
    }
}

proptest! {
    #[test]
    fn frames_come_back_as_they_were(cpus in tables(Entity::Cpu), machines in tables(Entity::Machine)) {
        let frames: Vec<Frame> = cpus.iter().zip(machines.iter().cycle()).enumerate().map(|(n, (cpus, machines))| {
            let mut frame = at(n as u64 * 1000);
            frame.set_rows(Entity::Cpu, cpus.clone());
            frame.set_rows(Entity::Machine, machines.clone());
            frame
        }).collect();
        let (read, _) = round_trip(&frames);
        for (wrote, read) in frames.iter().zip(&read) {
            prop_assert_eq!((wrote.at, wrote.wall), (read.at, read.wall));
            for entity in [Entity::Cpu, Entity::Machine] {
                prop_assert_eq!(wrote.rows(entity).len(), read.rows(entity).len());
                for (a, b) in wrote.rows(entity).iter().zip(read.rows(entity)) {
                    for (index, (a, b)) in a.values().iter().zip(b.values()).enumerate() {
                        prop_assert!(is_near(entity, index, a, b), "{:?} {:?}", a, b);
                    }
                }
            }
        }
    }

    #[test]
    fn a_total_stays_near_however_many_frames_there_were(growth in proptest::collection::vec(0u64..2_000_000_000, 1..200)) {
        let mut total = Nanos(0);
        let frames: Vec<Frame> = growth.iter().enumerate().map(|(n, grown)| {
            total = total + Nanos(*grown);
            let mut frame = at(n as u64 * 1000);
            frame.set_rows(Entity::Machine, vec![Row::of(Entity::Machine).with(machine::WATCHING, total)]);
            frame
        }).collect();
        for (wrote, read) in frames.iter().zip(round_trip(&frames).0) {
            let number = |frame: &Frame| frame.rows(Entity::Machine)[0].number(machine::WATCHING).unwrap();
            prop_assert!((number(wrote) - number(&read)).abs() <= 0.000_501);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any_of::<u8>(), 0..300)) {
        let mut decoder = Decoder::new(&Schema::of_catalogue(), any());
        let mut rest = bytes.as_slice();
        while decoder.frame(&mut rest).is_ok() && !rest.is_empty() {}
    }
}

/// Encoded frames of two CPUs.
fn seed() -> Vec<u8> {
    let mut encoder = Encoder::new(&Schema::of_catalogue());
    let mut bytes = Vec::new();
    for n in 0..3 {
        let mut frame = at(n * 1000);
        let row = |id: u32| {
            Row::of(Entity::Cpu).with(cpu::ID, id).with(cpu::STATE, "on-line").with(cpu::CSW, n * 7)
        };
        frame.set_rows(Entity::Cpu, (0..2).map(row).collect());
        encoder.frame(&frame, &mut bytes);
    }
    bytes
}

#[test]
fn fuzz_frames() {
    millpond_fuzz::check("store-frames", &[&seed()], |bytes| {
        let mut decoder = Decoder::new(&Schema::of_catalogue(), any());
        let mut rest = bytes;
        while !rest.is_empty() {
            let Ok(frame) = decoder.frame(&mut rest) else { break };
            assert!(frame.rows(Entity::Cpu).len() <= bytes.len());
        }
    });
}
