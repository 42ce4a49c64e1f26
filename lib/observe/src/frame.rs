//! Everything that was seen at a moment, as tables of the catalogue's fields; and what happened between two moments.

use crate::catalogue::{Entity, Field, FieldId, FieldKind, fields, pset};
use millpond_model::{Histogram, Nanos, WallTime, printable};
use serde_json::{Map, Value as Json, json};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

/// What a field holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Value {
    /// It is not known.
    #[default]
    Unknown,
    /// A number in the unit of its field; of a counter, its total.
    Number(f64),
    /// A text, as others wrote it: it is not fit for a terminal.
    Text(Arc<str>),
    /// How many events were how long: all so far, or those of an interval.
    Histogram(Arc<Histogram>),
}

impl Value {
    /// The order of kinds of values.
    fn rank(&self) -> u8 {
        match self {
            Value::Unknown => 0,
            Value::Number(_) => 1,
            Value::Text(_) => 2,
            Value::Histogram(_) => 3,
        }
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Value {
        Value::Number(f64::from(number))
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "exact to 2^53, which is 104 days in nanoseconds, and more bytes than there are"
)]
impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number as f64)
    }
}

/// Seconds.
impl From<Nanos> for Value {
    fn from(time: Nanos) -> Value {
        Value::Number(time.as_secs_f64())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text.into())
    }
}

impl From<Histogram> for Value {
    fn from(histogram: Histogram) -> Value {
        Value::Histogram(Arc::new(histogram))
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(known: Option<T>) -> Value {
        known.map_or(Value::Unknown, Into::into)
    }
}

/// One thing: its fields in the order of the catalogue.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    entity: Entity,
    values: Vec<Value>,
}

impl Row {
    /// One of which nothing is known yet.
    #[must_use]
    pub fn of(entity: Entity) -> Row {
        Row { entity, values: vec![Value::Unknown; fields(entity).len()] }
    }

    /// The same with this value.
    ///
    /// # Panics
    /// When the field is another entity's: a mistake in the program.
    #[must_use]
    pub fn with(mut self, field: FieldId, value: impl Into<Value>) -> Row {
        self.set(field, value);
        self
    }

    /// Gives a field this value.
    ///
    /// # Panics
    /// As [`Row::with`].
    pub fn set(&mut self, field: FieldId, value: impl Into<Value>) {
        assert_eq!(field.entity, self.entity, "a field of another entity");
        self.values[field.index] = value.into();
    }

    /// The value of a field; unknown for one of another entity.
    #[must_use]
    pub fn value(&self, field: FieldId) -> &Value {
        match field.entity == self.entity {
            true => &self.values[field.index],
            false => &Value::Unknown,
        }
    }

    /// The number that a field holds, if it holds one.
    #[must_use]
    pub fn number(&self, field: FieldId) -> Option<f64> {
        match self.value(field) {
            Value::Number(number) => Some(*number),
            Value::Unknown | Value::Text(_) | Value::Histogram(_) => None,
        }
    }

    /// The histogram that a field holds, if it holds one.
    #[must_use]
    pub fn histogram(&self, field: FieldId) -> Option<&Histogram> {
        match self.value(field) {
            Value::Histogram(histogram) => Some(histogram),
            Value::Unknown | Value::Number(_) | Value::Text(_) => None,
        }
    }

    /// The text of a field, fit for a terminal: a number without a fraction where it has none, nothing for what is unknown, of a histogram how many
    /// events are in it.
    #[must_use]
    pub fn text(&self, field: FieldId) -> Cow<'_, str> {
        match self.value(field) {
            Value::Unknown => Cow::Borrowed(""),
            Value::Number(number) => Cow::Owned(number.to_string()),
            Value::Text(text) => printable(text),
            Value::Histogram(histogram) => Cow::Owned(histogram.count().to_string()),
        }
    }

    /// All values in the order of the catalogue.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The order of two rows of an entity by their keys, of which there are so many.
    fn compare_keys(&self, other: &Row, keys: usize) -> Ordering {
        let pairs = self.values.iter().zip(&other.values).take(keys);
        let mut compared = pairs.map(|(a, b)| match (a, b) {
            (Value::Number(a), Value::Number(b)) => a.total_cmp(b),
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        });
        compared.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// What tells it from others of its table.
    #[must_use]
    pub fn key(&self) -> RowKey {
        let own = fields(self.entity).iter().zip(&self.values);
        RowKey(
            own.take_while(|(field, _)| field.kind == FieldKind::Key)
                .map(|(_, value)| KeyPart::of(value))
                .collect(),
        )
    }
}

/// What tells rows of a table apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowKey(Vec<KeyPart>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum KeyPart {
    Nothing,
    /// The bits of a number that is not negative: in the order of the numbers.
    Number(u64),
    Text(Arc<str>),
}

impl KeyPart {
    fn of(value: &Value) -> KeyPart {
        match value {
            Value::Unknown | Value::Histogram(_) => KeyPart::Nothing,
            Value::Number(number) => KeyPart::Number(number.to_bits()),
            Value::Text(text) => KeyPart::Text(Arc::clone(text)),
        }
    }
}

/// Everything that was seen at a moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Frame {
    /// When, on the machine's monotonic clock.
    pub at: Nanos,
    /// When, on the wall.
    pub wall: WallTime,
    /// Its length, where the frame is about an interval that ends at `at`: counters then hold their growth per second.
    pub elapsed: Option<Nanos>,
    /// What is lacking and why, a sentence each.
    pub missing: Vec<String>,
    tables: HashMap<Entity, Table>,
}

/// The rows of an entity, as they were read at a moment.
#[derive(Debug, Clone, PartialEq)]
struct Table {
    read_at: Nanos,
    rows: Arc<Vec<Row>>,
}

impl Frame {
    /// One without rows.
    #[must_use]
    pub fn at(at: Nanos, wall: WallTime) -> Frame {
        Frame { at, wall, ..Frame::default() }
    }

    /// The rows of an entity, in the order in which the machine has them.
    #[must_use]
    pub fn rows(&self, entity: Entity) -> &[Row] {
        self.tables.get(&entity).map_or(&[], |table| table.rows.as_slice())
    }

    /// When the rows of an entity were read: at the moment of the frame, or earlier where they are read less often. `None` where there are none.
    #[must_use]
    pub fn read_at(&self, entity: Entity) -> Option<Nanos> {
        self.tables.get(&entity).map(|table| table.read_at)
    }

    /// Puts rows in the place of those that the entity had, as read at the moment of the frame.
    pub fn set_rows(&mut self, entity: Entity, rows: Vec<Row>) {
        self.set_rows_read_at(entity, self.at, rows);
    }

    /// The same for rows that were read earlier.
    pub fn set_rows_read_at(&mut self, entity: Entity, read_at: Nanos, rows: Vec<Row>) {
        debug_assert!(rows.iter().all(|row| row.entity == entity), "rows of another entity");
        self.tables.insert(entity, Table { read_at, rows: Arc::new(rows) });
    }

    /// Takes over the rows of an entity, as another frame has them.
    pub fn take_rows_of(&mut self, entity: Entity, other: &Frame) {
        if let Some(table) = other.tables.get(&entity) {
            self.tables.insert(entity, table.clone());
        }
    }

    /// The interval from an earlier frame to this one: labels and gauges as they are in this one, counters as growth per second between the moments at
    /// which their rows were read; unknown where these are the same. What goes back is nothing. A row that the earlier frame lacks has unknown counters,
    /// unless it began meanwhile: a thread or process counts from its beginning.
    #[must_use]
    pub fn since(&self, before: &Frame) -> Frame {
        let tables = self.tables.iter().map(|(entity, now)| {
            let counts = fields(*entity)
                .iter()
                .any(|field| matches!(field.kind, FieldKind::Counter | FieldKind::Histogram));
            let began = before.read_at(*entity).unwrap_or(before.at);
            let rows = match counts {
                true => {
                    let old = earlier(*entity, &now.rows, before.rows(*entity));
                    let interval = Interval::new(*entity, began, now.read_at);
                    let pairs = now.rows.iter().zip(old);
                    Arc::new(pairs.map(|(row, old)| interval.rates(row, old)).collect())
                }
                false => Arc::clone(&now.rows),
            };
            (*entity, Table { read_at: now.read_at, rows })
        });
        Frame {
            at: self.at,
            wall: self.wall,
            elapsed: Some(self.at - before.at),
            missing: self.missing.clone(),
            tables: tables.collect(),
        }
    }

    /// What JSON calls the rows of an entity.
    #[must_use]
    pub fn plural(entity: Entity) -> &'static str {
        match entity {
            Entity::Machine => "machine",
            Entity::Pool => "pools",
            Entity::Pset => "sets",
            Entity::Cpu => "cpus",
            Entity::Process => "processes",
            Entity::Thread => "threads",
            Entity::Latency => "latencies",
            Entity::Noise => "noise",
            Entity::Interrupt => "interrupts",
            Entity::Fence => "fences",
            Entity::Decision => "decisions",
        }
    }

    /// The frame as JSON: for each entity that has rows a list of objects by the names of fields. Unknown is null.
    #[must_use]
    pub fn json(&self) -> Json {
        let mut object = self.head_json();
        for entity in Entity::ALL {
            object[Frame::plural(entity)] = self.table_json(entity);
        }
        object
    }

    /// The same without tables.
    #[must_use]
    pub fn head_json(&self) -> Json {
        json!({
            "at_s": self.at.as_secs_f64(),
            "time": self.wall.0,
            "interval_s": self.elapsed.map(Nanos::as_secs_f64),
            "missing": self.missing,
        })
    }

    /// The rows of an entity, as they are in [`Frame::json`].
    #[must_use]
    pub fn table_json(&self, entity: Entity) -> Json {
        let rows = self.rows(entity).iter().map(|row| {
            let named = fields(entity).iter().zip(&row.values);
            named.map(|(field, value)| (field.name.to_owned(), json_of(value))).collect::<Map<_, _>>()
        });
        rows.collect()
    }
}

fn json_of(value: &Value) -> Json {
    #[expect(clippy::cast_possible_truncation, reason = "whole, and below 2^53")]
    match value {
        Value::Unknown => Json::Null,
        Value::Number(number) if number.fract() == 0.0 && number.abs() < WHOLE_MAX => json!(*number as i64),
        Value::Number(number) => json!(number),
        Value::Text(text) => json!(&**text),
        Value::Histogram(histogram) => histogram_json(histogram),
    }
}

/// Counts by the upper bounds of their buckets in seconds; quantiles are such bounds, and null where fewer than one event lies beyond.
fn histogram_json(histogram: &Histogram) -> Json {
    let buckets =
        histogram.buckets().iter().map(|(bucket, count)| json!([Histogram::bound_s(*bucket), count]));
    json!({
        "count": histogram.count(),
        "sum_s": histogram.sum().as_secs_f64(),
        "median_s": histogram.quantile_s(0.5),
        "p99_s": histogram.quantile_s(0.99),
        "p999_s": histogram.quantile_s(0.999),
        "longest_s": histogram.longest_s(),
        "buckets": buckets.collect::<Vec<_>>(),
    })
}

/// 2^53: to here whole numbers are exact.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// For each row of an entity that of the same key in an earlier table. Machines list things by their numbers, so that both tables are walked once.
fn earlier<'b>(entity: Entity, rows: &[Row], before: &'b [Row]) -> Vec<Option<&'b Row>> {
    let keys = fields(entity).iter().take_while(|field| field.kind == FieldKind::Key).count();
    let ascends = |rows: &[Row]| rows.is_sorted_by(|a, b| a.compare_keys(b, keys).is_lt());
    if !ascends(rows) || !ascends(before) {
        let old: HashMap<RowKey, &Row> = before.iter().map(|row| (row.key(), row)).collect();
        return rows.iter().map(|row| old.get(&row.key()).copied()).collect();
    }
    let mut left = before.iter().peekable();
    let find = |row: &Row| {
        while left.next_if(|old| old.compare_keys(row, keys).is_lt()).is_some() {}
        left.next_if(|old| old.compare_keys(row, keys).is_eq())
    };
    rows.iter().map(find).collect()
}

/// The time between two readings of a table.
struct Interval {
    fields: &'static [Field],
    /// Where a row says when its thing began.
    began: Option<usize>,
    began_after_s: f64,
    seconds: f64,
}

impl Interval {
    fn new(entity: Entity, began_after: Nanos, ended: Nanos) -> Interval {
        let fields = fields(entity);
        Interval {
            fields,
            began: fields.iter().position(|field| field.name == "began_s"),
            began_after_s: began_after.as_secs_f64(),
            seconds: (ended - began_after).as_secs_f64(),
        }
    }

    /// A row with growth per second in the place of totals, and what was added in that of a histogram.
    fn rates(&self, row: &Row, old: Option<&Row>) -> Row {
        let is_over = self.seconds > 0.0;
        let is_new = || match self.began.map(|index| &row.values[index]) {
            Some(Value::Number(at)) => *at >= self.began_after_s,
            _ => false,
        };
        let counts_from_nothing = is_over && old.is_none() && is_new();
        let old = old.filter(|_| is_over);
        let values = self.fields.iter().zip(&row.values).enumerate().map(|(index, (field, value))| {
            match (field.kind, value, old.map(|old| &old.values[index])) {
                (FieldKind::Counter, Value::Number(now), Some(Value::Number(before))) => {
                    Value::Number((now - before).max(0.0) / self.seconds)
                }
                (FieldKind::Counter, Value::Number(now), None) if counts_from_nothing => {
                    Value::Number(now.max(0.0) / self.seconds)
                }
                (FieldKind::Histogram, Value::Histogram(now), Some(Value::Histogram(before))) => {
                    Value::from(now.since(before))
                }
                (FieldKind::Counter | FieldKind::Histogram, ..) => Value::Unknown,
                (FieldKind::Key | FieldKind::Label | FieldKind::Gauge, ..) => value.clone(),
            }
        });
        within_size(Row { entity: row.entity, values: values.collect() })
    }
}

/// The kernel counts the time of CPUs in ticks: over a short interval it can come out as more than the CPUs of a set have.
fn within_size(row: Row) -> Row {
    if row.entity != Entity::Pset {
        return row;
    }
    match (row.number(pset::BUSY), row.number(pset::SIZE)) {
        (Some(busy), Some(size)) if busy > size => row.with(pset::BUSY, size),
        _ => row,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{cpu, thread};
    use proptest::prelude::*;

    fn frame(at_s: u64, cpus: &[(u32, u32, f64)]) -> Frame {
        let mut frame = Frame::at(Nanos::from_secs(at_s), WallTime(at_s.try_into().unwrap()));
        let row = |(id, set, user): &(u32, u32, f64)| {
            Row::of(Entity::Cpu).with(cpu::ID, *id).with(cpu::SET, *set).with(cpu::USER, *user)
        };
        frame.set_rows(Entity::Cpu, cpus.iter().map(row).collect());
        frame
    }

    #[test]
    fn counters_become_growth_per_second_and_labels_stay_as_they_are_now() {
        let interval = frame(14, &[(0, 1, 5.0), (1, 0, 1.0)]).since(&frame(10, &[(0, 0, 3.0), (1, 0, 2.0)]));
        assert_eq!(interval.elapsed, Some(Nanos::from_secs(4)));
        let rows = interval.rows(Entity::Cpu);
        assert_eq!((rows[0].number(cpu::USER), rows[0].number(cpu::SET)), (Some(0.5), Some(1.0)));
        assert_eq!(rows[1].number(cpu::USER), Some(0.0), "what goes back is nothing");
        assert_eq!(rows[0].number(cpu::SYSTEM), None, "what was not counted is unknown");
    }

    #[test]
    fn what_was_not_there_before_is_unknown_unless_it_began_meanwhile() {
        let come = frame(14, &[(0, 0, 5.0), (7, 0, 9.0)]).since(&frame(10, &[(0, 0, 3.0)]));
        assert_eq!(come.rows(Entity::Cpu)[1].number(cpu::USER), None);
        let one = |lwp: u32, began: f64, time: f64| {
            Row::of(Entity::Thread).with(thread::LWP, lwp).with(thread::BEGAN, began).with(thread::TIME, time)
        };
        let mut now = frame(14, &[]);
        now.set_rows(Entity::Thread, vec![one(1, 12.0, 2.0), one(2, 3.0, 2.0)]);
        let rates: Vec<_> = now
            .since(&frame(10, &[]))
            .rows(Entity::Thread)
            .iter()
            .map(|row| row.number(thread::TIME))
            .collect();
        assert_eq!(rates, [Some(0.5), None]);
    }

    #[test]
    fn rows_that_are_read_less_often_have_rates_of_their_own_interval() {
        let (mut before, mut now) = (frame(10, &[]), frame(14, &[]));
        let thread = |time: f64| Row::of(Entity::Thread).with(thread::LWP, 1u32).with(thread::TIME, time);
        before.set_rows_read_at(Entity::Thread, Nanos::from_secs(5), vec![thread(1.0)]);
        now.set_rows_read_at(Entity::Thread, Nanos::from_secs(13), vec![thread(5.0)]);
        let interval = now.since(&before);
        assert_eq!(interval.elapsed, Some(Nanos::from_secs(4)));
        assert_eq!(interval.rows(Entity::Thread)[0].number(thread::TIME), Some(0.5));
        assert_eq!(interval.read_at(Entity::Thread), Some(Nanos::from_secs(13)));
    }

    #[test]
    fn frames_of_one_moment_have_no_rates() {
        let now = frame(10, &[(0, 0, 3.0)]);
        assert_eq!(now.since(&now).rows(Entity::Cpu)[0].number(cpu::USER), None);
    }

    #[test]
    fn a_set_uses_no_more_than_its_cpus() {
        let set = |busy: f64| Row::of(Entity::Pset).with(pset::SIZE, 2u64).with(pset::BUSY, busy);
        let (mut before, mut now) = (frame(10, &[]), frame(11, &[]));
        before.set_rows(Entity::Pset, vec![set(1.0)]);
        now.set_rows(Entity::Pset, vec![set(3.1)]);
        assert_eq!(now.since(&before).rows(Entity::Pset)[0].number(pset::BUSY), Some(2.0));
    }

    #[test]
    fn json_has_the_names_of_fields_and_null_for_what_is_unknown() {
        let json = frame(10, &[(3, 0, 2.5)]).json();
        assert_eq!(json["cpus"][0]["cpu"], 3);
        assert_eq!(json["cpus"][0]["user_s"], 2.5);
        assert_eq!(
            (&json["cpus"][0]["steal_s"], &json["interval_s"], &json["time"]),
            (&Json::Null, &Json::Null, &json!(10))
        );
        assert_eq!(json["threads"], json!([]));
    }

    #[test]
    fn a_hostile_name_is_fit_for_a_terminal_as_text_and_whole_as_a_value() {
        let row = Row::of(Entity::Thread).with(thread::NAME, "a\x1b[2Jb");
        assert_eq!(row.value(thread::NAME), &Value::Text("a\x1b[2Jb".into()));
        assert!(!row.text(thread::NAME).contains('\x1b'));
    }

    proptest! {
        #[test]
        fn the_order_of_rows_changes_no_rate(
            before in proptest::collection::btree_set(0u32..30, 0..20),
            now in proptest::collection::btree_set(0u32..30, 0..20),
        ) {
            let table = |ids: &std::collections::BTreeSet<u32>, times: f64, turned: bool| {
                let mut cpus: Vec<_> = ids.iter().map(|id| (*id, 0, f64::from(*id) * times)).collect();
                if turned {
                    cpus.reverse();
                }
                cpus
            };
            let rates = |turned: bool| {
                let interval = frame(2, &table(&now, 3.0, turned)).since(&frame(1, &table(&before, 1.0, turned)));
                let mut rows: Vec<_> = interval.rows(Entity::Cpu).to_vec();
                rows.sort_by_key(Row::key);
                rows
            };
            prop_assert_eq!(rates(false), rates(true));
            for row in rates(false) {
                let id = row.number(cpu::ID).unwrap();
                let known = before.iter().any(|other| f64::from(*other) == id);
                prop_assert_eq!(row.number(cpu::USER), known.then_some(2.0 * id));
            }
        }

        #[test]
        fn rates_of_two_intervals_add_up_to_that_of_both(a in 0.0f64..1e6, b in 0.0f64..1e6, c in 0.0f64..1e6) {
            let (first, second, third) =
                (frame(1, &[(0, 0, a)]), frame(3, &[(0, 0, a + b)]), frame(8, &[(0, 0, a + b + c)]));
            let rate = |from: &Frame, to: &Frame| to.since(from).rows(Entity::Cpu)[0].number(cpu::USER).unwrap();
            let parts = rate(&first, &second) * 2.0 + rate(&second, &third) * 5.0;
            prop_assert!((rate(&first, &third) * 7.0 - parts).abs() <= 1e-6 * (a + b + c).max(1.0));
        }
    }
}
