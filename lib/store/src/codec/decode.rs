//! Bytes to frames. All input is untrusted and checked.

use super::limits::{AT_MAX, Meter, of_histograms, of_text, of_texts};
use super::numbers::{Bytes, take, take_bytes, unzigzag};
use super::schema::{Column, Columns, Schema};
use super::state::{Cell, Kept, Pace, step};
use super::{histogram_token, mark, token};
use millpond_model::{HISTOGRAM_BUCKETS, Histogram, Nanos, WallTime};
use millpond_observe::catalogue::{Entity, FieldId, fields};
use millpond_observe::{Frame, Row, Value};
use std::sync::Arc;

/// The reason why bytes are not valid frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// Decodes frames in order.
#[derive(Debug)]
pub struct Decoder {
    tables: Vec<Table>,
    texts: Vec<Arc<str>>,
    /// The previous frame.
    frame: Frame,
    meter: Meter,
}

#[derive(Debug)]
struct Table {
    columns: Columns,
    entity: Option<Entity>,
    fields: Vec<Option<FieldId>>,
    /// Values per row: the number of encoded fields or of fields of this program, whichever is larger.
    breadth: u64,
    read_at: Option<Nanos>,
    before: i64,
    /// The cells, row by row.
    cells: Vec<Box<[Cell]>>,
    rows: usize,
}

impl Decoder {
    /// A decoder without earlier frames, limited by a meter.
    #[must_use]
    pub fn new(schema: &Schema, meter: Meter) -> Decoder {
        let breadth = |columns: &Columns| {
            let known = columns.entity().map_or(0, |entity| fields(entity).len());
            columns.fields.len().max(known) as u64
        };
        let table = |columns: &Columns| Table {
            entity: columns.entity(),
            breadth: breadth(columns),
            fields: columns.known(),
            columns: columns.clone(),
            read_at: None,
            before: 0,
            cells: Vec::new(),
            rows: 0,
        };
        let tables = schema.0.iter().map(table).collect();
        Decoder { tables, texts: Vec::new(), frame: Frame::default(), meter }
    }

    /// The work done so far.
    #[must_use]
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Decodes the next frame from the beginning of the bytes.
    ///
    /// # Errors
    /// [`Malformed`]; nothing can be decoded after that.
    pub fn frame(&mut self, bytes: &mut impl Bytes) -> Result<Frame, Malformed> {
        let at = self.frame.at + Nanos(take(bytes)?);
        if at.0 > AT_MAX {
            return Err(Malformed("its clock goes further than any clock does"));
        }
        let wall = WallTime(self.frame.wall.0.wrapping_add(unzigzag(take(bytes)?)));
        let mut frame = Frame::at(at, wall);
        frame.missing = match take(bytes)? {
            0 => std::mem::take(&mut self.frame.missing),
            count => {
                self.meter.keep(0, of_texts(&self.frame.missing))?;
                let meter = &mut self.meter;
                let text = |_| take_text(meter, bytes);
                (1..count).map(text).collect::<Result<_, _>>()?
            }
        };
        self.meter.frame(&frame.missing)?;
        for table in &mut self.tables {
            match take(bytes)? {
                mark::AS_BEFORE => {
                    self.meter.share(table.rows as u64 * table.breadth)?;
                    if let Some(entity) = table.entity {
                        frame.take_rows_of(entity, &self.frame);
                    }
                }
                mark::GONE => {
                    let histograms = of_histograms(table.cells.iter().flatten());
                    self.meter.keep(0, table.rows as u64 * table.breadth + histograms)?;
                    (table.read_at, table.before, table.rows) = (None, 0, 0);
                    table.cells.clear();
                }
                mark::READ => {
                    let read_at = at - Nanos(take(bytes)?);
                    let rows = table.reading(read_at, &mut self.texts, &mut self.meter, bytes)?;
                    if let Some(entity) = table.entity {
                        frame.set_rows_read_at(entity, read_at, rows);
                    }
                }
                _ => return Err(Malformed("there is no such mark of a table")),
            }
        }
        self.frame = frame.clone();
        Ok(frame)
    }
}

impl Table {
    fn reading(
        &mut self,
        read_at: Nanos,
        texts: &mut Vec<Arc<str>>,
        meter: &mut Meter,
        bytes: &mut impl Bytes,
    ) -> Result<Vec<Row>, Malformed> {
        let now =
            self.read_at.map_or(0, |before| i64::try_from((read_at - before).0 / 1000).unwrap_or(i64::MAX));
        let pace = Pace { now, before: self.before };
        (self.read_at, self.before) = (Some(read_at), now);
        self.keep_rows(meter, bytes)?;
        let mut rows: Vec<Row> = match self.entity {
            Some(entity) => (0..self.rows).map(|_| Row::of(entity)).collect(),
            None => Vec::new(),
        };
        for (index, (column, id)) in self.columns.fields.iter().zip(&self.fields).enumerate() {
            for (place, cells) in self.cells.iter_mut().enumerate() {
                let kept = take_value(&cells[index], column, pace, texts, meter, bytes)?;
                if let (Some(id), Some(row)) = (id, rows.get_mut(place)) {
                    row.set(*id, value(&kept, column, texts));
                }
                cells[index].set(kept);
            }
        }
        Ok(rows)
    }

    /// Updates the cells to the rows of this reading.
    fn keep_rows(&mut self, meter: &mut Meter, bytes: &mut impl Bytes) -> Result<(), Malformed> {
        let width = self.fields.len();
        let count = take_count(bytes)?;
        // Each row takes at least one byte per column.
        if width == 0 || count.saturating_mul(width) > bytes.left() {
            return Err(Malformed("there are more rows than bytes"));
        }
        let values = (count as u64).saturating_mul(self.breadth);
        meter.work(values)?;
        meter.keep(values, self.rows as u64 * self.breadth)?;
        let mut before = std::mem::take(&mut self.cells).into_iter();
        let mut cells = Vec::with_capacity(count);
        let (mut old, mut new) = (0, 0);
        while old < self.rows || new < count {
            let (kept, gone, come) = (take_count(bytes)?, take_count(bytes)?, take_count(bytes)?);
            let (old_end, new_end) = (kept.saturating_add(gone), kept.saturating_add(come));
            if (old_end == 0 && new_end == 0) || old_end > self.rows - old || new_end > count - new {
                return Err(Malformed("rows are kept that are not there"));
            }
            cells.extend(before.by_ref().take(kept));
            let lost = before.by_ref().take(gone).map(|cells| of_histograms(&cells)).sum();
            meter.keep(0, lost)?;
            cells.extend((0..come).map(|_| vec![Cell::NEW; width].into_boxed_slice()));
            (old, new) = (old + old_end, new + new_end);
        }
        self.cells = cells;
        self.rows = count;
        Ok(())
    }
}

fn take_value(
    cell: &Cell,
    column: &Column,
    pace: Pace,
    texts: &mut Vec<Arc<str>>,
    meter: &mut Meter,
    bytes: &mut impl Bytes,
) -> Result<Kept, Malformed> {
    if column.histogram {
        return take_histogram(cell, meter, bytes);
    }
    let foretold = cell.foretold(column, pace);
    match take(bytes)? {
        token::FORETOLD => Ok(foretold),
        token::UNKNOWN => Ok(Kept::Unknown),
        token::FLOAT => {
            let eight = take_bytes(bytes, 8)?;
            let eight = eight.try_into().map_err(|_| Malformed("a number is too short"))?;
            Ok(Kept::Float(u64::from_le_bytes(eight)))
        }
        token::NEW_TEXT => {
            texts.push(take_text(meter, bytes)?.into());
            Ok(Kept::Text(texts.len() as u64 - 1))
        }
        token::TEXT => {
            let index = take(bytes)?;
            let is_there = usize::try_from(index).is_ok_and(|index| index < texts.len());
            is_there.then_some(Kept::Text(index)).ok_or(Malformed("there is no such text"))
        }
        number => {
            let difference = unzigzag(number - token::DIFFERENCE);
            Ok(match foretold {
                Kept::Whole(near) => {
                    Kept::Whole(near.saturating_add(difference.saturating_mul(step(column, pace))))
                }
                _ => Kept::Whole(difference),
            })
        }
    }
}

fn take_histogram(cell: &Cell, meter: &mut Meter, bytes: &mut impl Bytes) -> Result<Kept, Malformed> {
    let before = match &cell.kept {
        Kept::Histogram(before) => Some(before),
        _ => None,
    };
    let (is_whole, buckets) = match take(bytes)? {
        histogram_token::AS_BEFORE => {
            return Ok(Kept::Histogram(before.map(Arc::clone).unwrap_or_default()));
        }
        histogram_token::UNKNOWN => {
            meter.keep(0, of_histograms([cell]))?;
            return Ok(Kept::Unknown);
        }
        token if token >= histogram_token::WHOLE => (true, token - histogram_token::WHOLE),
        token => (false, token - histogram_token::ADDED),
    };
    if buckets > HISTOGRAM_BUCKETS as u64 {
        return Err(Malformed("a histogram has too many buckets"));
    }
    meter.work(of_histograms([cell]))?;
    let mut last = 0u64;
    let mut found = Vec::new();
    for _ in 0..buckets {
        last = last.saturating_add(take(bytes)?);
        let bucket = u16::try_from(last).map_err(|_| Malformed("there is no such bucket"))?;
        found.push((bucket, take(bytes)?));
    }
    let sum = Nanos(take(bytes)?);
    let read =
        Histogram::of_buckets(found, sum).ok_or(Malformed("the buckets of a histogram are out of order"))?;
    let mut all = before.filter(|_| !is_whole).map(|before| (**before).clone()).unwrap_or_default();
    all.merge(&read);
    meter.keep(all.buckets().len() as u64, of_histograms([cell]))?;
    Ok(Kept::Histogram(Arc::new(all)))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "what was written is below 2^53; of what was not nothing is promised"
)]
fn value(kept: &Kept, column: &Column, texts: &[Arc<str>]) -> Value {
    match kept {
        Kept::Unknown => Value::Unknown,
        Kept::Histogram(histogram) => Value::Histogram(Arc::clone(histogram)),
        Kept::Whole(whole) if column.time => Value::Number(*whole as f64 / 1e6),
        Kept::Whole(whole) => Value::Number(*whole as f64),
        Kept::Float(bits) => Value::Number(f64::from_bits(*bits)),
        Kept::Text(index) => {
            let text = usize::try_from(*index).ok().and_then(|index| texts.get(index));
            text.map_or(Value::Unknown, |text| Value::Text(Arc::clone(text)))
        }
    }
}

fn take_count(bytes: &mut impl Bytes) -> Result<usize, Malformed> {
    usize::try_from(take(bytes)?).map_err(|_| Malformed("a number is too large"))
}

fn take_text(meter: &mut Meter, bytes: &mut impl Bytes) -> Result<String, Malformed> {
    let length = take_count(bytes)?;
    meter.keep(of_text(length), 0)?;
    String::from_utf8(take_bytes(bytes, length)?).map_err(|_| Malformed("a text is not UTF-8"))
}
