//! Frames to bytes.

use super::limits::{Meter, Spent, of_histograms, of_text, of_texts};
use super::numbers::{put, zigzag};
use super::schema::{Column, Columns, Schema};
use super::state::{Cell, Kept, Pace, step};
use super::{histogram_token, mark, token};
use millpond_model::{Histogram, Nanos, WallTime};
use millpond_observe::catalogue::{Entity, FieldId};
use millpond_observe::{Frame, Row, RowKey, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// Encodes frames in order.
#[derive(Debug)]
pub struct Encoder {
    tables: Vec<Table>,
    texts: HashMap<Arc<str>, u64>,
    at: Nanos,
    wall: WallTime,
    missing: Vec<String>,
    meter: Meter,
}

#[derive(Debug)]
struct Table {
    columns: Columns,
    entity: Entity,
    fields: Vec<FieldId>,
    read_at: Option<Nanos>,
    before: i64,
    keys: Vec<RowKey>,
    /// The cells, row by row.
    cells: Vec<Cell>,
}

impl Encoder {
    /// An encoder without earlier frames.
    #[must_use]
    pub fn new(schema: &Schema) -> Encoder {
        let table = |columns: &Columns| {
            Some(Table {
                entity: columns.entity()?,
                fields: columns.known().into_iter().collect::<Option<_>>()?,
                columns: columns.clone(),
                read_at: None,
                before: 0,
                keys: Vec::new(),
                cells: Vec::new(),
            })
        };
        Encoder {
            tables: schema.0.iter().filter_map(table).collect(),
            texts: HashMap::new(),
            at: Nanos(0),
            wall: WallTime(0),
            missing: Vec::new(),
            meter: Meter::of_writer(),
        }
    }

    /// The work of a reader for the frames so far.
    #[must_use]
    pub fn spent(&self) -> Spent {
        self.meter.spent
    }

    /// Appends a frame.
    pub fn frame(&mut self, frame: &Frame, out: &mut Vec<u8>) {
        put(out, (frame.at - self.at).0);
        put(out, zigzag(frame.wall.0.wrapping_sub(self.wall.0)));
        (self.at, self.wall) = (frame.at, frame.wall);
        if self.missing == frame.missing {
            put(out, 0);
        } else {
            let _ = self.meter.keep(of_texts(&frame.missing), of_texts(&self.missing));
            self.missing.clone_from(&frame.missing);
            put(out, self.missing.len() as u64 + 1);
            self.missing.iter().for_each(|text| put_text(out, text));
        }
        let _ = self.meter.frame(&frame.missing);
        for table in &mut self.tables {
            match frame.read_at(table.entity) {
                now if now == table.read_at => {
                    let _ = self.meter.share((table.keys.len() * table.fields.len()) as u64);
                    put(out, mark::AS_BEFORE);
                }
                None => {
                    put(out, mark::GONE);
                    let values = (table.keys.len() * table.fields.len()) as u64;
                    let _ = self.meter.keep(0, values + of_histograms(&table.cells));
                    (table.read_at, table.before) = (None, 0);
                    table.keys.clear();
                    table.cells.clear();
                }
                Some(read_at) => {
                    put(out, mark::READ);
                    put(out, (frame.at - read_at).0);
                    table.reading(read_at, frame.rows(table.entity), &mut self.texts, &mut self.meter, out);
                }
            }
        }
    }
}

impl Table {
    fn reading(
        &mut self,
        read_at: Nanos,
        rows: &[Row],
        texts: &mut HashMap<Arc<str>, u64>,
        meter: &mut Meter,
        out: &mut Vec<u8>,
    ) {
        let width = self.fields.len();
        // The meter of a writer refuses nothing.
        let _ = meter.work((rows.len() * width) as u64);
        let _ = meter.keep((rows.len() * width) as u64, (self.keys.len() * width) as u64);
        let now = self.read_at.map_or(0, |before| micros(read_at - before));
        let pace = Pace { now, before: self.before };
        (self.read_at, self.before) = (Some(read_at), now);
        self.keep_rows(rows, meter, out);
        for (index, (column, id)) in self.columns.fields.iter().zip(&self.fields).enumerate() {
            for (row, cells) in rows.iter().zip(self.cells.chunks_exact_mut(width)) {
                put_value(&mut cells[index], column, pace, row.value(*id), texts, meter, out);
            }
        }
    }

    /// Encodes which rows are kept, and updates the cells to the rows of this reading.
    fn keep_rows(&mut self, rows: &[Row], meter: &mut Meter, out: &mut Vec<u8>) {
        let width = self.fields.len();
        let keys: Vec<RowKey> = rows.iter().map(Row::key).collect();
        if keys == self.keys {
            let count = keys.len() as u64;
            put(out, count);
            if count > 0 {
                [count, 0, 0].into_iter().for_each(|run| put(out, run));
            }
            return;
        }
        let mut places: HashMap<&RowKey, usize> = HashMap::new();
        self.keys.iter().enumerate().for_each(|(place, key)| {
            places.entry(key).or_insert(place);
        });
        let mut cells = Vec::with_capacity(rows.len() * width);
        put(out, rows.len() as u64);
        let (mut old, mut new) = (0, 0);
        while old < self.keys.len() || new < rows.len() {
            let kept = keys[new..].iter().zip(&self.keys[old..]).take_while(|(new, old)| new == old).count();
            cells.extend_from_slice(&self.cells[old * width..(old + kept) * width]);
            (old, new) = (old + kept, new + kept);
            // New rows up to the next one that existed before, at a later position.
            let next = keys[new..].iter().position(|key| places.get(key).is_some_and(|place| *place >= old));
            let come = next.unwrap_or(rows.len() - new);
            let gone = match keys.get(new + come).and_then(|key| places.get(key)) {
                Some(place) if next.is_some() => place - old,
                _ => self.keys.len() - old,
            };
            let _ = meter.keep(0, of_histograms(&self.cells[old * width..(old + gone) * width]));
            cells.resize(cells.len() + come * width, Cell::NEW);
            (old, new) = (old + gone, new + come);
            [kept, gone, come].into_iter().for_each(|count| put(out, count as u64));
        }
        self.cells = cells;
        self.keys = keys;
    }
}

fn put_value(
    cell: &mut Cell,
    column: &Column,
    pace: Pace,
    value: &Value,
    texts: &mut HashMap<Arc<str>, u64>,
    meter: &mut Meter,
    out: &mut Vec<u8>,
) {
    if column.histogram {
        put_histogram(cell, value, meter, out);
        return;
    }
    let foretold = cell.foretold(column, pace);
    let whole = match value {
        Value::Number(number) => whole(*number, column.time),
        Value::Unknown | Value::Text(_) | Value::Histogram(_) => None,
    };
    let kept = match (value, whole, &foretold) {
        (_, Some(whole), Kept::Whole(near)) => {
            let near = *near;
            let step = step(column, pace);
            let difference = rounded(whole.saturating_sub(near), step);
            let there = near.saturating_add(difference.saturating_mul(step));
            match difference {
                0 => put(out, token::FORETOLD),
                _ => put(out, token::DIFFERENCE + zigzag(difference)),
            }
            Kept::Whole(there)
        }
        (_, Some(whole), _) => {
            put(out, token::DIFFERENCE + zigzag(whole));
            Kept::Whole(whole)
        }
        (Value::Number(number), None, _) => {
            let bits = number.to_bits();
            if foretold == Kept::Float(bits) {
                put(out, token::FORETOLD);
            } else {
                put(out, token::FLOAT);
                out.extend_from_slice(&bits.to_le_bytes());
            }
            Kept::Float(bits)
        }
        (Value::Text(text), ..) => {
            let count = texts.len() as u64;
            match texts.get(text) {
                Some(index) if foretold == Kept::Text(*index) => put(out, token::FORETOLD),
                Some(index) => {
                    put(out, token::TEXT);
                    put(out, *index);
                }
                None => {
                    let _ = meter.keep(of_text(text.len()), 0);
                    put(out, token::NEW_TEXT);
                    put_text(out, text);
                    texts.insert(Arc::clone(text), count);
                }
            }
            Kept::Text(texts.get(text).copied().unwrap_or(count))
        }
        (Value::Unknown | Value::Histogram(_), ..) => {
            put(out, if foretold == Kept::Unknown { token::FORETOLD } else { token::UNKNOWN });
            Kept::Unknown
        }
    };
    cell.set(kept);
}

fn put_histogram(cell: &mut Cell, value: &Value, meter: &mut Meter, out: &mut Vec<u8>) {
    let Value::Histogram(now) = value else {
        put(out, histogram_token::UNKNOWN);
        let _ = meter.keep(0, of_histograms([&*cell]));
        cell.set(Kept::Unknown);
        return;
    };
    let nothing = Histogram::default();
    let before = match &cell.kept {
        Kept::Histogram(before) => &**before,
        _ => &nothing,
    };
    if **now == *before {
        put(out, histogram_token::AS_BEFORE);
    } else {
        let _ = meter.work(of_histograms([&*cell]));
        let _ = meter.keep(now.buckets().len() as u64, of_histograms([&*cell]));
        let more = now.since(before);
        let mut again = before.clone();
        again.merge(&more);
        // Counters of another watch start from zero.
        let (more, base) = match again == **now {
            true => (more, histogram_token::ADDED),
            false => ((**now).clone(), histogram_token::WHOLE),
        };
        put(out, base + more.buckets().len() as u64);
        let mut last = 0;
        for (bucket, count) in more.buckets() {
            put(out, u64::from(bucket - last));
            put(out, *count);
            last = *bucket;
        }
        put(out, more.sum().0);
    }
    cell.set(Kept::Histogram(Arc::clone(now)));
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// 2^53: integers up to here are exact. A difference of two of them leaves room for its token.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// The number as an integer: times in microseconds, others if they have no fraction.
#[expect(clippy::cast_possible_truncation, reason = "whole, and below 2^53")]
fn whole(number: f64, is_time: bool) -> Option<i64> {
    let number = if is_time { (number * 1e6).round() } else { number };
    (number.fract() == 0.0 && number.abs() < WHOLE_MAX).then_some(number as i64)
}

/// The quotient, rounded to the nearest integer.
fn rounded(number: i64, step: i64) -> i64 {
    let half = step / 2;
    match number < 0 {
        true => number.saturating_sub(half) / step,
        false => number.saturating_add(half) / step,
    }
}

fn micros(time: Nanos) -> i64 {
    i64::try_from(time.0 / 1000).unwrap_or(i64::MAX)
}
